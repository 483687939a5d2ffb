"""Slots of private memory that a thread fills ahead of the one that computes (README.md W5)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.errors import EngineError
from engine.memory.buffers import mapped_pages
from engine.memory.windows import Window

Load = Callable[[Window, memoryview], int]


class WindowRing:
    """Windows of one step after the other, each read before it is asked for where there is room.

    One thread calls; the ring's own thread reads.
    """

    def __init__(self, load: Load, *, slot_bytes: int, num_slots: int = 2) -> None:
        """Start the thread.

        Args:
            load: fills a slot with a window and returns where in the slot the window begins; called
                in the ring's thread, for one window at a time.
            slot_bytes: size of a slot.
            num_slots: at least 2: one that is computed with, and one that is filled.
        """
        self._load = load
        self.slots: list[NDArray[np.uint8]] = [mapped_pages(slot_bytes) for _ in range(num_slots)]
        self._free = deque(range(num_slots))
        self._order: deque[Window] = deque()
        """Those that are still to be entered."""
        self._wanted: deque[Window] = deque()
        """Those of them whose reading has not begun."""
        self._ready: dict[Window, tuple[int, int]] = {}
        """Those that were read: the slot, and where in it the window begins."""
        self._loading: Window | None = None
        self._is_loading_wanted = False
        self._held: int | None = None
        self._failure: BaseException | None = None
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="windows", daemon=True)
        self._thread.start()

    def begin(self, order: Sequence[Window]) -> None:
        """Say which windows come next, instead of what was said before.

        What was read ahead stays as far as it is what comes first now.
        """
        with self._changed:
            if self._is_closed:
                return
            self._failure = None
            self._order = deque(order)
            wanted = deque(order)
            kept = {}
            while wanted and wanted[0] in self._ready:
                window = wanted.popleft()
                kept[window] = self._ready.pop(window)
            self._free.extend(slot for slot, _ in self._ready.values())
            self._ready = kept
            self._is_loading_wanted = bool(wanted) and wanted[0] == self._loading
            if self._is_loading_wanted:
                wanted.popleft()
            self._wanted = wanted
            self._changed.notify_all()

    def enter(self, window: Window) -> int:
        """Return the address of a window, once it is there; what was held before is given back.

        Raises:
            Exception: what `load` raised for this window or one before it.
            EngineError: the ring is closed, or another window is next.
        """
        with self._changed:
            self._give_back()
            if not self._is_closed and (not self._order or self._order[0] != window):
                raise EngineError(f"window {window.number} is not the next one")
            while self._is_closed or window not in self._ready:
                if self._is_closed:
                    raise EngineError("the weights are closed")
                if self._failure is not None:
                    raise self._failure
                self._changed.wait()
            self._order.popleft()
            slot, offset = self._ready.pop(window)
            self._held = slot
            return int(self.slots[slot].ctypes.data) + offset

    def leave(self) -> None:
        """Give back what is held."""
        with self._changed:
            self._give_back()

    def close(self) -> None:
        """End the thread and drop the slots; a second call does nothing.

        It waits for a read that has begun. Who holds a window or waits for one, in another thread,
        keeps its slot until it is given back, and gets no other.
        """
        with self._changed:
            self._is_closed = True
            self._wanted.clear()
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        with self._changed:
            self._failure = None
            self._ready.clear()
            if self._held is None:
                self.slots = []

    def _give_back(self) -> None:
        if self._held is not None:
            self._free.append(self._held)
            self._held = None
            if self._is_closed:
                self.slots = []
            self._changed.notify_all()

    def _run(self) -> None:
        while (task := self._take()) is not None:
            window, slot = task
            failure: BaseException | None = None
            offset = 0
            try:
                offset = self._load(window, self.slots[slot].data)
            except BaseException as error:
                failure = error
            with self._changed:
                self._loading = None
                if failure is None and self._is_loading_wanted:
                    self._ready[window] = (slot, offset)
                else:
                    self._free.append(slot)
                if failure is not None and self._is_loading_wanted:
                    self._failure = failure
                    self._wanted.clear()
                self._changed.notify_all()

    def _take(self) -> tuple[Window, int] | None:
        with self._changed:
            while not (self._wanted and self._free) and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return None
            self._loading, self._is_loading_wanted = self._wanted.popleft(), True
            return self._loading, self._free.popleft()
