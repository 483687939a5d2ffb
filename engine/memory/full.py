"""Residency `full`: every extent in private memory, checked there before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from engine.memory.buffers import address_of, aligned_bytes
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
            num_threads: how many extents are read and checked at once.
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

        def read(extent: Extent) -> NDArray[np.uint8]:
            memory = aligned_bytes(extent.size_bytes)
            file.read_extent(extent.name, memory.data)
            return memory

        # Digests are computed without the interpreter's lock, so threads share them.
        with ThreadPoolExecutor(max_workers=num_threads) as readers:
            for extent, memory in zip(extents, readers.map(read, extents), strict=True):
                self._place(memory, extent, as_floats=as_floats)
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
