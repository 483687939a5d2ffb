"""Which pages of a file are in the page cache, whoever brought them there.

Sources: mincore(2), posix_fadvise(2).
"""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path
from typing import Final

import numpy as np

from appliance.bench.cgroup import NotMeasurableError

PAGE_BYTES: Final = mmap.PAGESIZE
_PIECE_BYTES: Final = 1 << 30
_READ_BYTES: Final = 8 << 20


def resident_bytes(path: Path) -> int:
    """Return how many bytes of a file are in the page cache, counted in pages.

    Raises:
        OSError: the file cannot be opened.
        NotMeasurableError: the kernel does not tell this user; reason `mincore`.
    """
    if not os.access(path, os.W_OK) and path.stat().st_uid != os.geteuid():
        # Since Linux 5.2 others are told that everything is there.
        message = f"{path} is neither owned nor writable: its pages in memory are not told"
        raise NotMeasurableError("mincore", message)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    pages = 0
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for start in range(0, size, _PIECE_BYTES):
            length = min(_PIECE_BYTES, size - start)
            with mmap.mmap(file.fileno(), length, offset=start, prot=mmap.PROT_READ) as memory:
                view = np.frombuffer(memory, np.uint8)
                found = np.zeros(-(-length // PAGE_BYTES), np.uint8)
                failed = libc.mincore(view.ctypes.data, length, found.ctypes.data)
                del view
            if failed:
                reason = os.strerror(ctypes.get_errno())
                raise NotMeasurableError("mincore", f"pages of {path} cannot be counted: {reason}")
            pages += int(np.count_nonzero(found & 1))
    return pages * PAGE_BYTES


def evict(path: Path) -> None:
    """Take a file out of the page cache, as far as nobody has it mapped.

    Raises:
        OSError: the file cannot be opened, or written out first.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(descriptor)  # what is not on the disk yet would stay
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def warm(path: Path) -> None:
    """Read a file into the page cache; its pages are charged to this process's group.

    Twice, for pages that were used more than once are the last to be reclaimed.

    Raises:
        OSError: the file cannot be read.
    """
    from engine.memory.file_map import DONTNEED, FileMap  # noqa: PLC0415 - one use

    size = path.stat().st_size
    buffer = bytearray(_READ_BYTES)
    with path.open("rb", buffering=0) as file:
        # Through a map the system brings its largest pages, as residency stream does.
        mapped = FileMap(file.fileno(), size)
        try:
            for start in range(0, size, _READ_BYTES):
                stop = min(start + _READ_BYTES, size)
                mapped.populate(start, stop)
                mapped.advise(start, stop, DONTNEED)
        finally:
            mapped.close()
        while file.readinto(buffer):
            pass


def available_bytes() -> int:
    """Return how much memory the system can give without swapping (MemAvailable)."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return 0
