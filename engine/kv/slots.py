"""Which slots of a file are taken."""

from __future__ import annotations

import heapq
import threading

import numpy as np

from engine.errors import ConfigError, SpillError


class Slots:
    """Numbers 0 .. max_slots - 1, and which of them hold a block; safe for several threads."""

    def __init__(self, max_slots: int) -> None:
        """Start with all of them free."""
        self.max_slots = max_slots
        self._lock = threading.Lock()
        self._is_taken = np.zeros(max_slots, np.bool_)
        self._holds = np.zeros(max_slots, np.bool_)
        self._num_taken = 0
        self._num_used = 0  # from here on no slot was ever taken
        self._returned: list[int] = []  # a heap

    @property
    def num_free(self) -> int:
        """How many can still be taken."""
        return self.max_slots - self._num_taken

    def allocate(self) -> int:
        """Take the lowest free slot, which keeps neighbours together; it holds nothing yet.

        Raises:
            SpillError: all slots are taken.
        """
        with self._lock:
            if self._returned:
                slot = heapq.heappop(self._returned)
            elif self._num_used < self.max_slots:
                slot = self._num_used
                self._num_used += 1
            else:
                raise SpillError(f"all {self.max_slots} slots for cache blocks are taken")
            self._is_taken[slot] = True
            self._num_taken += 1
            return slot

    def free(self, slot: int) -> None:
        """Give a slot back with what it held.

        Raises:
            ConfigError: it is not taken.
        """
        with self._lock:
            self.require_taken(slot)
            self._is_taken[slot] = self._holds[slot] = False
            self._num_taken -= 1
            heapq.heappush(self._returned, slot)

    def set_holds(self, slot: int, *, holds: bool) -> None:
        """Say whether a slot that is taken holds a whole block."""
        self._holds[slot] = holds

    def require_taken(self, slot: int) -> None:
        """Raise ConfigError for a slot that is not taken."""
        if not (0 <= slot < self.max_slots and self._is_taken[slot]):
            raise ConfigError(f"slot {slot} is not taken")

    def require_block(self, slot: int) -> None:
        """Raise ConfigError for a slot that does not hold a whole block."""
        if not (0 <= slot < self.max_slots and self._holds[slot]):
            raise ConfigError(f"slot {slot} holds no cache block")
