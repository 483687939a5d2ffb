"""A file that is read again and again: what was accepted once, and only that, comes back.

The whole of its weights is verified when it is opened, in bounded memory. Of every chunk a mark
under a key of this process stays in private memory; where the library has no function for marks,
what it was accepted by (DESIGN-VQF, "What checks what"): its tag where the file is sealed, its leaf
hash elsewhere. Whatever happens to the file afterwards, a read gives the same
bytes again or an error.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from crypto.errors import UnavailableError
from crypto.merkle import root
from engine.errors import FormatError, WeightsError
from engine.memory.buffers import mapped_pages
from engine.vqf.batches import batches
from engine.vqf.format import CHUNK_BYTES
from engine.vqf.kinds import PANEL_ROWS
from engine.vqf.marks import Marks
from engine.vqf.panels import packed_bytes, rows_beyond_are_zero

if TYPE_CHECKING:
    from engine.vqf.chunks import Chunk
    from engine.vqf.fetch import ChunkSource
    from engine.vqf.file import VqfFile
    from engine.vqf.manifest import Extent, Tensor

_WAITING: Final = 2

TEXT_EXTENTS: Final = frozenset({"tokenizer", "template"})
"""Not weights: they are read by themselves, once."""


class KeptFile:
    """Reads verified pieces of extents. `read` may be called from several threads at once."""

    def __init__(
        self,
        file: VqfFile,
        *,
        num_threads: int = 1,
        drop_page_cache: bool = False,
        before_extent: Callable[[Extent], None] = lambda extent: None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Verify all weights of an open file.

        Args:
            file: stays open as long as this is used, and is closed with it.
            num_threads: how many threads share the work of one read.
            drop_page_cache: read past the system's cache where the file system can, else ask it to
                forget what was read.
            before_extent: called with each extent before it is verified.
            progress: called with (bytes done, bytes in all).

        Raises:
            WeightsError: V5 or V6: a chunk or a root did not verify.
            WeightsUncheckedError: the file could not be read.
            FormatError: R40 or R41 is broken.
        """
        self.file = file
        self._bulk = file.bulk
        self._direct = _open_direct(file.descriptor) if drop_page_cache else None
        self._forgets = drop_page_cache and self._direct is None
        self._source: ChunkSource = file.source(self._direct)
        # While some wait for the disk, others compute.
        self._threads: ThreadPoolExecutor | None = ThreadPoolExecutor(
            num_threads + _WAITING, "weights"
        )
        self._leaf_hashes: list[bytes] = []
        self._marks = _new_marks(sum(e.num_chunks for e in file.manifest.extents))
        self._scratch = threading.local()
        try:
            self._verify(before_extent, progress)
            self._scratch = threading.local()  # nothing is verified for the first time any more
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the threads and close the file; a second call does nothing."""
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        if self._direct is not None:
            os.close(self._direct)
            self._direct = None
        if self._marks is not None:
            self._marks.wipe()
        self.file.close()

    def read(self, extent: str, start: int, stop: int, out: memoryview) -> int:
        """Read the chunks around some bytes of an extent into private memory.

        Args:
            extent: its name.
            start: the first byte.
            stop: the byte behind the last one.
            out: writable memory, its beginning page-aligned, of at least `room_for(start, stop)`
                bytes; nobody else writes to it.

        Returns:
            Where in `out` the byte `start` is.

        Raises:
            WeightsError: V5, V6: the bytes are not those that were accepted.
            WeightsUncheckedError: the file cannot be read, or became shorter.

        Security: after an error all of `out` holds zeros.
        """
        _ = self.file.descriptor  # one that was closed may be another file's by now
        first, last = start // CHUNK_BYTES, -(-stop // CHUNK_BYTES)
        chunks = self.file.chunks(extent)[first:last]
        views = [
            out[chunk.in_extent * CHUNK_BYTES - first * CHUNK_BYTES :][: chunk.length]
            for chunk in chunks
        ]
        by_number = {chunk.number: view for chunk, view in zip(chunks, views, strict=True)}

        known = self._leaf_hashes if self._marks is None else self._marks

        def fetch(batch: tuple[Chunk, ...]) -> None:
            buffers = [by_number[chunk.number] for chunk in batch]
            self._source.fetch_again(batch, buffers, self._bulk, known)
            self._forget(batch)

        try:
            self._run(fetch, batches(chunks, self._bulk.lanes))
        except BaseException:
            np.frombuffer(out, np.uint8)[:] = 0
            raise
        return start - first * CHUNK_BYTES

    def read_range(self, extent: str, start: int, stop: int) -> NDArray[np.uint8]:
        """Return some bytes of an extent, uint8[stop - start]; errors as `read`."""
        memory = mapped_pages(room_for(start, stop))
        offset = self.read(extent, start, stop, memory.data)
        return memory[offset : offset + stop - start]

    def _verify(
        self,
        before_extent: Callable[[Extent], None],
        progress: Callable[[int, int], None] | None,
    ) -> None:
        extents = [e for e in self.file.manifest.extents if e.name not in TEXT_EXTENTS]
        total = sum(extent.size_bytes for extent in extents)
        done = 0
        self._leaf_hashes = [b""] * sum(e.num_chunks for e in self.file.manifest.extents)
        for extent in extents:
            before_extent(extent)
            chunks = self.file.chunks(extent.name)
            self._run(self._fetch_first, batches(chunks, self._bulk.lanes))
            if root([self._leaf_hashes[chunk.number] for chunk in chunks]) != extent.root:
                name = f"extent {extent.name} of {self.file.path}"
                raise WeightsError(f"{name} does not have its digest", "V6")
            self._check_zeros(extent)
            done += extent.size_bytes
            if progress is not None:
                progress(done, total)

    def _fetch_first(self, batch: tuple[Chunk, ...]) -> None:
        memory: NDArray[np.uint8] | None = getattr(self._scratch, "memory", None)
        if memory is None or memory.nbytes < len(batch) * CHUNK_BYTES:
            memory = self._scratch.memory = mapped_pages(len(batch) * CHUNK_BYTES)
        views = [
            memory.data[index * CHUNK_BYTES :][: chunk.length] for index, chunk in enumerate(batch)
        ]
        leaf_hashes = self._source.fetch(batch, views, self._bulk, self._marks)
        for chunk, leaf_hash in zip(batch, leaf_hashes, strict=True):
            self._leaf_hashes[chunk.number] = leaf_hash
        self._forget(batch)

    def _check_zeros(self, extent: Extent) -> None:
        """Apply R40 and R41 to what the root vouches for, where there is anything to look at."""
        data_start = self.file.preamble.data_offset + extent.offset_bytes
        for start, stop in extent.filling():
            if start < stop and self.read_range(extent.name, start, stop).any():
                message = f"filling of extent {extent.name} is not zero"
                raise FormatError("R40", data_start + start, message)
        for tensor in extent.tensors:
            if len(tensor.shape) > 1 and tensor.shape[0] % PANEL_ROWS:
                self._check_last_panel(extent, tensor)

    def _check_last_panel(self, extent: Extent, tensor: Tensor) -> None:
        rows, columns = tensor.shape
        panel_bytes = packed_bytes(tensor.kind, PANEL_ROWS, columns)
        stop = tensor.offset_bytes + tensor.length_bytes
        panel = self.read_range(extent.name, stop - panel_bytes, stop)
        if not rows_beyond_are_zero(tensor.kind, panel, rows % PANEL_ROWS, columns):
            offset = self.file.preamble.data_offset + extent.offset_bytes + tensor.offset_bytes
            raise FormatError("R41", offset, f"rows beyond the last of {tensor.name} are not zero")

    def _run(
        self, work: Callable[[tuple[Chunk, ...]], None], todo: Sequence[tuple[Chunk, ...]]
    ) -> None:
        """Call `work` for every batch; returns or raises when none runs any more."""
        if self._threads is None or len(todo) == 1:
            for batch in todo:
                work(batch)
            return
        running: list[Future[None]] = []
        try:
            running.extend(self._threads.submit(work, batch) for batch in todo)
        finally:
            wait(running)
        for future in running:
            future.result()

    def _forget(self, batch: tuple[Chunk, ...]) -> None:
        if self._forgets:
            start = self._source.data_offset + batch[0].offset
            stop = self._source.data_offset + batch[-1].offset + batch[-1].length
            os.posix_fadvise(self.file.descriptor, start, stop - start, os.POSIX_FADV_DONTNEED)


def room_for(start: int, stop: int) -> int:
    """Return how many bytes the chunks around some bytes of an extent take at most."""
    return (-(-stop // CHUNK_BYTES) - start // CHUNK_BYTES) * CHUNK_BYTES


def _new_marks(num_chunks: int) -> Marks | None:
    try:
        return Marks(num_chunks)
    except UnavailableError:
        return None


def _open_direct(descriptor: int) -> int | None:
    """Open the same file past the system's cache; None where it cannot be read so."""
    try:
        direct = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        os.preadv(direct, [mapped_pages(4096).data], 0)
    except OSError:
        os.close(direct)
        return None
    return direct
