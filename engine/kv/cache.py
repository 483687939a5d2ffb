"""Blocks of 64 positions, all layers together, and the table by which one sequence finds them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.errors import ConfigError, EngineError
from engine.memory.buffers import address_of, aligned_bytes

BLOCK_POSITIONS: Final = 64


class BlockPool:
    """Cache blocks of one model.

    Memory is taken from the system when it is first needed, and kept for the next sequence when it
    is released.
    """

    def __init__(self, config: ModelConfig, *, max_blocks: int, number_bytes: int = 2) -> None:
        """Size blocks for a model.

        Args:
            config: shape of the model.
            max_blocks: how many may exist at once.
            number_bytes: size of a key or value: 2, or 4 in profile `wh1-float`.

        Raises:
            ConfigError: `max_blocks` is not positive.
        """
        if max_blocks < 1:
            raise ConfigError(f"the cache needs at least one block, not {max_blocks}")
        head_bytes = BLOCK_POSITIONS * config.head_dim * 2 * number_bytes
        self.layer_bytes = config.num_kv_heads * head_bytes
        self.block_bytes = config.num_layers * self.layer_bytes
        self.max_blocks = max_blocks
        self._blocks: list[NDArray[np.uint8]] = []
        self._free: list[int] = []

    @property
    def num_free(self) -> int:
        """How many blocks can still be taken."""
        return self.max_blocks - len(self._blocks) + len(self._free)

    def require(self, num_blocks: int) -> None:
        """Refuse when fewer blocks than that can be taken.

        Raises:
            EngineError: the caller should have looked at `num_free`.
        """
        if num_blocks > self.num_free:
            raise EngineError(
                f"{num_blocks} key/value blocks are needed, {self.num_free} of "
                f"{self.max_blocks} are free"
            )

    def take(self) -> int:
        """Take a block and return its number.

        Raises:
            EngineError: all blocks are in use.
        """
        self.require(1)
        if self._free:
            return self._free.pop()
        self._blocks.append(aligned_bytes(self.block_bytes))
        return len(self._blocks) - 1

    def release(self, number: int) -> None:
        """Give a block back."""
        self._free.append(number)

    def address(self, number: int) -> int:
        """Return where a block starts."""
        return address_of(self._blocks[number])


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
    def num_blocks(self) -> int:
        """Blocks taken so far."""
        return len(self._blocks)

    @property
    def num_blocks_at_most(self) -> int:
        """Blocks that the sequence can come to need."""
        return len(self.table)

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
            block = self.pool.take()
            self.table[len(self._blocks)] = self.pool.address(block)
            self._blocks.append(block)

    def advance(self, num_positions: int) -> None:
        """Count positions that a step has filled."""
        self.num_positions += num_positions

    def keep_trace_roots(self, roots: NDArray[np.uint8]) -> None:
        """Attach roots to the next m full blocks: uint8[L + 1, m, 32], as `Trace.append` gives."""
        self.trace_roots.extend(roots[:, block].copy() for block in range(roots.shape[1]))

    def release(self) -> None:
        """Give all blocks back; the cache is empty afterwards."""
        blocks, self._blocks = self._blocks, []
        self.num_positions = 0
        self.trace_roots = []
        self.table[:] = 0
        for block in blocks:
            self.pool.release(block)
