"""Reading VQF files: strict about every byte, and never from memory that someone else can change.

Steps 1, 3, 4 and 6 of FORMAT.md section 11. A file that is open may be written to, truncated or
replaced by others at any moment: what was read before is in private memory, and what is read later
is compared with the manifest that was accepted when the file was opened.
"""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from crypto.merkle import leaf_hash, root
from engine.errors import FormatError, UnsupportedError, WeightsError, WeightsUncheckedError
from engine.vqf.format import CHUNK_BYTES, PAGE_BYTES, PREAMBLE_BYTES, Form
from engine.vqf.manifest import model_digest
from engine.vqf.panels import rows_beyond_are_zero
from engine.vqf.parse import parse_manifest
from engine.vqf.preamble import parse_preamble

if TYPE_CHECKING:
    from types import TracebackType

    from _typeshed import WriteableBuffer
    from numpy.typing import NDArray

    from engine.vqf.manifest import Extent, Manifest, Tensor


class VqfFile:
    """An open plain file whose manifest has been accepted; a context manager.

    Its methods may be called from several threads at once.
    """

    def __init__(
        self, path: Path, descriptor: int, data_offset: int, manifest: Manifest, digest: bytes
    ) -> None:
        """Take over `descriptor`; `open_vqf` is the way to get here."""
        self.path = path
        self.manifest = manifest
        self.model_digest = digest
        self._descriptor = descriptor
        self._data_offset = data_offset
        self._extents = {extent.name: extent for extent in manifest.extents}
        self._tensors = {
            tensor.name: tensor for extent in manifest.extents for tensor in extent.tensors
        }

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

    def extent(self, name: str) -> Extent:
        """Return an extent; KeyError if the file has none of this name."""
        return self._extents[name]

    def has_extent(self, name: str) -> bool:
        """Return whether the file has an extent of this name."""
        return name in self._extents

    def tensor(self, name: str) -> Tensor:
        """Return a tensor; KeyError if the file has none of this name."""
        return self._tensors[name]

    def read_extent(self, name: str, out: WriteableBuffer | None = None) -> NDArray[np.uint8]:
        """Read an extent with its filling into private memory and check it.

        Args:
            name: an extent of the file.
            out: a writable buffer of the extent's `size_bytes`; without it page-aligned memory is
                allocated.

        Returns:
            uint8[size_bytes], over `out` if it was given.

        Raises:
            WeightsError: the bytes are not those that the manifest has the root of.
            WeightsUncheckedError: the bytes could not be read, or the file is shorter than it was.
            FormatError: R40 or R41 is broken.
            ValueError: `out` has another size or cannot be written.

        Security: after an error the memory holds zeros. With `out`, nobody else may write to it
            meanwhile.
        """
        extent = self._extents[name]
        array = _aligned(extent.size_bytes) if out is None else _writable(out, extent.size_bytes)
        try:
            self._read_checked(extent, array)
        except BaseException:
            array.fill(0)
            raise
        return array

    def read_bytes(self, name: str) -> bytes:
        """Read an extent that holds no tensors, check it and return it without its filling.

        Raises:
            WeightsError, WeightsUncheckedError: as `read_extent`.
            FormatError: R40 or R42 is broken.
        """
        extent = self._extents[name]
        content = self.read_extent(name)[: extent.length_bytes].tobytes()
        if not extent.tensors:
            try:
                content.decode("utf-8")
            except UnicodeDecodeError as error:
                offset = self._data_offset + extent.offset_bytes + error.start
                raise FormatError("R42", offset, f"extent {name} is not UTF-8") from None
        return content

    def map_extent(self, name: str) -> NDArray[np.uint8]:
        """Map an extent with its filling, read-only and **unverified**: uint8[size_bytes].

        Raises:
            WeightsUncheckedError: the file cannot be mapped, or is shorter than it was.

        Security: nothing is compared with the root. The mapping shows what others write to the file
        later, and touching it ends the process if the file is truncated meanwhile. It is for plain
        weights under a policy that allows unsigned ones; everything else uses `read_extent`.
        """
        extent = self._extents[name]
        start = self._data_offset + extent.offset_bytes
        # Pages of the machine may be larger than the file's.
        begin = start - start % mmap.ALLOCATIONGRANULARITY
        length = start - begin + extent.size_bytes
        descriptor = self._open_descriptor()  # mmap takes -1 for memory of zeros
        try:
            memory = mmap.mmap(descriptor, length, offset=begin, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise WeightsUncheckedError(f"extent {name} cannot be mapped: {error}") from error
        return np.frombuffer(memory, np.uint8, extent.size_bytes, start - begin)

    def _open_descriptor(self) -> int:
        """Return the descriptor; WeightsUncheckedError after `close`."""
        if self._descriptor < 0:
            raise WeightsUncheckedError(f"{self.path} is closed")
        return self._descriptor

    def _read_checked(self, extent: Extent, array: NDArray[np.uint8]) -> None:
        """Fill `array` with an extent, chunk by chunk; compare its root, apply R40 and R41."""
        start = self._data_offset + extent.offset_bytes
        leaf_hashes = []
        for chunk_start in range(0, extent.size_bytes, CHUNK_BYTES):
            chunk = array[chunk_start : chunk_start + CHUNK_BYTES]
            _read_into(self._open_descriptor(), chunk.data, start + chunk_start)
            leaf_hashes.append(leaf_hash(chunk.data))
        if root(leaf_hashes) != extent.root:
            raise WeightsError(f"extent {extent.name} of {self.path} does not have its digest")
        for filling_start, filling_end in extent.filling():
            if array[filling_start:filling_end].any():
                message = f"filling of extent {extent.name} is not zero"
                raise FormatError("R40", start + filling_start, message)
        for tensor in extent.tensors:
            end = tensor.offset_bytes + tensor.length_bytes
            data = array[tensor.offset_bytes : end]
            if len(tensor.shape) > 1 and not rows_beyond_are_zero(tensor.kind, data, *tensor.shape):
                message = f"rows beyond the last of {tensor.name} are not zero"
                raise FormatError("R41", start + tensor.offset_bytes, message)


def open_vqf(path: str | os.PathLike[str]) -> VqfFile:
    """Open a plain VQF file.

    Raises:
        OSError: the file cannot be opened.
        FormatError: one of R1 to R39 is broken.
        UnsupportedError: the file is signed or sealed.
        WeightsUncheckedError: the file could not be read, or became shorter meanwhile.
    """
    # Opening a pipe would wait for its other end; on a regular file the flag means nothing.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return _opened(Path(path), descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def _opened(path: Path, descriptor: int) -> VqfFile:
    """Apply steps 1, 3 and 4 of FORMAT.md section 11."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise FormatError("R1", 0, f"{path} is not a regular file")
    unverified_head = bytearray(min(PREAMBLE_BYTES, status.st_size))
    _read_into(descriptor, memoryview(unverified_head), 0)
    preamble = parse_preamble(bytes(unverified_head), status.st_size)
    if preamble.form is not Form.PLAIN:
        form = preamble.form.name.lower()
        raise UnsupportedError(f"{path} is {form}; this reader reads plain VQF files only")
    unverified = bytearray(preamble.data_offset - PREAMBLE_BYTES)
    _read_into(descriptor, memoryview(unverified), PREAMBLE_BYTES)
    encoded = bytes(unverified[: preamble.manifest_length])
    if any(unverified[preamble.manifest_length :]):
        offset = PREAMBLE_BYTES + preamble.manifest_length
        raise FormatError("R13", offset, "filling behind the manifest is not zero")
    digest = model_digest(encoded)
    if digest != preamble.identity:
        raise FormatError("R14", 96, "the identity is not the digest of the manifest")
    manifest = parse_manifest(encoded, PREAMBLE_BYTES)
    if manifest.data_length_bytes != preamble.data_length:
        message = f"the extents end at {manifest.data_length_bytes}, the data area elsewhere"
        raise FormatError("R39", 56, message)
    return VqfFile(path, descriptor, preamble.data_offset, manifest, digest)


def _read_into(descriptor: int, view: memoryview, offset: int) -> None:
    """Fill `view` from `offset` of the file."""
    while view:
        try:
            count = os.preadv(descriptor, [view], offset)
        except OSError as error:
            raise WeightsUncheckedError(f"the file cannot be read: {error.strerror}") from error
        if count == 0:
            raise WeightsUncheckedError(f"the file ends at {offset}, before what was to be read")
        view = view[count:]
        offset += count


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
