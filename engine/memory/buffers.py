"""Aligned private memory for kernels."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from typing import Final

import numpy as np
from numpy.typing import NDArray

ALIGNMENT_BYTES: Final = 64
PAGE_BYTES: Final = 4096
"""What direct input and output is aligned to; a page of memory has this size or a multiple."""

LARGE_BYTES: Final = 2 << 20
"""A large page of x86-64 and of aarch64 with pages of 4 KiB; elsewhere alignment costs nothing."""


def aligned_bytes(size_bytes: int) -> NDArray[np.uint8]:
    """Return uint8[size_bytes] at a multiple of 64; pages are taken as they are touched."""
    raw = np.empty(size_bytes + ALIGNMENT_BYTES, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[start : start + size_bytes]


def mapped_pages(size_bytes: int) -> NDArray[np.uint8]:
    """Return zeroed uint8[size_bytes] at the start of a page, in a private mapping of its own.

    For large buffers that come and go: pages are taken as they are touched, and go back to the
    system with the last reference, which the C library does not promise.

    The whole large pages of a buffer are asked for as such. A direct read into small pages that do
    not follow each other in memory is cut into requests of at most 1 MiB, which a disk may serve at
    a quarter of the speed.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    whole = size_bytes - size_bytes % LARGE_BYTES
    room = size_bytes + LARGE_BYTES if whole else max(size_bytes, 1)  # an empty one is refused
    memory = mmap.mmap(-1, room, flags=flags)
    if not whole:
        return np.frombuffer(memory, np.uint8, size_bytes)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % LARGE_BYTES
    with contextlib.suppress(OSError):  # a kernel without large pages
        memory.madvise(mmap.MADV_HUGEPAGE, start, whole)
    return np.frombuffer(memory, np.uint8, size_bytes, start)


def return_freed_memory() -> None:
    """Give freed memory back to the system where the C library can (glibc keeps it otherwise).

    For the moment after a large document was parsed and dropped, before the next large allocation.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def address_of(array: NDArray[np.generic]) -> int:
    """Return where the array's data starts; the caller keeps the array alive."""
    return int(array.ctypes.data)
