"""Cache blocks of one model: who uses each, and which are kept for those who come later."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.errors import ConfigError, EngineError
from engine.kv.spill import SpillFile
from engine.memory.buffers import address_of, aligned_bytes

BLOCK_POSITIONS: Final = 64


class BlockPool:
    """Cache blocks of one model, counted by their users (rules K of engine/kv/README.md).

    A block is free, in use, or idle: kept for later though nobody uses it. Memory is taken from the
    system when it is first needed, and kept for the next sequence when it is released.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        max_blocks: int,
        number_bytes: int = 2,
        memory_blocks: int | None = None,
        spill: SpillFile | None = None,
    ) -> None:
        """Size blocks for a model.

        Args:
            config: shape of the model.
            max_blocks: how many may exist at once.
            number_bytes: size of a key or value: 2, or 4 in profile `wh1-float`.
            memory_blocks: how many may be in memory at once; None: all.
            spill: where the others are, with `max_blocks` slots; the caller's to close.

        Raises:
            ConfigError: `max_blocks` is not positive.
        """
        if max_blocks < 1:
            raise ConfigError(f"the cache needs at least one block, not {max_blocks}")
        self.layer_bytes = layer_bytes(config, number_bytes)
        self.block_bytes = config.num_layers * self.layer_bytes
        self.max_blocks = max_blocks
        self.memory_blocks = max_blocks if memory_blocks is None else memory_blocks
        self.addresses = np.zeros(0, np.int64)
        """By number, where each block starts; 0 of one that is not in memory."""
        self.slots = np.zeros(0, np.int64)
        """By number, where in the file each block is; -1 of one that is not there."""
        self.most_spilled = 0
        """How many blocks were in the file at once, at most."""
        self._spill = spill
        self._memory: dict[int, NDArray[np.uint8]] = {}
        self._spare: list[NDArray[np.uint8]] = []
        self._full: OrderedDict[int, None] = OrderedDict()  # those in memory, the oldest first
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
        return len(self._users) - len(self._free) - len(self._idle)

    @property
    def num_idle(self) -> int:
        """How many blocks are kept though nobody uses them."""
        return len(self._idle)

    @property
    def allocated_bytes(self) -> int:
        """Memory taken from the system so far."""
        return (len(self._memory) + len(self._spare)) * self.block_bytes

    @property
    def num_spilled(self) -> int:
        """How many blocks are in the file."""
        return int((self.slots >= 0).sum())

    def num_users(self, number: int) -> int:
        """Return how many sequences use a block."""
        return self._users[number]

    def require(self, num_blocks: int) -> None:
        """Refuse when fewer blocks than that can be taken.

        Raises:
            EngineError: the caller should have looked at `num_free`; or too many blocks in memory
                are being filled (D11).
        """
        if num_blocks > self.num_free:
            raise EngineError(
                f"{num_blocks} key/value blocks are needed, {self.num_free} of "
                f"{self.max_blocks} are free"
            )
        num_open = len(self._memory) - len(self._full)
        if self._spill is not None and num_blocks > self.memory_blocks - num_open:
            raise EngineError(
                f"{num_blocks} key/value blocks are needed in memory; of {self.memory_blocks} "
                f"there {num_open} are not full"
            )

    def take(self) -> int:
        """Take a block for one user and return its number.

        Raises:
            EngineError: all blocks are in use.
        """
        self.require(1)
        if self._free:
            number = self._free.pop()
        elif len(self._users) < self.max_blocks:
            number = len(self._users)
            self._users.append(0)
            if number == len(self.slots):
                self._grow()
        else:
            number, _ = self._idle.popitem(last=False)
            self._kept.pop(number)()
            self._empty(number)
        try:
            memory = self._room()
        except BaseException:
            self._free.append(number)
            raise
        self._memory[number] = memory
        self.addresses[number] = address_of(memory)
        self._users[number] = 1
        return number

    def fill(self, number: int) -> None:
        """Say that nobody writes to a block any more: it may leave memory when room is needed."""
        if number in self._memory:
            self._full[number] = None

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
                self._empty(number)
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
            self._empty(number)
            self._free.append(number)

    def address(self, number: int) -> int:
        """Return where a block starts; 0 of one that is in the file."""
        return int(self.addresses[number])

    def memory(self, number: int) -> NDArray[np.uint8]:
        """Return the memory of a block, uint8[block_bytes]; KeyError if it is in the file."""
        return self._memory[number]

    def _grow(self) -> None:
        """Make room for as many numbers again."""
        more = max(64, len(self.slots))
        self.addresses = np.concatenate((self.addresses, np.zeros(more, np.int64)))
        self.slots = np.concatenate((self.slots, np.full(more, -1, np.int64)))

    def _empty(self, number: int) -> None:
        """Forget what a block holds, wherever that is."""
        self._full.pop(number, None)
        if self._spill is not None and self.slots[number] >= 0:
            self._spill.free(int(self.slots[number]))
            self.slots[number] = -1
        memory = self._memory.pop(number, None)
        if memory is not None:
            self._spare.append(memory)
            self.addresses[number] = 0

    def _room(self) -> NDArray[np.uint8]:
        """Return memory for one block, from the one that has been full for the longest (D11).

        Raises:
            SpillError: that one could not be written.
        """
        if self._spare:
            return self._spare.pop()
        if self._spill is None or len(self._memory) < self.memory_blocks:
            return aligned_bytes(self.block_bytes)
        number = next((n for n in self._idle if n in self._full), next(iter(self._full)))
        slot = self._spill.allocate()
        self._spill.store(slot, self._memory[number])
        self.slots[number], self.addresses[number] = slot, 0
        del self._full[number]
        self.most_spilled = max(self.most_spilled, self.num_spilled)
        return self._memory.pop(number)


def layer_bytes(config: ModelConfig, number_bytes: int = 2) -> int:
    """Return the size of one layer of a block: keys and values, a multiple of 4096."""
    return config.num_kv_heads * BLOCK_POSITIONS * config.head_dim * 2 * number_bytes
