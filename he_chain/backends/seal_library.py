"""The library itself: finding it, its errors as ours, its objects as bytes.

SEAL's Python binding (`tenseal.sealapi`) saves and loads through names of files only. The files are
anonymous memory here (memfd_create, Linux): no other user can open them, no disk sees a secret key,
and nothing is left behind by a process that is killed.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from he_chain.errors import BackendError, HeChainError, ProtocolError

_PIECE: Final = 1 << 24
_SEAL_HEADER: Final = 16
_SEAL_MAGIC: Final = 0xA15E


def load_library() -> Any:  # noqa: ANN401 - the binding has no types
    """Return `tenseal.sealapi`.

    Raises:
        BackendError: it is not installed, or does not load.
    """
    try:
        return importlib.import_module("tenseal.sealapi")
    except ImportError as error:
        message = f"SEAL needs the package tenseal, which is the extra `he` of windhover: {error}"
        raise BackendError(message) from error


@contextmanager
def translated(operation: str, kind: type[HeChainError] = BackendError) -> Iterator[None]:
    """Turn the library's exceptions into one of ours that names the operation."""
    try:
        yield
    except (RuntimeError, ValueError, IndexError, OverflowError, MemoryError) as error:
        raise kind(f"{operation}: SEAL says: {error}") from error


def to_bytes(operation: str, save: Callable[[str], None]) -> bytearray:
    """Return what an object's `save` writes, in a buffer that can be overwritten.

    Raises:
        BackendError: the library or the system refused.
    """
    descriptor = _memory(operation)
    try:
        with translated(operation):
            save(_path(descriptor))
        return _read_all(descriptor)
    except OSError as error:
        raise BackendError(f"{operation}: {error.strerror}") from error
    finally:
        os.close(descriptor)


def from_bytes(operation: str, load: Callable[[str], None], data: bytes | memoryview) -> None:
    """Let an object's `load` read bytes.

    Raises:
        ProtocolError: the library says that they are not what they should be.
        BackendError: the system refused.
    """
    view = memoryview(data)
    magic = int.from_bytes(view[:2], "little")
    size = int.from_bytes(view[8:_SEAL_HEADER], "little")
    if magic != _SEAL_MAGIC or size != len(view):
        raise ProtocolError(f"{operation}: not an object of SEAL, or not all of it")
    descriptor = _memory(operation)
    try:
        _write_all(descriptor, view)
        with translated(operation, ProtocolError):
            load(_path(descriptor))
    except OSError as error:
        raise BackendError(f"{operation}: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _memory(operation: str) -> int:
    """Return the descriptor of an empty anonymous file."""
    try:
        return os.memfd_create("windhover-he", os.MFD_CLOEXEC)
    except OSError as error:
        raise BackendError(f"{operation}: no memory file: {error.strerror}") from error


def _path(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _read_all(descriptor: int) -> bytearray:
    """Return the whole content."""
    content = bytearray(os.fstat(descriptor).st_size)
    view, offset = memoryview(content), 0
    while offset < len(content):
        count = os.preadv(descriptor, [view[offset : offset + _PIECE]], offset)
        if not count:
            raise BackendError("a memory file became shorter")
        offset += count
    return content


def _write_all(descriptor: int, view: memoryview) -> None:
    """Write everything."""
    offset = 0
    while offset < len(view):
        offset += os.pwrite(descriptor, view[offset : offset + _PIECE], offset)
