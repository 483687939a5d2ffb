"""Windows: the pieces of extents with which a step computes one after the other (README.md W1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.errors import ConfigError
from engine.memory.weights import PlacedTensor
from engine.vqf.kinds import PANEL_ROWS

NO_WINDOW: Final = -1
"""The window of what is always there."""


@dataclass(frozen=True, slots=True)
class Window:
    """A piece of one extent.

    number: its place in the order of a step. base: its extent's index in the table of bases.
    start_bytes, stop_bytes: of the extent.
    """

    number: int
    base: int
    start_bytes: int
    stop_bytes: int


class PanelRange(NamedTuple):
    """Some panels of a matrix, all in one window, by the window's number."""

    first: int
    num_panels: int
    window: int


class Cutter:
    """Cuts matrices, in the order in which a step reads them, where windows end.

    A window is the hull of what it holds: matrices that follow each other in an extent share it.
    """

    def __init__(self, window_bytes: int) -> None:
        """Cut windows of at most so many bytes."""
        self._window_bytes = window_bytes
        self._windows: list[Window] = []

    @property
    def windows(self) -> tuple[Window, ...]:
        """All windows so far, in the order of a step."""
        return tuple(self._windows)

    def cut(self, tensor: PlacedTensor, panel_bytes: int) -> Iterator[PanelRange]:
        """Yield the ranges of a matrix; the windows grow with what is taken.

        Raises:
            ConfigError: a panel is larger than a window.
        """
        if panel_bytes > self._window_bytes:
            raise ConfigError(
                f"16 rows of {tensor.name} take {panel_bytes} bytes, more than a window's "
                f"{self._window_bytes}"
            )
        first, total = 0, -(-tensor.shape[0] // PANEL_ROWS)
        while first < total:
            start = tensor.offset_bytes + first * panel_bytes
            room = self._room(tensor.base, start) // panel_bytes
            if room == 0:
                self._windows.append(Window(len(self._windows), tensor.base, start, start))
                room = self._window_bytes // panel_bytes
            count = min(room, total - first)
            last = self._windows[-1]
            self._windows[-1] = Window(
                last.number, last.base, last.start_bytes, start + count * panel_bytes
            )
            yield PanelRange(first, count, last.number)
            first += count

    def _room(self, base: int, start: int) -> int:
        """Return how many bytes from `start` on the last window can still take."""
        if not self._windows:
            return 0
        last = self._windows[-1]
        if last.base != base or start < last.stop_bytes:
            return 0
        return max(0, last.start_bytes + self._window_bytes - start)
