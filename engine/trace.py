"""The trace of one sequence: what an auditor recomputes to check an answer (NUMERICS N11)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crypto.frontier_array import FrontierArray
from crypto.merkle import LEAF_PREFIX, leaf_hash, root
from crypto.sm3_rows import PORTABLE, RowHasher
from engine.kernels.cache_number import BLOCK_POSITIONS


def leaf_hashes(residuals: NDArray[np.float32], hasher: RowHasher) -> NDArray[np.uint8]:
    """Hash n positions of any sequences, which is most of a trace's work.

    Args:
        residuals: float32[L + 1, n, hidden], x(t, l).
        hasher: hashes.

    Returns:
        uint8[L + 1, n, 32]
    """
    columns, positions, width = residuals.shape
    leaves = hasher.hash_rows(LEAF_PREFIX, residuals.reshape(columns * positions, width))
    return leaves.reshape(columns, positions, -1)


class Trace:
    """One Merkle frontier a layer over the residual stream, and the root over the layers.

    Letters: L layers, n positions.
    """

    def __init__(self, num_layers: int, hasher: RowHasher = PORTABLE) -> None:
        """Start without positions; `hasher` hashes inner nodes."""
        self._frontiers = FrontierArray(num_layers + 1, block_leaves=BLOCK_POSITIONS, hasher=hasher)

    @property
    def num_positions(self) -> int:
        """Positions hashed so far."""
        return self._frontiers.size

    def append(self, leaves: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Add the next n positions.

        Args:
            leaves: uint8[L + 1, n, 32], as of `leaf_hashes`.

        Returns:
            uint8[L + 1, m, 32]: the subtree roots of the m cache blocks that this completes.
        """
        return self._frontiers.append(leaves)

    def append_blocks(self, roots: NDArray[np.uint8]) -> None:
        """Add m whole cache blocks by their roots, uint8[L + 1, m, 32], as `append` returned them.

        Raises:
            ValueError: another shape, or the positions so far do not end with a block.
        """
        self._frontiers.append_blocks(roots)

    def root(self) -> bytes:
        """Return the trace root over the positions so far."""
        return root([leaf_hash(layer_root.tobytes()) for layer_root in self._frontiers.roots()])


def root_of_texts(roots: Sequence[bytes]) -> bytes:
    """Return the trace root of texts that become vectors, from those of each (NUMERICS N14).

    Args:
        roots: 32 bytes each, at least one.
    """
    return root([leaf_hash(each) for each in roots])
