"""Reading a file in pieces: which, in what order, by every way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.bench import reading
from appliance.bench.cgroup import NotMeasurableError
from appliance.bench.disk import Disk
from appliance.bench.reading import (
    SEQUENTIAL_BYTES,
    direct_speed,
    extent_spans,
    measure_reading,
    part_of,
    require,
    sequential_spans,
)
from appliance.bench.ways import WAYS, Reading, Span, opened_way
from engine.errors import WeightsUncheckedError
from engine.memory.buffers import mapped_pages
from engine.vqf.manifest import Extent

PAGE = 4096
SIZE = 5 * PAGE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of some pages on a disk."""
    if Disk.of(tmp_path).device is None:
        pytest.skip("a disk is measured only where files are on one: none here")
    path = tmp_path / "file"
    path.write_bytes(os.urandom(SIZE))
    return path


def patterns() -> dict[str, list[Span]]:
    """Both patterns over the file."""
    return {
        "sequential": sequential_spans(PAGE, SIZE),
        "extents": [Span(PAGE, PAGE), Span(2 * PAGE, 3 * PAGE)],
    }


def extent(offset: int, length: int) -> Extent:
    """An extent without tensors."""
    return Extent("x", offset, length, bytes(32), ())


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 24))
def test_sequential_spans_cover(start: int, length: int) -> None:
    spans = sequential_spans(start, start + length)
    assert spans[0].offset == start
    assert [a.offset + a.length for a in spans] == [b.offset for b in spans[1:]] + [start + length]
    assert max(span.length for span in spans) <= SEQUENTIAL_BYTES


def test_extents_in_the_order_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LONGEST_BYTES", 2 * PAGE)
    spans = extent_spans([extent(0, 100), extent(PAGE, 5 * PAGE - 1)], 8192)
    assert spans == [
        Span(8192, PAGE),
        Span(8192 + PAGE, 2 * PAGE),
        Span(8192 + 3 * PAGE, 2 * PAGE),
        Span(8192 + 5 * PAGE, PAGE),
    ]


def test_other_parts_in_other_rounds() -> None:
    spans = [Span(n * PAGE, PAGE) for n in range(5)]
    assert part_of(spans, 2 * PAGE, 0) == spans[:2]
    assert part_of(spans, 2 * PAGE, 1) == spans[2:4]
    assert part_of(spans, 2 * PAGE, 2) == [spans[4], spans[0]]
    assert part_of(spans, 100 * PAGE, 7) == spans


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=12),
    st.integers(1, 400),
    st.integers(0, 20),
)
def test_a_part_is_never_empty_or_twice(lengths: list[int], size: int, number: int) -> None:
    spans = [Span(sum(lengths[:i]), length) for i, length in enumerate(lengths)]
    part = part_of(spans, size, number)
    assert part
    assert len(set(part)) == len(part)
    assert sum(span.length for span in part) <= max(size, part[0].length)


def test_a_reading_brings_the_bytes(file: Path) -> None:
    content = file.read_bytes()
    for name in ("direct", "buffered", "cached"):
        memory = mapped_pages(SIZE).data
        with opened_way(name, file) as way:
            way.take(Span(PAGE, 3 * PAGE), memory)
            assert memory[: 3 * PAGE] == content[PAGE : 4 * PAGE]
            assert not any(memory[3 * PAGE :])


def test_a_file_that_ends_early(file: Path) -> None:
    with (
        opened_way("cached", file) as way,
        pytest.raises(WeightsUncheckedError, match=f"the file ends at {SIZE}"),
    ):
        way.take(Span(4 * PAGE, 2 * PAGE), mapped_pages(SIZE).data)


def test_a_read_that_fails() -> None:
    with pytest.raises(WeightsUncheckedError, match="at 0: Bad"):
        Reading(1 << 20).take(Span(0, PAGE), mapped_pages(PAGE).data)


def test_every_way_is_measured(file: Path) -> None:
    calls: list[tuple[int, int]] = []
    speeds = measure_reading(
        file, patterns(), threads=(1, 3), size_bytes=SIZE, rounds=2,
        progress=lambda done, total: calls.append((done, total)),
    )  # fmt: skip
    found = [(each.way, each.pattern, each.threads) for each in speeds]
    assert len(set(found)) == len(found) == 2 * (len(WAYS) + 3)
    assert {way for way, _, _ in found} == set(WAYS)
    assert all(len(each.bytes_per_s) == 2 and min(each.bytes_per_s) > 0 for each in speeds)
    assert calls[-1] == (4 * (len(WAYS) + 3),) * 2
    assert speeds[0].as_json()["way"] == "direct"


def test_what_is_needed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def needed(most_s: float) -> tuple[int, int, float]:
        return require(file, patterns(), threads=(1, 2), size_bytes=SIZE, rounds=3, most_s=most_s)

    disk, memory, seconds = needed(3600)
    assert disk == (len(WAYS) + 3) * 2 * 3 * 4 * PAGE
    assert memory == 4 * PAGE + 2 * 4 * PAGE
    assert seconds > 0
    with pytest.raises(NotMeasurableError, match="it would take about") as caught:
        needed(0)
    assert caught.value.reason == "time"
    monkeypatch.setattr(reading, "available_bytes", lambda: memory - 1)
    with pytest.raises(NotMeasurableError, match=f"{memory} bytes of memory") as caught:
        needed(3600)
    assert caught.value.reason == "memory"


def test_a_file_without_a_page(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(b"short")
    with pytest.raises(NotMeasurableError) as caught:
        direct_speed(path, 1 << 20)
    assert caught.value.reason == "size"
