"""Slots of private memory that threads fill ahead of the one that computes (README.md W5)."""

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

    One thread calls; the ring's own threads read.
    """

    def __init__(self, load: Load, *, slot_bytes: int, num_loaders: int = 2) -> None:
        """Start the threads.

        Args:
            load: fills a slot with a window and returns where in the slot the window begins; called
                in the ring's threads, for as many windows at a time as there are of them.
            slot_bytes: size of a slot.
            num_loaders: how many windows are read at a time. There is one more slot than that: the
                one that is computed with.
        """
        num_slots = num_loaders + 1
        self._load = load
        self.slots: list[NDArray[np.uint8]] = [mapped_pages(slot_bytes) for _ in range(num_slots)]
        self._free = deque(range(num_slots))
        self._order: deque[Window] = deque()
        """Those that are still to be entered."""
        self._wanted: deque[Window] = deque()
        """Those of them whose reading has not begun."""
        self._ready: dict[Window, tuple[int, int]] = {}
        """Those that were read: the slot, and where in it the window begins."""
        self._loading: dict[Window, bool] = {}
        """Those that are being read, and whether they are wanted when they are there."""
        self._failures: dict[Window, BaseException] = {}
        """Why those could not be read that are wanted."""
        self._held: int | None = None
        self._is_closed = False
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, name=f"windows {number}", daemon=True)
            for number in range(num_loaders)
        ]
        for thread in self._threads:
            thread.start()

    def begin(self, order: Sequence[Window]) -> None:
        """Say which windows come next, instead of what was said before.

        What was read ahead stays as far as it is what comes first now.
        """
        with self._changed:
            if self._is_closed:
                return
            self._failures.clear()
            self._order = deque(order)
            wanted = deque(order)
            ready, loading = {}, dict.fromkeys(self._loading, False)
            while wanted and (wanted[0] in self._ready or wanted[0] in loading):
                window = wanted.popleft()
                if window in loading:
                    loading[window] = True
                else:
                    ready[window] = self._ready.pop(window)
            self._free.extend(slot for slot, _ in self._ready.values())
            self._ready = ready
            self._loading = loading
            self._wanted = wanted
            self._changed.notify_all()

    def enter(self, window: Window) -> int:
        """Return the address of a window, once it is there; what was held before is given back.

        Raises:
            Exception: what `load` raised for this window.
            EngineError: the ring is closed, or another window is next.
        """
        with self._changed:
            self._give_back()
            if not self._is_closed and (not self._order or self._order[0] != window):
                raise EngineError(f"window {window.number} is not the next one")
            while self._is_closed or window not in self._ready:
                if self._is_closed:
                    raise EngineError("the weights are closed")
                if window in self._failures:
                    raise self._failures[window]
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
        """End the threads and drop the slots; a second call does nothing.

        It waits for reads that have begun. Who holds a window or waits for one, in another thread,
        keeps its slot until it is given back, and gets no other.
        """
        with self._changed:
            self._is_closed = True
            self._wanted.clear()
            self._changed.notify_all()
        for thread in self._threads:
            if threading.current_thread() is not thread:
                thread.join()
        with self._changed:
            self._failures.clear()
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
                is_wanted = self._loading.pop(window)
                if failure is None and is_wanted:
                    self._ready[window] = (slot, offset)
                else:
                    self._free.append(slot)
                if failure is not None and is_wanted:
                    self._failures[window] = failure
                    self._wanted.clear()
                self._changed.notify_all()

    def _take(self) -> tuple[Window, int] | None:
        with self._changed:
            while not (self._can_take() or self._is_closed):
                self._changed.wait()
            if self._is_closed:
                return None
            window = self._wanted.popleft()
            self._loading[window] = True
            return window, self._free.popleft()

    def _can_take(self) -> bool:
        """Say whether a read can begin; one that is made already, unwanted, is waited for."""
        return bool(self._wanted and self._free) and self._wanted[0] not in self._loading
