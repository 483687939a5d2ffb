"""Residency `verified-stream`: windows in private memory, each compared with what was accepted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError
from engine.memory.buffers import address_of
from engine.memory.embedding_rows import EmbeddingRows
from engine.memory.lock import lock_pages
from engine.memory.residency import Residency
from engine.memory.resident import ResidentParts, layer_extent
from engine.memory.ring import WindowRing
from engine.memory.streamed import StreamedWeights
from engine.memory.weights import PlacedTensor
from engine.memory.windows import Window
from engine.vqf.format import CHUNK_BYTES
from engine.vqf.kept import KeptFile

_AHEAD: Final = 2
"""Windows of the next step that are read while nothing is computed."""


class VerifiedWeights(StreamedWeights):
    """Weights read from the file for each step; the file may do what it likes meanwhile."""

    def __init__(self, kept: KeptFile, residency: Residency) -> None:
        """Take over an open file whose weights were verified.

        Raises:
            WeightsError, WeightsUncheckedError: as `KeptFile.read`.
        """
        self._kept = kept
        self.config = kept.file.manifest.config
        self.window_bytes = residency.window_bytes
        self._parts = ResidentParts(kept.file.manifest, kept.read_range)
        self._extents = self._parts.extents
        self.bases = self._parts.bases
        self._kept_layers = self._keep_layers(residency.keep_layers - 1)
        self._last_order: tuple[Window, ...] = ()
        self._rows = EmbeddingRows(self._parts.tensors["embedding"])
        largest = max(kept.file.extent(name).size_bytes for name in self._extents[1:])
        # A window begins and ends anywhere in a chunk.
        slot_bytes = min(self.window_bytes, largest) + 2 * CHUNK_BYTES
        self._ring = WindowRing(self._load, slot_bytes=slot_bytes)

    def find(self, name: str) -> PlacedTensor | None:
        """Return the tensor, or None if the model has none of that name."""
        return self._parts.tensors.get(name)

    def gather(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Read the panels of the embedding that hold the rows of some ids; see `StreamedWeights`.

        The panels of a chunk are read together, in the order of the file.
        """
        rows = self._rows
        starts, local = rows.place(ids)
        name = self._extents[rows.tensor.base]
        for first, last in _runs(starts // CHUNK_BYTES):
            begin, end = int(starts[first]), int(starts[last - 1]) + rows.panel_bytes
            data = self._kept.read_range(name, begin, end)
            for place in range(first, last):
                at = int(starts[place]) - begin
                rows.row(place)[:] = data[at : at + rows.panel_bytes]
        self.bases[rows.tensor.base] = rows.base
        return local

    def begin(self, order: Sequence[Window]) -> None:
        """Say which windows a step will enter, in this order."""
        self._last_order = tuple(w for w in order if w.base not in self._kept_layers)
        self._ring.begin(self._last_order)

    def enter(self, window: Window) -> None:
        """Bring the next window; see `StreamedWeights`."""
        if window.base in self._kept_layers:
            self.bases[window.base] = address_of(self._kept_layers[window.base])
            return
        self.bases[window.base] = self._ring.enter(window) - window.start_bytes

    def end(self) -> None:
        """Give the last window back, and read what the next step begins with."""
        self._ring.leave()
        self._ring.begin(self._last_order[:_AHEAD])

    def close(self) -> None:
        """End the thread that reads, and close the file."""
        self._ring.close()
        self._kept.close()

    @property
    def resident_bytes(self) -> int:
        """Bytes of weights in private memory at most."""
        slots = self._rows.memory.nbytes + sum(slot.nbytes for slot in self._ring.slots)
        kept = sum(memory.nbytes for memory in self._kept_layers.values())
        return self._parts.num_bytes + slots + kept

    def lock(self) -> int:
        """Keep slots, vectors and kept layers out of swap where the limit allows."""
        return lock_pages([*self._parts.memory, *self._ring.slots, *self._kept_layers.values()])

    def _load(self, window: Window, out: memoryview) -> int:
        name = self._extents[window.base]
        return self._kept.read(name, window.start_bytes, window.stop_bytes, out)

    def _keep_layers(self, count: int) -> dict[int, NDArray[np.uint8]]:
        """Read the first layers whole: those that are found again in the next step."""
        if count > self.config.num_layers:
            raise ConfigError(f"there are only {self.config.num_layers} layers to keep")
        kept = {}
        for layer in range(count):
            name = layer_extent(layer)
            base = self._extents.index(name)
            kept[base] = self._kept.read_range(name, 0, self._kept.file.extent(name).size_bytes)
        return kept


def _runs(numbers: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return where runs of equal numbers begin and end."""
    edges = np.flatnonzero(np.diff(numbers)) + 1
    return list(pairwise([0, *edges.tolist(), len(numbers)]))
