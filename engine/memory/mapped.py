"""Residency `stream`: plain weights through the memory map, asked for ahead and dropped behind.

Only for plain files under a policy that allows unsigned weights: the map shows what others write to
the file later, and a file that becomes shorter ends the process.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError, UnsupportedError
from engine.memory.buffers import LARGE_BYTES, PAGE_BYTES
from engine.memory.embedding_rows import EmbeddingRows
from engine.memory.file_map import DONTNEED, FileMap
from engine.memory.lock import lock_pages
from engine.memory.residency import Residency
from engine.memory.resident import ResidentParts, layer_extent
from engine.memory.streamed import StreamedWeights
from engine.memory.weights import PlacedTensor
from engine.memory.windows import Window
from engine.vqf.fetch import read_into
from engine.vqf.format import Form

if TYPE_CHECKING:
    from engine.vqf import VqfFile
    from engine.vqf.kept import KeptFile

_AHEAD: Final = 1


class MappedWeights(StreamedWeights):
    """Weights in the system's page cache, of which this process maps a window at a time."""

    def __init__(self, kept: KeptFile, residency: Residency, mapped: FileMap) -> None:
        """Take over a file whose weights were verified once, and its map.

        Raises:
            ConfigError: there are fewer layers than are to be kept.
            WeightsError, WeightsUncheckedError: as `KeptFile.read`.
        """
        file = kept.file
        self._kept = kept
        self.config = file.manifest.config
        self.window_bytes = residency.window_bytes
        self._drop_page_cache = residency.drop_page_cache
        self._parts = ResidentParts(file.manifest, kept.read_range)
        self._extents = self._parts.extents
        self.bases = self._parts.bases
        start = file.preamble.data_offset
        # Where each extent begins in the map; base 0 is none.
        self._offsets = [0, *(start + file.extent(n).offset_bytes for n in self._extents[1:])]
        kept_names = [layer_extent(n) for n in range(residency.keep_layers - 1)]
        if len(kept_names) > self.config.num_layers:
            raise ConfigError(f"there are only {self.config.num_layers} layers to keep")
        self._kept_layers = frozenset(map(self._extents.index, kept_names))
        self._rows = EmbeddingRows(self._parts.tensors["embedding"])
        self._order: tuple[Window, ...] = ()
        self._place = 0
        self._asked: dict[Window, Future[None]] = {}
        self._thread = ThreadPoolExecutor(1, "windows")
        self._held: Window | None = None
        self._map = mapped

    def find(self, name: str) -> PlacedTensor | None:
        """Return the tensor, or None if the model has none of that name."""
        return self._parts.tensors.get(name)

    def gather(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Read the embedding's panels with the rows of some ids; see `StreamedWeights`.

        They are read and not mapped: a fault brings a large page where a row is needed.
        """
        rows, file = self._rows, self._kept.file
        starts, local = rows.place(ids)
        first = self._offsets[rows.tensor.base]
        for place, start in enumerate(starts.tolist()):
            read_into(file.descriptor, rows.row(place).data, first + start)
        if self._drop_page_cache:
            for start in starts.tolist():
                self._forget(first + start, first + start + rows.panel_bytes)
        self.bases[rows.tensor.base] = rows.base
        return local

    def begin(self, order: Sequence[Window]) -> None:
        """Say which windows a step will enter, in this order."""
        self._give_up()
        self._order, self._place = tuple(order), 0
        self._ask(self._order[:_AHEAD])

    def enter(self, window: Window) -> None:
        """Ask for the window behind this one, and drop the one before; see `StreamedWeights`."""
        self._give_back()
        self._place += 1
        self._ask(self._order[self._place : self._place + _AHEAD])
        if window in self._asked:
            self._asked.pop(window).result()
        self.bases[window.base] = self._address(window.base)
        self._held = window

    def end(self) -> None:
        """Drop the last window, and what is left of it in its last page."""
        self._give_up()
        held = self._held
        self._give_back()
        if held is not None:
            _, stop = self._span(held)
            self._drop(stop - stop % LARGE_BYTES, stop + -stop % LARGE_BYTES)

    def close(self) -> None:
        """Unmap and close the file."""
        self._thread.shutdown(cancel_futures=True)  # nobody looks at the map any more
        self._map.close()
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
            start, stop = self._span(window)
            # A page that the next window begins in goes with that: halves of pages stay.
            self._drop(start - start % LARGE_BYTES, stop - stop % LARGE_BYTES)

    def _address(self, base: int) -> int:
        return self._map.address + self._offsets[base]

    def _span(self, window: Window) -> tuple[int, int]:
        """Return where a window begins and ends in the map."""
        offset = self._offsets[window.base]
        return offset + window.start_bytes, offset + window.stop_bytes

    def _ask(self, windows: Sequence[Window]) -> None:
        for window in windows:
            self._asked[window] = self._thread.submit(self._map.populate, *self._span(window))

    def _give_up(self) -> None:
        """Drop what was asked for and not entered."""
        asked, self._asked = self._asked, {}
        for window, future in asked.items():
            if not future.cancel() and window.base not in self._kept_layers:
                wait([future])
                start, stop = self._span(window)
                self._drop(start - start % LARGE_BYTES, stop + -stop % LARGE_BYTES)

    def _drop(self, start: int, stop: int) -> None:
        """Unmap whole large pages: who needs one gets it again."""
        stop = min(stop, self._map.length_bytes)
        if start < stop:
            self._map.advise(start, stop, DONTNEED)
            if self._drop_page_cache:
                self._forget(start, stop)

    def _forget(self, start: int, stop: int) -> None:
        """Ask the system to forget the pages around some bytes of the file."""
        begin = start - start % PAGE_BYTES
        end = stop + -stop % PAGE_BYTES
        os.posix_fadvise(self._kept.file.descriptor, begin, end - begin, os.POSIX_FADV_DONTNEED)


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
