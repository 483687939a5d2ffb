"""Aligned private memory for kernels."""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np
from numpy.typing import NDArray

ALIGNMENT_BYTES: Final = 64


def aligned_bytes(size_bytes: int) -> NDArray[np.uint8]:
    """Return uint8[size_bytes] at a multiple of 64; pages are taken as they are touched."""
    raw = np.empty(size_bytes + ALIGNMENT_BYTES, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[start : start + size_bytes]


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
