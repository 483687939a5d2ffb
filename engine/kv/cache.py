"""The cached positions of one sequence: its blocks, and the table by which kernels find them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError
from engine.kv.blocks import BLOCK_POSITIONS, BlockPool

__all__ = ["BLOCK_POSITIONS", "BlockPool", "SequenceCache"]


class SequenceCache:
    """The cached positions of one sequence.

    A full block can carry the roots of its 64 positions in the trace, one a layer, so that whoever
    finds the block again need not hash it again.
    """

    def __init__(self, pool: BlockPool, max_positions: int) -> None:
        """Start empty; at most `max_positions` positions can be added.

        Raises:
            ConfigError: `max_positions` is not positive.
        """
        if max_positions < 1:
            raise ConfigError(f"a sequence needs at least one position, not {max_positions}")
        self.pool = pool
        self.max_positions = max_positions
        self.num_positions = 0
        self.table = np.zeros(-(-max_positions // BLOCK_POSITIONS), np.int64)
        self.trace_roots: list[NDArray[np.uint8]] = []
        self._blocks: list[int] = []

    @property
    def blocks(self) -> tuple[int, ...]:
        """Numbers of the blocks taken so far, in the order of positions."""
        return tuple(self._blocks)

    @property
    def num_blocks(self) -> int:
        """Blocks taken so far."""
        return len(self._blocks)

    @property
    def num_blocks_at_most(self) -> int:
        """Blocks that the sequence can come to need."""
        return len(self.table)

    @property
    def is_at_boundary(self) -> bool:
        """Whether all blocks are full."""
        return self.num_positions == BLOCK_POSITIONS * len(self._blocks)

    def num_blocks_missing(self, num_positions: int) -> int:
        """Return how many blocks `num_positions` more would take from the pool.

        Raises:
            ConfigError: more than `max_positions` in all.
        """
        needed = self.num_positions + num_positions
        if needed > self.max_positions:
            raise ConfigError(f"{needed} positions do not fit into {self.max_positions}")
        return max(0, -(-needed // BLOCK_POSITIONS) - len(self._blocks))

    def reserve(self, num_positions: int) -> None:
        """Make room for `num_positions` more, or take nothing.

        Raises:
            ConfigError: more than `max_positions` in all.
            EngineError: the pool has not enough blocks.
        """
        missing = self.num_blocks_missing(num_positions)
        self.pool.require(missing)
        for _ in range(missing):
            self._append(self.pool.take())

    def advance(self, num_positions: int) -> None:
        """Count positions that a step has filled."""
        first = self.num_positions // BLOCK_POSITIONS
        self.num_positions += num_positions
        for number in self._blocks[first : self.num_positions // BLOCK_POSITIONS]:
            self.pool.fill(number)

    def share(self, number: int, roots: NDArray[np.uint8] | None) -> None:
        """Go on with a full block that others hold too.

        Args:
            number: the block.
            roots: uint8[L + 1, 32], those of the block in the trace; None without one.

        Raises:
            ConfigError: a block is not full, or more than `max_positions` in all.
        """
        if not self.is_at_boundary or self.num_blocks_missing(BLOCK_POSITIONS) != 1:
            raise ConfigError("a shared block stands behind full blocks only")
        self.pool.share(number)
        self._append(number)
        self.advance(BLOCK_POSITIONS)
        if roots is not None:
            self.trace_roots.append(roots)

    def exchange(self, index: int, number: int) -> None:
        """Use another block with the same content in place of a full one of ours (K6)."""
        self.pool.share(number)
        self.pool.release(self._blocks[index])
        self._blocks[index] = number
        self.table[index] = self.pool.address(number)

    def keep_trace_roots(self, roots: NDArray[np.uint8]) -> None:
        """Attach roots to the next m full blocks: uint8[L + 1, m, 32], as `Trace.append` gives."""
        self.trace_roots.extend(roots[:, block].copy() for block in range(roots.shape[1]))

    def release(self) -> None:
        """Give all blocks back, the last one first (K5); the cache is empty afterwards."""
        blocks, self._blocks = self._blocks, []
        self.num_positions = 0
        self.trace_roots = []
        self.table[:] = 0
        for block in reversed(blocks):
            self.pool.release(block)

    def _append(self, number: int) -> None:
        self.table[len(self._blocks)] = self.pool.address(number)
        self._blocks.append(number)
