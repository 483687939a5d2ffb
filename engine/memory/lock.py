"""Memory that stays in memory: pages that the system may not write to swap.

Source: mlock(2).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from engine.memory.buffers import address_of


def lock_pages(arrays: Iterable[NDArray[np.uint8]]) -> int:
    """Lock arrays for the life of the process, as far as its limit allows; return how many bytes.

    An array is locked whole or not at all; the first that is refused is the last that is tried.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    locked = 0
    for array in arrays:
        if libc.mlock(address_of(array), array.nbytes):
            break
        locked += array.nbytes
    return locked
