"""Where the nodes of the tree are stored, and the proofs that are read from there.

Each entry brings its leaf hash and then, from below, the nodes of which it is the last leaf. Before
leaf i these are 2i - popcount(i) nodes, so that every node has a place that is computed.

Source: RFC 9162 section 2.1 (shape of the tree and of the proofs).
"""

from __future__ import annotations

from collections.abc import Callable

from crypto.merkle import EMPTY_ROOT, node_hash


def place_of_leaf(leaf: int) -> int:
    """Return how many nodes are stored before leaf `leaf`, which is the place of its hash."""
    return 2 * leaf - leaf.bit_count()


def place_of(level: int, number: int) -> int:
    """Return the place of the node over leaves number * 2**level and the 2**level - 1 after it."""
    return place_of_leaf(((number + 1) << level) - 1) + level


def last_leaf_of(level: int, number: int) -> int:
    """Return the leaf that completes this node."""
    return ((number + 1) << level) - 1


def completed_levels(leaf: int) -> int:
    """Return how many nodes above its own hash the leaf `leaf` completes."""
    return (~leaf & (leaf + 1)).bit_length() - 1


def peaks(size: int) -> list[tuple[int, int]]:
    """Return level and number of each perfect subtree of a tree, the largest first."""
    return _perfect(0, size)


class Tree:
    """Roots and proofs of a log's tree at any of its sizes, from nodes that are read one by one."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        """Read nodes with `read(level, number)`, which returns 32 bytes."""
        self._read = read

    def root(self, size: int) -> bytes:
        """Return the root of the tree of the first `size` entries."""
        return self._root(0, size) if size else EMPTY_ROOT

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """Return the hashes from leaf `index` to the root of the tree of `size`, lowest first.

        Raises:
            IndexError: there is no such leaf.
        """
        if not 0 <= index < size:
            raise IndexError(f"no entry {index} in a tree of {size}")
        start, end = 0, size
        path = []
        while end - start > 1:
            middle = _split(start, end)
            if index < middle:
                path.append(self._root(middle, end))
                end = middle
            else:
                path.append(self._root(start, middle))
                start = middle
        path.reverse()
        return path

    def consistency(self, first: int, second: int) -> list[bytes]:
        """Return the hashes that show that the tree of `second` extends that of `first`.

        Raises:
            IndexError: the second tree is the smaller one.
        """
        if not 0 <= first <= second:
            raise IndexError(f"no older tree of {first} in a tree of {second}")
        if first == 0:
            return []
        start, end = 0, second
        path = []
        while end != first:
            middle = _split(start, end)
            if first <= middle:
                path.append(self._root(middle, end))
                end = middle
            else:
                path.append(self._root(start, middle))
                start = middle
        if start != 0:
            path.append(self._root(start, end))
        path.reverse()
        return path

    def _root(self, start: int, end: int) -> bytes:
        """Return the root over leaves start..end-1, where start begins a subtree of that size."""
        hashes = [self._read(level, number) for level, number in _perfect(start, end)]
        node = hashes[-1]
        for left in hashes[-2::-1]:
            node = node_hash(left, node)
        return node


def _split(start: int, end: int) -> int:
    """Return where the right subtree of the tree over start..end-1 begins."""
    return start + (1 << (end - start - 1).bit_length() - 1)


def _perfect(start: int, end: int) -> list[tuple[int, int]]:
    """Return level and number of the perfect subtrees of start..end-1, the largest first."""
    found = []
    while start < end:
        level = (end - start).bit_length() - 1
        found.append((level, start >> level))
        start += 1 << level
    return found
