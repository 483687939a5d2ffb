"""Many Merkle frontiers of equal size that grow together: one column per layer of a trace.

Letters: C columns, n new leaves a column, m subtrees.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crypto.merkle import EMPTY_ROOT, NODE_PREFIX
from crypto.sm3 import DIGEST_BYTES
from crypto.sm3_rows import PORTABLE, RowHasher


class FrontierArray:
    """C Merkle trees of the same size, each as `crypto.frontier.Frontier` would keep it.

    New leaves cost one call of the row hash per tree level, whatever their number and that of the
    columns. `block_leaves` leaves, aligned, are a block: its roots come out when it is complete and
    can stand for its leaves in another tree, so that a cached block need not be hashed again.
    """

    __slots__ = ("_block_level", "_hasher", "_num_columns", "_peaks", "_size")

    def __init__(
        self, num_columns: int, *, block_leaves: int = 64, hasher: RowHasher = PORTABLE
    ) -> None:
        """Start with empty trees.

        Args:
            num_columns: how many.
            block_leaves: leaves of a block, a power of two.
            hasher: hashes inner nodes.

        Raises:
            ValueError: there is no column, or `block_leaves` is no power of two.
        """
        if num_columns < 1:
            raise ValueError(f"there must be at least one column, not {num_columns}")
        if block_leaves < 1 or block_leaves & (block_leaves - 1):
            raise ValueError(f"block_leaves must be a power of two, not {block_leaves}")
        self._num_columns = num_columns
        self._hasher = hasher
        self._block_level = block_leaves.bit_length() - 1
        # _peaks[k], uint8[C, 32]: roots of the perfect subtrees of 2**k leaves, present where bit k
        # of the size is set.
        self._peaks: list[NDArray[np.uint8] | None] = []
        self._size = 0

    @property
    def size(self) -> int:
        """Number of leaves in each column."""
        return self._size

    @property
    def num_columns(self) -> int:
        """Number of columns."""
        return self._num_columns

    @property
    def block_leaves(self) -> int:
        """Number of leaves in a block."""
        return 1 << self._block_level

    def append(self, leaf_hashes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Append n leaves to every column.

        Args:
            leaf_hashes: uint8[C, n, 32]

        Returns:
            uint8[C, m, 32], the roots of the m blocks that became complete, the first of which is
            block `size_before // block_leaves`.

        Raises:
            ValueError: the shape or dtype is not as above.
        """
        return self._grow(leaf_hashes, 0)

    def append_blocks(self, block_roots: NDArray[np.uint8]) -> None:
        """Append m whole blocks to every column, given by their roots.

        Args:
            block_roots: uint8[C, m, 32], as `append` returned them.

        Raises:
            ValueError: the shape or dtype is not as above, or the size is no multiple of
                `block_leaves`.
        """
        if self._size % self.block_leaves:
            raise ValueError(f"a block does not fit after {self._size} leaves")
        self._grow(block_roots, self._block_level)

    def roots(self) -> NDArray[np.uint8]:
        """Return the root of every column as it is now, uint8[C, 32]."""
        present = [peak for peak in self._peaks if peak is not None]
        if not present:
            return np.tile(np.frombuffer(EMPTY_ROOT, np.uint8), (self._num_columns, 1))
        nodes = present[0].copy()
        for peak in present[1:]:
            nodes = self._hasher.hash_pairs(NODE_PREFIX, peak, nodes)
        return nodes

    def copy(self) -> FrontierArray:
        """Return independent frontiers of the same trees."""
        other = FrontierArray(
            self._num_columns, block_leaves=self.block_leaves, hasher=self._hasher
        )
        # Peaks are replaced, never written to, so both may hold the same arrays.
        other._peaks = self._peaks.copy()
        other._size = self._size
        return other

    def _grow(self, nodes: NDArray[np.uint8], level: int) -> NDArray[np.uint8]:
        """Append subtrees of 2**level leaves, uint8[C, n, 32]; return roots of completed blocks."""
        if nodes.dtype != np.uint8:
            raise ValueError(f"hashes must be uint8, not {nodes.dtype}")
        columns = self._num_columns
        if nodes.ndim != 3 or nodes.shape[0] != columns or nodes.shape[2] != DIGEST_BYTES:
            raise ValueError(f"hashes must be [{columns}, n, {DIGEST_BYTES}], not {nodes.shape}")
        added = nodes.shape[1] << level
        blocks = nodes[:, :0]
        while nodes.shape[1]:
            if level == self._block_level:
                blocks = nodes
            while len(self._peaks) <= level:
                self._peaks.append(None)
            waiting = self._peaks[level]
            if waiting is not None:
                nodes = np.concatenate((waiting[:, None], nodes), axis=1)
            pairs, odd = divmod(nodes.shape[1], 2)
            self._peaks[level] = nodes[:, -1].copy() if odd else None
            # Two neighbours are one row: their bytes already lie side by side.
            pair_rows = nodes[:, : 2 * pairs].reshape(columns * pairs, 2 * DIGEST_BYTES)
            roots = self._hasher.hash_rows(NODE_PREFIX, pair_rows)
            nodes = roots.reshape(columns, pairs, DIGEST_BYTES)
            level += 1
        self._size += added
        return blocks.copy()
