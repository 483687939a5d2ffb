"""Ways of getting a piece of a file into a process, each for one thread at a time.

Sources: open(2) O_DIRECT, preadv(2), madvise(2), posix_fadvise(2).
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np

from engine.errors import WeightsUncheckedError

MADV_POPULATE_READ: Final = 22
"""Since Linux 5.14; the `mmap` module of Python 3.11 does not name it."""

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Span(NamedTuple):
    """A piece of a file; both numbers are multiples of a page, but for the end of the file."""

    offset: int
    length: int


class Way(Protocol):
    """How spans are read; `take` is called by several threads at once, each with its own memory."""

    def take(self, span: Span, memory: memoryview) -> None:
        """Bring a span; `memory` is the thread's own, aligned to a page and long enough.

        Raises:
            WeightsUncheckedError: it could not be read.
        """
        ...


class Reading:
    """Into memory of the process: past the page cache, or through it."""

    def __init__(self, descriptor: int) -> None:
        """Read from an open file; with O_DIRECT it goes past the page cache."""
        self._descriptor = descriptor

    def take(self, span: Span, memory: memoryview) -> None:
        """Read a span."""
        done = 0
        while done < span.length:
            target = memory[done : span.length]
            try:
                count = os.preadv(self._descriptor, [target], span.offset + done)
            except OSError as error:
                reason = f"cannot be read at {span.offset + done}: {error.strerror}"
                raise WeightsUncheckedError(reason) from error
            if not count:
                raise WeightsUncheckedError(f"the file ends at {span.offset + done}")
            done += count


class Mapping:
    """Through a map: with advice beforehand or without, one byte of each page is then looked at."""

    def __init__(self, address: int, advice: int | None) -> None:
        """Use a map of the whole file at `address`; `advice` is given for each span."""
        self._address = address
        self._advice = advice

    def take(self, span: Span, memory: memoryview) -> None:
        """Bring a span into the page tables, and drop it from there again."""
        del memory
        start = self._address + span.offset
        if self._advice is not None:
            self._advise(start, span.length, self._advice)
        pages = np.ctypeslib.as_array((ctypes.c_uint8 * span.length).from_address(start))
        # The sum is of no use; to have it every page must be there.
        pages[:: mmap.PAGESIZE].sum()
        self._advise(start, span.length, mmap.MADV_DONTNEED)

    @staticmethod
    def _advise(start: int, length: int, advice: int) -> None:
        if _LIBC.madvise(start, length, advice):
            reason = os.strerror(ctypes.get_errno())
            raise WeightsUncheckedError(f"madvise({advice}) failed: {reason}")


WAYS: Final = {
    "direct": "O_DIRECT, into private memory",
    "buffered": "through the page cache, which does not have it, into private memory",
    "cached": "from the page cache into private memory",
    "mapped-willneed": "map, MADV_WILLNEED, not in the page cache",
    "mapped-populate": "map, MADV_POPULATE_READ, not in the page cache",
    "mapped-warm": "map, page faults, in the page cache",
    "mapped-populate-warm": "map, MADV_POPULATE_READ, in the page cache",
}
"""Names of the ways, and what they are."""

WARM: Final = frozenset({"cached", "mapped-warm", "mapped-populate-warm"})
"""Those for which the page cache has to hold what is read."""

_ADVICE: Final = {
    "mapped-willneed": mmap.MADV_WILLNEED,
    "mapped-populate": MADV_POPULATE_READ,
    "mapped-warm": None,
    "mapped-populate-warm": MADV_POPULATE_READ,
}


@contextmanager
def opened_way(name: str, path: Path) -> Iterator[Way]:
    """Open a file for one of `WAYS`.

    Raises:
        OSError: it cannot be opened, or its file system has no O_DIRECT.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC
    descriptor = os.open(path, flags | os.O_DIRECT if name == "direct" else flags)
    try:
        if name not in _ADVICE:
            yield Reading(descriptor)
            return
        with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as memory:
            view = np.frombuffer(memory, np.uint8)
            address = int(view.ctypes.data)
            try:
                yield Mapping(address, _ADVICE[name])
            finally:
                del view
    finally:
        os.close(descriptor)
