"""A file mapped where the system can use its largest pages (README.md W4)."""

from __future__ import annotations

import ctypes
import mmap
from typing import Final

from engine.errors import WeightsUncheckedError
from engine.memory.buffers import LARGE_BYTES, PAGE_BYTES

_WILLNEED: Final = 3
DONTNEED: Final = 4
_HUGEPAGE: Final = 14
_POPULATE_READ: Final = 22

_FIXED: Final = 0x10
_FAILED: Final = ctypes.c_size_t(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_size_t
_libc.mmap.argtypes = [
    *(ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
]
_libc.munmap.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]


class FileMap:
    """The beginning of a file, read-only. What others write to the file shows.

    Where the system keeps the file in large pages, they are mapped as such: faults and what is
    given back cost a fraction then.
    """

    def __init__(self, descriptor: int, length_bytes: int) -> None:
        """Map so many bytes.

        Raises:
            WeightsUncheckedError: the file cannot be mapped.
        """
        # A mapping of nothing reserves room in which the right place is chosen.
        self._room = length_bytes + LARGE_BYTES
        self._start = _map(0, self._room, mmap.PROT_READ, _anonymous(), -1)
        self.address = self._start + -self._start % LARGE_BYTES
        self.length_bytes = length_bytes
        try:
            flags = mmap.MAP_SHARED | _FIXED
            _map(self.address, length_bytes, mmap.PROT_READ, flags, descriptor)
        except WeightsUncheckedError:
            self.close()
            raise
        self.advise(0, length_bytes, _HUGEPAGE)

    def advise(self, start: int, stop: int, advice: int) -> None:
        """Give advice for the pages that hold some bytes, those at the edges too.

        Advice is no promise: what is not heeded costs time or memory, never a bit.
        """
        begin = self.address + start - start % PAGE_BYTES
        _libc.madvise(begin, self.address + stop - begin, advice)

    def populate(self, start: int, stop: int) -> None:
        """Bring and map the pages that hold some bytes; returns when they are there, or never will.

        This reads as large pages what MADV_WILLNEED would read as small ones. A system without it
        (Linux before 5.14) is given that advice instead. What is not in the file is left out.
        """
        begin = self.address + start - start % PAGE_BYTES
        if _libc.madvise(begin, self.address + stop - begin, _POPULATE_READ):
            self.advise(start, stop, _WILLNEED)

    def close(self) -> None:
        """Unmap it; nobody may look at it any more. A second call does nothing."""
        if self._start:
            _libc.munmap(self._start, self._room)
            self._start = 0


def _anonymous() -> int:
    return mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


def _map(address: int, length: int, protection: int, flags: int, descriptor: int) -> int:
    found = int(_libc.mmap(address, length, protection, flags, descriptor, 0))
    if found == _FAILED:
        number = ctypes.get_errno()
        raise WeightsUncheckedError(f"the file cannot be mapped: error {number}")
    return found
