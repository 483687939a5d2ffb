from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.frontier import Frontier
from crypto.frontier_array import FrontierArray
from crypto.merkle import EMPTY_ROOT, leaf_hash

LENGTHS = st.lists(st.integers(0, 40), max_size=8)


def columns_of(num_columns, count):
    """Return distinct leaf hashes, uint8[C, n, 32]."""
    hashes = [leaf_hash(b"%d %d" % (c, i)) for c in range(num_columns) for i in range(count)]
    return np.frombuffer(b"".join(hashes), np.uint8).reshape(num_columns, count, 32)


def listed(column):
    return [bytes(row) for row in column]


@settings(deadline=None, max_examples=40)
@given(size=st.integers(0, 130))
def test_frontier_root_after_every_leaf(recursive_tree, size):
    leaves = [leaf_hash(i.to_bytes(2, "big")) for i in range(size)]
    frontier = Frontier()
    assert frontier.root() == EMPTY_ROOT
    for i, leaf in enumerate(leaves):
        frontier.append(leaf)
        assert frontier.size == i + 1
        if i % 7 == 0 or i == size - 1:
            assert frontier.root() == recursive_tree.root(leaves[: i + 1])


@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_frontier_takes_aligned_subtrees(recursive_tree, data):
    leaves = [leaf_hash(i.to_bytes(2, "big")) for i in range(120)]
    frontier = Frontier()
    while frontier.size < 80:
        start = frontier.size
        alignment = (start & -start).bit_length() - 1 if start else 5
        level = data.draw(st.integers(0, min(alignment, 5)))
        end = start + (1 << level)
        frontier.append_subtree(recursive_tree.root(leaves[start:end]), level)
        assert frontier.size == end
    assert frontier.root() == recursive_tree.root(leaves[: frontier.size])


def test_frontier_refuses_what_does_not_fit():
    frontier = Frontier()
    frontier.append(EMPTY_ROOT)
    for level in (1, 6, -1):
        with pytest.raises(ValueError, match="does not fit"):
            frontier.append_subtree(EMPTY_ROOT, level)
    with pytest.raises(ValueError, match="32 bytes"):
        frontier.append(bytes(31))
    assert frontier.size == 1
    assert frontier.root() == EMPTY_ROOT


def test_frontier_copy_is_independent():
    first = Frontier()
    for i in range(5):
        first.append(leaf_hash(b"%d" % i))
    second, before = first.copy(), first.root()
    second.append(leaf_hash(b"more"))
    assert (first.size, first.root()) == (5, before)
    first.append(leaf_hash(b"more"))
    assert (first.size, first.root()) == (second.size, second.root())


@settings(deadline=None, max_examples=80)
@given(
    num_columns=st.integers(1, 4), lengths=LENGTHS, block_leaves=st.sampled_from([1, 2, 4, 16, 64])
)
def test_array_equals_the_recursive_definition_under_any_split(
    recursive_tree, num_columns, lengths, block_leaves
):
    leaves = columns_of(num_columns, sum(lengths))
    frontiers = FrontierArray(num_columns, block_leaves=block_leaves)
    blocks = [np.empty((num_columns, 0, 32), np.uint8)]
    start = 0
    for length in lengths:
        new_blocks = frontiers.append(leaves[:, start : start + length])
        blocks.append(new_blocks)
        start += length
        assert frontiers.size == start
        assert sum(block.shape[1] for block in blocks) == start // block_leaves
        expected = [recursive_tree.root(listed(column[:start])) for column in leaves]
        assert listed(frontiers.roots()) == expected
    for column, roots in zip(leaves, np.concatenate(blocks, axis=1), strict=True):
        starts = range(0, start // block_leaves * block_leaves, block_leaves)
        cut = [listed(column[i : i + block_leaves]) for i in starts]
        assert listed(roots) == [recursive_tree.root(part) for part in cut]


@settings(deadline=None, max_examples=60)
@given(
    size=st.integers(0, 100),
    block_leaves=st.sampled_from([1, 2, 8, 16]),
    cached=st.lists(st.integers(0, 4), max_size=3),
)
def test_array_goes_on_from_cached_blocks(size, block_leaves, cached):
    leaves = columns_of(3, size)
    cold = FrontierArray(3, block_leaves=block_leaves)
    blocks = cold.append(leaves)
    warm = FrontierArray(3, block_leaves=block_leaves)
    done = 0
    for count in cached:
        end = min(done + count, blocks.shape[1])
        warm.append_blocks(blocks[:, done:end])
        done = end
    rest = warm.append(leaves[:, done * block_leaves :])
    assert warm.size == cold.size == size
    assert np.array_equal(rest, blocks[:, done:])
    assert np.array_equal(warm.roots(), cold.roots())


def test_array_equals_single_frontiers():
    leaves = columns_of(5, 150)
    frontiers = FrontierArray(5)
    frontiers.append(leaves[:, :70])
    frontiers.append(leaves[:, 70:])
    for column, root in zip(leaves, frontiers.roots(), strict=True):
        single = Frontier()
        for leaf in listed(column):
            single.append(leaf)
        assert bytes(root) == single.root()


def test_array_properties_and_empty_roots():
    frontiers = FrontierArray(3)
    assert (frontiers.size, frontiers.num_columns, frontiers.block_leaves) == (0, 3, 64)
    assert listed(frontiers.roots()) == [EMPTY_ROOT] * 3
    assert frontiers.append(columns_of(3, 63)).shape == (3, 0, 32)
    assert frontiers.append(columns_of(3, 1)).shape == (3, 1, 32)


@pytest.mark.parametrize("size", [4, 5])  # one peak, several peaks
def test_array_shares_no_memory_with_the_caller(size):
    leaves = columns_of(2, 6).copy()
    frontiers = FrontierArray(2, block_leaves=1)
    blocks = frontiers.append(leaves[:, :size])
    expected, expected_blocks = frontiers.roots().copy(), blocks.copy()
    leaves[:] = 0
    assert np.array_equal(blocks, expected_blocks)
    blocks[:] = 0
    frontiers.roots()[:] = 0
    assert np.array_equal(frontiers.roots(), expected)


def test_array_copy_is_independent():
    leaves = columns_of(2, 100)
    first = FrontierArray(2, block_leaves=16)
    first.append(leaves[:, :75])
    second, before = first.copy(), first.roots()
    second.append(leaves[:, 75:])
    assert first.size == 75
    assert np.array_equal(first.roots(), before)
    first.append(leaves[:, 75:])
    assert np.array_equal(first.roots(), second.roots())
    assert second.block_leaves == 16


def test_array_refuses_what_does_not_fit():
    frontiers = FrontierArray(2, block_leaves=4)
    for shape in ((3, 1, 32), (2, 1, 31), (2, 32)):
        with pytest.raises(ValueError, match="hashes must be"):
            frontiers.append(np.zeros(shape, np.uint8))
    with pytest.raises(ValueError, match="uint8"):
        frontiers.append(np.zeros((2, 1, 32), np.int8))
    frontiers.append(columns_of(2, 3))
    with pytest.raises(ValueError, match="does not fit"):
        frontiers.append_blocks(columns_of(2, 1))
    assert frontiers.size == 3
    with pytest.raises(ValueError, match="power of two"):
        FrontierArray(2, block_leaves=48)
    with pytest.raises(ValueError, match="power of two"):
        FrontierArray(2, block_leaves=0)
    with pytest.raises(ValueError, match="at least one column"):
        FrontierArray(0)
