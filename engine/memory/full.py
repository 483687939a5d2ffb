"""Residency `full`: every extent in private memory, checked there before anything is computed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.memory.buffers import address_of, aligned_bytes
from engine.memory.lock import lock_pages
from engine.memory.weights import PlacedTensor
from engine.vqf import Extent, VqfFile, panels

_TEXT_EXTENTS = frozenset({"tokenizer", "template"})


class FullWeights:
    """All extents of a VQF file in private memory, each chunk's digest checked.

    With `as_floats` every matrix is replaced by its values in kind F32 (profile `wh1-float`,
    NUMERICS N13).
    """

    def __init__(
        self,
        file: VqfFile,
        *,
        as_floats: bool = False,
        num_threads: int = 1,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Read and check the file's extents.

        Args:
            file: an open VQF file; it may be closed afterwards.
            as_floats: whether to run the model over its dequantised weights.
            num_threads: how many threads read and check.
            progress: called with (bytes done, bytes in all).

        Raises:
            WeightsError: a chunk did not verify.
            WeightsUncheckedError: the file could not be read.
            FormatError: what was read breaks a rule of the format.
        """
        self.config = file.manifest.config
        extents = [e for e in file.manifest.extents if e.name not in _TEXT_EXTENTS]
        self._memory: list[NDArray[np.uint8]] = []
        self._tensors: dict[str, PlacedTensor] = {}
        # Values take several times the room of what they stand for: one extent at a time.
        for group in [[extent] for extent in extents] if as_floats else [extents]:
            memories = [aligned_bytes(extent.size_bytes) for extent in group]
            names = [extent.name for extent in group]
            file.read_extents(
                list(zip(names, [memory.data for memory in memories], strict=True)),
                num_threads=num_threads,
                progress=None if as_floats else progress,
            )
            for extent, memory in zip(group, memories, strict=True):
                self._place(memory, extent, as_floats=as_floats)
        self.bases = np.array([0, *map(address_of, self._memory)], np.int64)

    def find(self, name: str) -> PlacedTensor | None:
        """Return the tensor, or None if the model has none of that name."""
        return self._tensors.get(name)

    @property
    def resident_bytes(self) -> int:
        """Bytes of weights in private memory."""
        return sum(m.nbytes for m in self._memory)

    def lock(self) -> int:
        """Keep them out of swap where the limit allows; return how many bytes are (DESIGN 6)."""
        return lock_pages(self._memory)

    def _place(self, memory: NDArray[np.uint8], extent: Extent, *, as_floats: bool) -> None:
        if as_floats:
            self._place_as_floats(memory, extent)
            return
        self._memory.append(memory)
        base = len(self._memory)
        for t in extent.tensors:
            self._tensors[t.name] = PlacedTensor(t.name, t.kind, t.shape, base, t.offset_bytes)

    def _place_as_floats(self, memory: NDArray[np.uint8], extent: Extent) -> None:
        for t in extent.tensors:
            data = memory[t.offset_bytes : t.offset_bytes + t.length_bytes]
            if len(t.shape) == 2:
                rows, columns = t.shape
                values = panels.values(t.kind, panels.unpack(t.kind, data, rows, columns))
                data = panels.pack("F32", {"w": values}, rows, columns)
            own = aligned_bytes(data.nbytes)
            own[:] = data
            self._memory.append(own)
            self._tensors[t.name] = PlacedTensor(t.name, "F32", t.shape, len(self._memory), 0)
