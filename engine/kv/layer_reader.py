"""The spilled blocks of a step, one layer after the other, read ahead (rule D9)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError
from engine.kv.spill import SpillFile
from engine.memory.buffers import mapped_pages

_SPARE: Final = 8  # a buffer grows by an eighth more than is needed: sequences get longer


class LayerReader:
    """Reads layer l + 1 while somebody computes with layer l; for one thread at a time.

    The two buffers are kept for the next step, and replaced when they are too small, or twice as
    large as needed and spare room.
    """

    def __init__(self, file: SpillFile, *, budget_bytes: int) -> None:
        """Read from `file`, which stays the caller's and is closed later.

        Args:
            file: where the blocks are.
            budget_bytes: what both buffers may have together.
        """
        self._file = file
        self._most_slots = budget_bytes // (2 * file.layer_bytes)
        self._thread = ThreadPoolExecutor(1, "layers")
        self._buffers: list[NDArray[np.uint8]] = []
        self._slots: tuple[int, ...] = ()
        self._reading: Future[None] | None = None
        self._next = 0

    @property
    def max_slots(self) -> int:
        """How many blocks a step can have within the budget."""
        return self._most_slots

    @property
    def allocated_bytes(self) -> int:
        """Memory of both buffers."""
        return sum(buffer.nbytes for buffer in self._buffers)

    def begin(self, slots: Sequence[int]) -> None:
        """Start a step, which ends the one before, and read its first layer.

        Args:
            slots: of the blocks whose layers are wanted, in the order of the rows.

        Raises:
            ConfigError: two buffers for that many blocks are beyond the budget.
        """
        self.end()
        if len(slots) > self._most_slots:
            raise ConfigError(
                f"{len(slots)} spilled blocks are needed at once; the budget has room for "
                f"{self._most_slots}"
            )
        self._fit(len(slots))
        self._slots = tuple(slots)
        self._start(0)

    def layer(self, layer: int) -> NDArray[np.uint8]:
        """Wait for a layer, begin to read the next, and return it.

        Args:
            layer: 0 at first, then one more than before.

        Returns:
            uint8[len(slots), layer_bytes], valid and unchanged until the next call of any method;
            not to be written to.

        Raises:
            ConfigError: it is not this layer's turn.
            SpillError, SpillIntegrityError: as `SpillFile.load_layer`; the step has ended.
        """
        if self._reading is None or layer != self._next:
            raise ConfigError(f"it is not the turn of layer {layer}")
        try:
            self._reading.result()
        except BaseException:
            self.end()
            raise
        self._reading = None
        if layer + 1 < self._file.num_layers:
            self._start(layer + 1)
        return self._rows(layer)

    def end(self) -> None:
        """End a step, finished or not; what is being read is waited for."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            wait([reading])

    def close(self) -> None:
        """End the step and the thread, and give the buffers back."""
        self.end()
        self._thread.shutdown()
        self._buffers = []

    def __enter__(self) -> Self:
        """Return the reader, which ends with the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def _start(self, layer: int) -> None:
        self._next = layer
        self._reading = self._thread.submit(
            self._file.load_layer, layer, self._slots, self._rows(layer)
        )

    def _rows(self, layer: int) -> NDArray[np.uint8]:
        return self._buffers[layer % 2][: len(self._slots)]

    def _fit(self, num_slots: int) -> None:
        """Make both buffers large enough, and not much larger."""
        with_spare = min(num_slots + num_slots // _SPARE, self._most_slots)
        have = len(self._buffers[0]) if self._buffers else -1
        if num_slots <= have <= 2 * with_spare:
            return
        self._buffers = []  # before the new ones are taken: the budget is for both together
        size = (with_spare, self._file.layer_bytes)
        self._buffers = [mapped_pages(size[0] * size[1]).reshape(size) for _ in range(2)]
