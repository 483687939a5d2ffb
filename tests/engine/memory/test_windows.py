"""Where matrices are cut, and the parts of a program that follow from it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ConfigError
from engine.memory.weights import PlacedTensor
from engine.memory.windows import Cutter, Window
from engine.models.stages import Plan, Stage

PANEL = 640


def tensors(sizes: list[tuple[int, int]]) -> list[PlacedTensor]:
    """Matrices of so many panels, each behind the one before with a gap; the first of each pair
    says whether a new extent begins."""
    placed, base, offset = [], 1, 0
    for is_new, panels in sizes:
        if is_new:
            base, offset = base + 1, 0
        placed.append(PlacedTensor("m", "F16", (16 * panels - 3, 20), base, offset))
        offset += panels * PANEL + 64
    return placed


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 40)), min_size=1, max_size=12),
    st.integers(PANEL, 20 * PANEL),
)
@settings(deadline=None, max_examples=200)
def test_every_panel_is_in_one_window_that_holds_it(sizes, window_bytes: int):
    cutter = Cutter(window_bytes)
    cut = [(tensor, list(cutter.cut(tensor, PANEL))) for tensor in tensors(sizes)]
    windows = cutter.windows
    assert [window.number for window in windows] == list(range(len(windows)))
    seen = []
    for tensor, ranges in cut:
        assert [r.first for r in ranges] == [sum(r.num_panels for r in ranges[:n])
                                             for n in range(len(ranges))]  # fmt: skip
        assert sum(r.num_panels for r in ranges) == -(-tensor.shape[0] // 16)
        for part in ranges:
            window = windows[part.window]
            start = tensor.offset_bytes + part.first * PANEL
            assert window.base == tensor.base
            assert window.start_bytes <= start
            assert start + part.num_panels * PANEL <= window.stop_bytes
            seen.append(part.window)
    assert seen == sorted(seen)
    assert all(w.stop_bytes - w.start_bytes <= window_bytes for w in windows)


def test_a_panel_that_is_too_large():
    with pytest.raises(ConfigError):
        list(Cutter(PANEL - 1).cut(tensors([(False, 1)])[0], PANEL))


def test_a_stage_begins_with_each_layer_each_window_and_the_head():
    windows = [Window(n, 1, n, n + 1) for n in range(4)]
    plan = Plan()
    plan.starts_layer(2, 0)
    plan.needs(3, 0)
    plan.needs(4, 0)
    plan.needs(6, 1)
    plan.starts_layer(8, 1)
    plan.needs(9, 2)
    plan.starts_head(11)
    plan.needs(11, 3)
    assert plan.stages(13, windows) == [
        Stage(0, 2, None, None, is_head=False),
        Stage(2, 6, windows[0], 0, is_head=False),
        Stage(6, 8, windows[1], None, is_head=False),
        Stage(8, 11, windows[2], 1, is_head=False),
        Stage(11, 13, windows[3], None, is_head=True),
    ]
