"""Write xor execute: after the lock no memory of this process becomes executable that was not.

The lock is Linux's memory-deny-write-execute. It cannot be undone, holds for every thread, and
goes on to programs that this process starts. Whether it works is not believed but tried.

Source: prctl(2), PR_SET_MDWE (Linux 6.3).
"""

from __future__ import annotations

import ctypes
import errno
import mmap
from typing import Final, Literal, NamedTuple, TypeAlias

State: TypeAlias = Literal["locked", "open"]

_PR_SET_MDWE: Final = 65
_REFUSE_EXEC_GAIN: Final = 1
_PROT_READ_EXEC: Final = mmap.PROT_READ | mmap.PROT_EXEC
_PROT_READ_WRITE: Final = mmap.PROT_READ | mmap.PROT_WRITE
_PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_FAILED: Final = ctypes.c_void_p(-1).value


class Lock(NamedTuple):
    """What came of it.

    state: `locked` only if the kernel accepted the lock and the tries were refused. reason: why it
    is open, a line for a person; empty where it is locked.
    """

    state: State
    reason: str

    @property
    def is_locked(self) -> bool:
        """Whether nothing becomes executable any more."""
        return self.state == "locked"


def lock() -> Lock:
    """Lock this process, and try whether it is."""
    libc = ctypes.CDLL(None, use_errno=True)
    word = ctypes.c_ulong
    if libc.prctl(_PR_SET_MDWE, word(_REFUSE_EXEC_GAIN), word(0), word(0), word(0)):
        code = ctypes.get_errno()
        known = {errno.EINVAL: "this Linux is older than 6.3"}
        why = known.get(code) or errno.errorcode.get(code, str(code))
        return Lock("open", f"the kernel refused the lock: {why}")
    gained = executable_gains()
    if gained:
        return Lock("open", f"the kernel accepted the lock, and still allows {', '.join(gained)}")
    return Lock("locked", "")


def executable_gains() -> tuple[str, ...]:
    """Try to get executable memory; return the ways on which this process gets some.

    Nothing stays mapped, and nothing is executed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size = mmap.PAGESIZE
    ways = []
    both = libc.mmap(None, size, _PROT_READ_WRITE | mmap.PROT_EXEC, _PRIVATE, -1, 0)
    if both != _FAILED:
        ways.append("memory that is writable and executable")
        libc.munmap(both, size)
    page = libc.mmap(None, size, _PROT_READ_WRITE, _PRIVATE, -1, 0)
    if page == _FAILED:
        return (*ways, "nothing that can be said: no memory could be mapped")
    if libc.mprotect(page, size, _PROT_READ_EXEC) == 0:
        ways.append("making written memory executable")
    libc.munmap(page, size)
    return tuple(ways)
