"""The program of a model in parts, between which weights and cached positions may come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.memory.windows import NO_WINDOW, Window


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the program.

    start, stop: its instructions. window: the weights that it reads, None for none. layer: the
    layer that begins with it, None for none. is_head: whether it computes logits only.
    """

    start: int
    stop: int
    window: Window | None
    layer: int | None
    is_head: bool


class Plan:
    """What is noted of instructions while a program is written."""

    def __init__(self) -> None:
        """Start with an empty program."""
        self._needs: dict[int, int] = {}
        self._layers: dict[int, int] = {}
        self._head: int | None = None

    def needs(self, instruction: int, window: int) -> None:
        """Note the window, by its number, of an instruction that reads weights."""
        if window != NO_WINDOW:
            self._needs[instruction] = window

    def starts_layer(self, instruction: int, layer: int) -> None:
        """Note where a layer begins."""
        self._layers[instruction] = layer

    def starts_head(self, instruction: int) -> None:
        """Note where the head begins, which is the last of a program."""
        self._head = instruction

    def stages(self, num_instructions: int, windows: Sequence[Window]) -> list[Stage]:
        """Return all parts: one begins with each layer, with the head, and with each window.

        Args:
            num_instructions: of the program.
            windows: by their numbers.
        """
        cuts: list[int] = []
        window: int | None = None
        for at in range(num_instructions):
            needed = self._needs.get(at)
            is_other = needed is not None and window is not None and needed != window
            if at == 0 or at in self._layers or at == self._head or is_other:
                cuts.append(at)
                window = None
            window = window if needed is None else needed
        stages = []
        for start, stop in zip(cuts, [*cuts[1:], num_instructions], strict=True):
            numbers = [self._needs[at] for at in range(start, stop) if at in self._needs]
            stages.append(
                Stage(
                    start,
                    stop,
                    windows[numbers[0]] if numbers else None,
                    self._layers.get(start),
                    is_head=self._head is not None and start >= self._head,
                )
            )
        return stages
