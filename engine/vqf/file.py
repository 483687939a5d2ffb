"""An open VQF file: extents into private memory, every byte compared with what was accepted."""

from __future__ import annotations

import os
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Self

import numpy as np

from crypto.merkle import root
from engine.errors import FormatError, WeightsError, WeightsUncheckedError
from engine.vqf.batches import batches, run_batches
from engine.vqf.chunks import Chunk, all_chunks
from engine.vqf.fetch import ChunkSource
from engine.vqf.format import CHUNK_BYTES, PAGE_BYTES, Form
from engine.vqf.panels import rows_beyond_are_zero

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from _typeshed import WriteableBuffer
    from numpy.typing import NDArray

    from crypto.bulk import Bulk
    from engine.vqf.fetch import Seal
    from engine.vqf.manifest import Extent, Manifest, Tensor
    from engine.vqf.preamble import Preamble
    from engine.vqf.signatures import SignedRelease


class VqfFile:
    """An open file whose manifest has been accepted; a context manager.

    That it is well formed and has its tags says nothing about who vouches for it: see
    `engine.admission`. Methods may be called from several threads at once.
    """

    def __init__(
        self,
        path: Path,
        descriptor: int,
        preamble: Preamble,
        manifest: Manifest,
        model_digest: bytes,
        signatures: tuple[SignedRelease, ...],
        seal: Seal | None,
        bulk: Bulk,
    ) -> None:
        """Take over `descriptor`; `open_vqf` is the way to get here."""
        self.path = path
        self.preamble = preamble
        self.manifest = manifest
        self.model_digest = model_digest
        self.signatures = signatures
        """As they stand in the file; not verified."""
        self.seal = seal
        self.bulk = bulk
        self._descriptor = descriptor
        self._extents = {extent.name: extent for extent in manifest.extents}
        self._tensors = {
            tensor.name: tensor for extent in manifest.extents for tensor in extent.tensors
        }
        self._chunks: dict[str, list[Chunk]] = {extent.name: [] for extent in manifest.extents}
        for chunk in all_chunks(manifest.extents):
            self._chunks[manifest.extents[chunk.extent].name].append(chunk)

    def __enter__(self) -> Self:
        """Return the file itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; arrays that were read stay valid, and so do mappings."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def form(self) -> Form:
        """What protects the file."""
        return self.preamble.form

    @property
    def descriptor(self) -> int:
        """The open file's descriptor; WeightsUncheckedError after `close`."""
        if self._descriptor < 0:
            raise WeightsUncheckedError(f"{self.path} is closed")
        return self._descriptor

    def source(self, descriptor: int | None = None) -> ChunkSource:
        """Return the data area, for readers of single chunks.

        Args:
            descriptor: another one of the same file; by default the one of this object.
        """
        names = [f"{extent.name} of {self.path}" for extent in self.manifest.extents]
        opened = self.descriptor if descriptor is None else descriptor
        return ChunkSource(opened, self.preamble.data_offset, self.seal, names)

    def chunks(self, name: str) -> Sequence[Chunk]:
        """Return the chunks of an extent; KeyError if the file has none of this name."""
        return self._chunks[name]

    def extent(self, name: str) -> Extent:
        """Return an extent; KeyError if the file has none of this name."""
        return self._extents[name]

    def has_extent(self, name: str) -> bool:
        """Return whether the file has an extent of this name."""
        return name in self._extents

    def tensor(self, name: str) -> Tensor:
        """Return a tensor; KeyError if the file has none of this name."""
        return self._tensors[name]

    def read_extents(
        self,
        wanted: Sequence[tuple[str, WriteableBuffer]],
        *,
        num_threads: int = 1,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[NDArray[np.uint8]]:
        """Read extents with their filling into private memory and check them.

        Args:
            wanted: names of extents, none twice, and for each a writable contiguous buffer of its
                `size_bytes`.
            num_threads: how many threads share the work.
            progress: called with (bytes done, bytes in all).

        Returns:
            uint8[size_bytes] over each buffer.

        Raises:
            WeightsError: V5 or V6: the bytes are not those that were sealed, or not those that the
                manifest has the root of.
            WeightsUncheckedError: the bytes could not be read, or the file is shorter than it was.
            FormatError: R40, R41 or R42 is broken.
            ValueError: a buffer has another size or cannot be written, or a name stands twice.

        Security: after an error all these buffers hold zeros. Nobody else may write to them
            meanwhile.
        """
        if len({name for name, _ in wanted}) != len(wanted):
            raise ValueError("an extent cannot be read twice at once")
        arrays = [_writable(out, self._extents[name].size_bytes) for name, out in wanted]
        views: dict[int, memoryview] = {}
        digests: dict[int, bytes] = {}
        for (name, _), array in zip(wanted, arrays, strict=True):
            for chunk in self._chunks[name]:
                start = chunk.in_extent * CHUNK_BYTES
                views[chunk.number] = array.data[start : start + chunk.length]
        source, bulk = self.source(), self.bulk

        def fetch(batch: tuple[Chunk, ...]) -> None:
            leaf_hashes = source.fetch(batch, [views[chunk.number] for chunk in batch], bulk)
            digests.update(zip((chunk.number for chunk in batch), leaf_hashes, strict=True))

        try:
            todo = batches((c for name, _ in wanted for c in self._chunks[name]), bulk.lanes)
            run_batches(fetch, todo, num_threads, progress)
            for (name, _), array in zip(wanted, arrays, strict=True):
                self._check(name, array, [digests[chunk.number] for chunk in self._chunks[name]])
        except BaseException:
            for array in arrays:
                array.fill(0)
            raise
        return arrays

    def read_extent(self, name: str, out: WriteableBuffer | None = None) -> NDArray[np.uint8]:
        """Read one extent with its filling into private memory and check it.

        Args:
            name: an extent of the file.
            out: a writable buffer of the extent's `size_bytes`; without it page-aligned memory is
                allocated.

        Returns:
            uint8[size_bytes], over `out` if it was given.

        Raises:
            WeightsError, WeightsUncheckedError, FormatError, ValueError: as `read_extents`.
        """
        memory = _aligned(self._extents[name].size_bytes).data if out is None else out
        return self.read_extents([(name, memory)])[0]

    def read_bytes(self, name: str) -> bytes:
        """Read an extent, check it and return it without its filling.

        Raises:
            WeightsError, WeightsUncheckedError, FormatError: as `read_extents`.
        """
        return self.read_extent(name)[: self._extents[name].length_bytes].tobytes()

    def _check(self, name: str, array: NDArray[np.uint8], leaf_hashes: list[bytes]) -> None:
        """Compare the root of an extent, apply R40 to R42."""
        extent = self._extents[name]
        if root(leaf_hashes) != extent.root:
            raise WeightsError(f"extent {name} of {self.path} does not have its digest", "V6")
        start = self.preamble.data_offset + extent.offset_bytes
        for filling_start, filling_end in extent.filling():
            if array[filling_start:filling_end].any():
                message = f"filling of extent {name} is not zero"
                raise FormatError("R40", start + filling_start, message)
        for tensor in extent.tensors:
            end = tensor.offset_bytes + tensor.length_bytes
            data = array[tensor.offset_bytes : end]
            if len(tensor.shape) > 1 and not rows_beyond_are_zero(tensor.kind, data, *tensor.shape):
                message = f"rows beyond the last of {tensor.name} are not zero"
                raise FormatError("R41", start + tensor.offset_bytes, message)
        if not extent.tensors:
            at = _first_not_utf8(array.data[: extent.length_bytes])
            if at is not None:
                raise FormatError("R42", start + at, f"extent {name} is not UTF-8")


def _first_not_utf8(data: memoryview) -> int | None:
    """Return where `data` stops being UTF-8, None if it is; looks at one piece after the other."""
    decoder = getincrementaldecoder("utf-8")()
    for start in range(0, len(data), CHUNK_BYTES):
        piece = data[start : start + CHUNK_BYTES]
        held = len(decoder.getstate()[0])
        try:
            decoder.decode(piece, final=start + len(piece) == len(data))
        except UnicodeDecodeError as error:
            return start - held + error.start
    return None


def _aligned(size_bytes: int) -> NDArray[np.uint8]:
    """Return new memory that begins on a page."""
    memory = np.empty(size_bytes + PAGE_BYTES, np.uint8)
    start = -memory.ctypes.data % PAGE_BYTES
    return memory[start : start + size_bytes]


def _writable(out: WriteableBuffer, size_bytes: int) -> NDArray[np.uint8]:
    """Return the caller's buffer as an array."""
    view = memoryview(out)
    if view.readonly or not view.c_contiguous or view.nbytes != size_bytes:
        raise ValueError(f"a writable contiguous buffer of {size_bytes} bytes is needed")
    return np.frombuffer(view.cast("B"), np.uint8)
