"""Cache blocks of one model: who uses each, and which are kept for those who come later."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.errors import ConfigError, EngineError
from engine.memory.buffers import address_of, aligned_bytes

BLOCK_POSITIONS: Final = 64


class BlockPool:
    """Cache blocks of one model, counted by their users (rules K of engine/kv/README.md).

    A block is free, in use, or idle: kept for later though nobody uses it. Memory is taken from the
    system when it is first needed, and kept for the next sequence when it is released.
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
        self._users: list[int] = []
        self._free: list[int] = []
        self._kept: dict[int, Callable[[], None]] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # the longest unused first

    @property
    def num_free(self) -> int:
        """How many blocks can still be taken: idle ones give way (K5)."""
        return self.max_blocks - self.num_used

    @property
    def num_used(self) -> int:
        """How many blocks somebody uses."""
        return len(self._blocks) - len(self._free) - len(self._idle)

    @property
    def num_idle(self) -> int:
        """How many blocks are kept though nobody uses them."""
        return len(self._idle)

    @property
    def allocated_bytes(self) -> int:
        """Memory taken from the system so far."""
        return len(self._blocks) * self.block_bytes

    def num_users(self, number: int) -> int:
        """Return how many sequences use a block."""
        return self._users[number]

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
        """Take a block for one user and return its number.

        Raises:
            EngineError: all blocks are in use.
        """
        self.require(1)
        if self._free:
            number = self._free.pop()
        elif len(self._blocks) < self.max_blocks:
            number = len(self._blocks)
            self._blocks.append(aligned_bytes(self.block_bytes))
            self._users.append(0)
        else:
            number, _ = self._idle.popitem(last=False)
            self._kept.pop(number)()
        self._users[number] = 1
        return number

    def share(self, number: int) -> None:
        """Add a user to a block that is in use or idle; nobody writes to it any more (K2)."""
        self._idle.pop(number, None)
        self._users[number] += 1

    def release(self, number: int) -> None:
        """Take a user away; after the last one the block is free, or idle if it is kept."""
        self._users[number] -= 1
        if self._users[number] == 0:
            if number in self._kept:
                self._idle[number] = None
            else:
                self._free.append(number)

    def keep(self, number: int, on_eviction: Callable[[], None]) -> None:
        """Keep a block that is in use beyond its last user, until its room is needed.

        Args:
            number: the block.
            on_eviction: called before somebody else gets the block.
        """
        self._kept[number] = on_eviction

    def drop(self, number: int) -> None:
        """Keep a block no longer; `on_eviction` is not called."""
        del self._kept[number]
        if self._users[number] == 0:
            del self._idle[number]
            self._free.append(number)

    def address(self, number: int) -> int:
        """Return where a block starts."""
        return address_of(self._blocks[number])
