"""The trace grows piece by piece to the root that the definition computes at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.frontier_array import FrontierArray
from crypto.merkle import leaf_hash, root
from crypto.sm3_rows import PORTABLE
from engine.reference.arrays import F32
from engine.reference.trace import layer_roots, trace_root
from engine.trace import Trace, leaf_hashes

LAYERS = 2
WIDTH = 32


def residuals(positions: int) -> F32:
    """Return float32[LAYERS + 1, positions, WIDTH], every row another."""
    size = (LAYERS + 1) * positions * WIDTH
    return np.arange(size, dtype=np.float32).reshape(LAYERS + 1, positions, WIDTH) / np.float32(7)


def grown(x: F32, edges: list[int]) -> tuple[Trace, list[np.ndarray]]:
    """Return the trace of x, appended in pieces, and the block roots that each append gave."""
    trace = Trace(LAYERS)
    blocks = [trace.append(leaf_hashes(x[:, a:b], PORTABLE)) for a, b in pairwise(edges)]
    return trace, blocks


@given(positions=st.integers(1, 200), cuts=st.sets(st.integers(1, 199), max_size=9))
@settings(max_examples=30)
def test_any_pieces_give_the_root_of_the_definition(positions: int, cuts: set[int]):
    x = residuals(positions)
    edges = [0, *sorted(c for c in cuts if c < positions), positions]
    trace, blocks = grown(x, edges)
    assert trace.num_positions == positions
    assert trace.root() == trace_root(x)
    whole = np.concatenate(blocks, axis=1)
    assert whole.shape == (LAYERS + 1, positions // 64, 32)
    for block in range(positions // 64):
        expected = layer_roots(x[:, 64 * block : 64 * (block + 1)])
        assert [r.tobytes() for r in whole[:, block]] == expected


def test_roots_of_full_blocks_stand_for_their_positions():
    x = residuals(150)
    _, blocks = grown(x, [0, 60, 70, 130, 150])
    cached = FrontierArray(LAYERS + 1, block_leaves=64)
    cached.append_blocks(np.concatenate(blocks, axis=1))
    assert [r.tobytes() for r in cached.roots()] == layer_roots(x[:, :128])


def test_a_trace_goes_on_behind_cached_blocks():
    x = residuals(150)
    _, blocks = grown(x, [0, 150])
    warm = Trace(LAYERS)
    warm.append_blocks(blocks[0][:, :1])
    warm.append_blocks(blocks[0][:, 1:])
    assert warm.num_positions == 128
    warm.append(leaf_hashes(x[:, 128:], PORTABLE))
    assert warm.root() == trace_root(x)
    with pytest.raises(ValueError, match="does not fit after 150 leaves"):
        warm.append_blocks(blocks[0][:, :1])


@pytest.mark.parametrize("positions", [1, 2, 63, 64, 65, 128])
def test_one_position_at_a_time(positions: int):
    x = residuals(positions)
    trace, _ = grown(x, list(range(positions + 1)))
    assert trace.root() == trace_root(x)


def test_the_root_binds_every_layer_and_position():
    x = residuals(5)
    roots = {grown(x, [0, 5])[0].root()}
    for layer in range(LAYERS + 1):
        for position in range(5):
            other = x.copy()
            other[layer, position, 9] = np.nextafter(other[layer, position, 9], np.float32(np.inf))
            roots.add(grown(other, [0, 5])[0].root())
    roots.add(grown(x[:, :4], [0, 4])[0].root())
    assert len(roots) == 2 + 5 * (LAYERS + 1)


def test_zeros_of_either_sign_are_not_the_same():
    x = np.zeros((LAYERS + 1, 1, WIDTH), np.float32)
    assert grown(x, [0, 1])[0].root() != grown(-x, [0, 1])[0].root()


def test_a_trace_without_positions_is_that_of_empty_trees():
    empty = root([])
    assert Trace(LAYERS).root() == root([leaf_hash(empty)] * (LAYERS + 1))
