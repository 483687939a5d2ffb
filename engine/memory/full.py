"""Residency `full`: every extent read into private memory and checked there before anything is computed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.memory.buffers import address_of, aligned_bytes
from engine.memory.weights import PlacedTensor
from engine.vqf import VqfFile, panels

_TEXT_EXTENTS = frozenset({"tokenizer", "template"})


class FullWeights:
    """All extents of a VQF file in private memory, each chunk's digest checked.

    With `as_floats` every matrix is replaced by its values in kind F32 (profile `wh1-float`, NUMERICS N13).
    """

    def __init__(
        self,
        file: VqfFile,
        *,
        as_floats: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Read and check the file's extents.

        Args:
            file: an open VQF file; it may be closed afterwards.
            as_floats: whether to run the model over its dequantised weights.
            progress: called with (bytes done, bytes in all) after each extent.

        Raises:
            WeightsError: a chunk did not verify.
            WeightsUncheckedError: the file could not be read.
        """
        self.config = file.manifest.config
        extents = [e for e in file.manifest.extents if e.name not in _TEXT_EXTENTS]
        self._memory: list[NDArray[np.uint8]] = []
        self._tensors: dict[str, PlacedTensor] = {}
        total, done = sum(e.length_bytes for e in extents), 0
        for extent in extents:
            memory = aligned_bytes(extent.size_bytes)
            file.read_extent(extent.name, memory)
            placed = [t for t in file.manifest.tensors if t.extent == extent.name]
            if as_floats:
                self._place_as_floats(memory, placed)
            else:
                base = len(self._memory) + 1
                self._memory.append(memory)
                for t in placed:
                    self._tensors[t.name] = PlacedTensor(t.name, t.kind, t.shape, base, t.offset_bytes)
            done += extent.length_bytes
            if progress is not None:
                progress(done, total)
        self.bases = np.array([0, *map(address_of, self._memory)], np.int64)

    def find(self, name: str) -> PlacedTensor | None:
        """Return the tensor, or None if the model has none of that name."""
        return self._tensors.get(name)

    @property
    def resident_bytes(self) -> int:
        """Bytes of weights in private memory."""
        return sum(m.nbytes for m in self._memory)

    def _place_as_floats(self, memory: NDArray[np.uint8], tensors: list) -> None:  # type: ignore[type-arg]
        for t in tensors:
            data = memory[t.offset_bytes : t.offset_bytes + t.length_bytes]
            if len(t.shape) == 2:
                rows, columns = t.shape
                values = panels.values(t.kind, panels.unpack(t.kind, data, rows, columns))
                data = panels.pack("F32", {"w": values}, rows, columns)
            own = aligned_bytes(data.nbytes)
            own[:] = data
            self._memory.append(own)
            self._tensors[t.name] = PlacedTensor(t.name, "F32", t.shape, len(self._memory), 0)
