"""Residency `stream`: plain weights through the memory map, asked for ahead and dropped behind.

Only for plain files under a policy that allows unsigned weights: the map shows what others write to
the file later, and a file that becomes shorter ends the process.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError, UnsupportedError
from engine.memory.buffers import PAGE_BYTES, address_of
from engine.memory.embedding_rows import EmbeddingRows
from engine.memory.lock import lock_pages
from engine.memory.residency import Residency
from engine.memory.resident import ResidentParts, layer_extent
from engine.memory.streamed import StreamedWeights
from engine.memory.weights import PlacedTensor
from engine.memory.windows import Window
from engine.vqf.format import Form

if TYPE_CHECKING:
    from engine.vqf import VqfFile
    from engine.vqf.kept import KeptFile

_WILLNEED: Final = 3
_DONTNEED: Final = 4
_AHEAD: Final = 1


class MappedWeights(StreamedWeights):
    """Weights in the system's page cache, of which this process maps a window at a time."""

    def __init__(self, kept: KeptFile, residency: Residency) -> None:
        """Map the extents of a file whose weights were verified once.

        Raises:
            UnsupportedError: the file is signed or sealed.
            WeightsUncheckedError: it cannot be mapped.
        """
        file = kept.file
        refuse_protected(file)
        self._kept = kept
        self.config = file.manifest.config
        self.window_bytes = residency.window_bytes
        self._drop_page_cache = residency.drop_page_cache
        self._parts = ResidentParts(file.manifest, kept.read_range)
        self._extents = self._parts.extents
        self._maps = [np.empty(0, np.uint8), *map(file.map_extent, self._extents[1:])]
        self.bases = self._parts.bases
        for base, mapped in enumerate(self._maps[1:], 1):
            self.bases[base] = address_of(mapped)
        kept_names = [layer_extent(n) for n in range(residency.keep_layers - 1)]
        if len(kept_names) > self.config.num_layers:
            raise ConfigError(f"there are only {self.config.num_layers} layers to keep")
        self._kept_layers = frozenset(map(self._extents.index, kept_names))
        self._madvise = ctypes.CDLL(None, use_errno=True).madvise
        self._madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._rows = EmbeddingRows(self._parts.tensors["embedding"])
        self._order: tuple[Window, ...] = ()
        self._place = 0
        self._held: Window | None = None

    def find(self, name: str) -> PlacedTensor | None:
        """Return the tensor, or None if the model has none of that name."""
        return self._parts.tensors.get(name)

    def gather(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Copy the embedding's panels with the rows of some ids; see `StreamedWeights`."""
        rows = self._rows
        starts, local = rows.place(ids)
        mapped = self._maps[rows.tensor.base]
        for place, start in enumerate(starts.tolist()):
            stop = start + rows.panel_bytes
            rows.row(place)[:] = mapped[start:stop]
            self._drop(Window(0, rows.tensor.base, start, stop))
        self.bases[rows.tensor.base] = rows.base
        return local

    def begin(self, order: Sequence[Window]) -> None:
        """Say which windows a step will enter, in this order."""
        self._order, self._place = tuple(order), 0
        self._ask(self._order[:_AHEAD])

    def enter(self, window: Window) -> None:
        """Ask for the window behind this one, and drop the one before; see `StreamedWeights`."""
        self._give_back()
        self._place += 1
        self._ask(self._order[self._place : self._place + _AHEAD])
        self.bases[window.base] = address_of(self._maps[window.base])
        self._held = window

    def end(self) -> None:
        """Drop the last window."""
        self._give_back()

    def close(self) -> None:
        """Close the file; the map goes with this object."""
        self._kept.close()

    @property
    def resident_bytes(self) -> int:
        """Bytes of weights in private memory at most."""
        return self._parts.num_bytes + self._rows.memory.nbytes

    def lock(self) -> int:
        """Keep the vectors out of swap where the limit allows; the map is never written there."""
        return lock_pages(self._parts.memory)

    def _give_back(self) -> None:
        window, self._held = self._held, None
        if window is not None and window.base not in self._kept_layers:
            self._drop(window)

    def _ask(self, windows: Sequence[Window]) -> None:
        for window in windows:
            address = address_of(self._maps[window.base])
            start = address + window.start_bytes
            begin = start - start % PAGE_BYTES
            self._advise(begin, address + window.stop_bytes - begin, _WILLNEED)

    def _drop(self, window: Window) -> None:
        """Unmap the pages of a window, those at its edges too: who needs them gets them again."""
        address = address_of(self._maps[window.base])
        start, stop = address + window.start_bytes, address + window.stop_bytes
        begin, end = start - start % PAGE_BYTES, stop + -stop % PAGE_BYTES
        self._advise(begin, end - begin, _DONTNEED)
        if self._drop_page_cache:
            file = self._kept.file
            extent = file.extent(self._extents[window.base])
            offset = file.preamble.data_offset + extent.offset_bytes + begin - address
            os.posix_fadvise(file.descriptor, offset, end - begin, os.POSIX_FADV_DONTNEED)

    def _advise(self, address: int, length: int, advice: int) -> None:
        if self._madvise(address, length, advice):
            # Advice is no promise: what is not heeded costs time or memory, never a bit.
            ctypes.set_errno(0)


def refuse_protected(file: VqfFile) -> None:
    """Refuse a file that is to be verified whenever it is read.

    Raises:
        UnsupportedError: it is signed or sealed.
    """
    if file.form is not Form.PLAIN:
        form = file.form.name.lower()
        raise UnsupportedError(
            f"{file.path} is {form}: residency stream reads plain files only; "
            "use verified-stream, which checks what it reads each time"
        )
