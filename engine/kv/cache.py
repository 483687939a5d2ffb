"""Blocks of 64 positions, all layers of a block together, and the table by which one sequence finds them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.errors import ConfigError, EngineError
from engine.memory.buffers import address_of, aligned_bytes

BLOCK_POSITIONS: Final = 64


class BlockPool:
    """Cache blocks of one model: taken from the system when first needed, kept for the next sequence when released."""

    def __init__(self, config: ModelConfig, *, max_blocks: int, number_bytes: int = 2) -> None:
        """Size blocks for a model; at most `max_blocks` exist at once; a number takes 2 bytes (4 in `wh1-float`)."""
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

    def take(self) -> int:
        """Take a block and return its number.

        Raises:
            EngineError: all blocks are in use; the caller should have looked at `num_free`.
        """
        if self._free:
            return self._free.pop()
        if len(self._blocks) >= self.max_blocks:
            raise EngineError(f"all {self.max_blocks} key/value blocks are in use")
        self._blocks.append(aligned_bytes(self.block_bytes))
        return len(self._blocks) - 1

    def release(self, number: int) -> None:
        """Give a block back."""
        self._free.append(number)

    def address(self, number: int) -> int:
        """Return where a block starts."""
        return address_of(self._blocks[number])


class SequenceCache:
    """The cached positions of one sequence."""

    def __init__(self, pool: BlockPool, max_positions: int) -> None:
        """Start empty; at most `max_positions` positions can be added.

        Raises:
            ConfigError: `max_positions` is not positive.
        """
        if max_positions < 1:
            raise ConfigError(f"a sequence needs at least one position, not {max_positions}")
        self._pool = pool
        self._blocks: list[int] = []
        self.max_positions = max_positions
        self.num_positions = 0
        self.table = np.zeros(-(-max_positions // BLOCK_POSITIONS), np.int64)

    def reserve(self, num_positions: int) -> None:
        """Make room for `num_positions` more.

        Raises:
            ConfigError: more than `max_positions` in all.
            EngineError: the pool is exhausted.
        """
        needed = self.num_positions + num_positions
        if needed > self.max_positions:
            raise ConfigError(f"{needed} positions do not fit into {self.max_positions}")
        while len(self._blocks) * BLOCK_POSITIONS < needed:
            block = self._pool.take()
            self.table[len(self._blocks)] = self._pool.address(block)
            self._blocks.append(block)

    def advance(self, num_positions: int) -> None:
        """Count positions that a step has filled."""
        self.num_positions += num_positions

    def release(self) -> None:
        """Give all blocks back; the cache is empty afterwards."""
        for block in self._blocks:
            self._pool.release(block)
        self._blocks = []
        self.num_positions = 0
        self.table[:] = 0
