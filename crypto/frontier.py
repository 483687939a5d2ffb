"""The frontier of a growing Merkle tree: what is needed to go on and to give the root any time."""

from __future__ import annotations

from crypto.merkle import EMPTY_ROOT, node_hash
from crypto.sm3 import DIGEST_BYTES


class Frontier:
    """A Merkle tree of which only the roots of its perfect subtrees are kept.

    A tree of n leaves has one such subtree for each bit set in n, the largest first. The root
    always equals `crypto.merkle.root` over the same leaf hashes.
    """

    __slots__ = ("_peaks", "_size")

    def __init__(self) -> None:
        """Start with the empty tree."""
        self._peaks: list[bytes] = []
        self._size = 0

    @property
    def size(self) -> int:
        """Number of leaves."""
        return self._size

    def append(self, leaf_hash: bytes) -> None:
        """Append one leaf.

        Raises:
            ValueError: the hash has not 32 bytes.
        """
        self.append_subtree(leaf_hash, 0)

    def append_subtree(self, subtree_root: bytes, level: int) -> None:
        """Append 2**level leaves, of which only the root is known.

        Raises:
            ValueError: the tree's size is no multiple of 2**level, the level is negative, or the
                root has not 32 bytes.
        """
        if len(subtree_root) != DIGEST_BYTES:
            raise ValueError(f"a hash must have 32 bytes, not {len(subtree_root)}")
        if level < 0 or self._size % (1 << level):
            raise ValueError(f"a subtree of level {level} does not fit after {self._size} leaves")
        node = subtree_root
        position = self._size >> level
        while position & 1:
            node = node_hash(self._peaks.pop(), node)
            position >>= 1
        self._peaks.append(node)
        self._size += 1 << level

    def root(self) -> bytes:
        """Return the root of the tree as it is now."""
        if not self._peaks:
            return EMPTY_ROOT
        node = self._peaks[-1]
        for peak in self._peaks[-2::-1]:
            node = node_hash(peak, node)
        return node

    def copy(self) -> Frontier:
        """Return an independent frontier of the same tree."""
        other = Frontier()
        other._peaks = self._peaks.copy()
        other._size = self._size
        return other
