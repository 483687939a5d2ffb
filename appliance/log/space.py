"""Room on the disk that is reserved for what has to be written later.

The blocks behind the end of the open segment are allocated to it, so that nobody else has them;
where the file system has no such call, free space is counted instead.

Source: fallocate(2), FALLOC_FL_KEEP_SIZE.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import threading
from types import TracebackType
from typing import Final, Self

from appliance.log.errors import LogUnavailableError
from crypto.errors import WriteError

_KEEP_SIZE: Final = 1
_STEP_BYTES: Final = 1 << 20
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CANNOT: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class Reservation:
    """Bytes that are kept free for one writing; given back when it is released, once."""

    __slots__ = ("_bytes", "_space")

    def __init__(self, space: Space, num_bytes: int) -> None:
        """Keep what `Space.reserve` has reserved."""
        self._space = space
        self._bytes = num_bytes

    def __enter__(self) -> Self:
        """Return the reservation."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give the bytes back."""
        self.release()

    @property
    def num_bytes(self) -> int:
        """How many bytes are kept; 0 after the release."""
        return self._bytes

    def release(self) -> None:
        """Give the bytes back; nothing happens the second time."""
        num_bytes, self._bytes = self._bytes, 0
        self._space.give_back(num_bytes)


class Space:
    """The reservations of one log. Any thread may call."""

    def __init__(self, descriptor: int, end: int) -> None:
        """Reserve behind `end` of an open segment."""
        self._lock = threading.Lock()
        self._descriptor = descriptor
        self._end = end
        self._allocated = end
        self._reserved = 0

    @property
    def reserved(self) -> int:
        """Number of bytes that are reserved."""
        return self._reserved

    def reserve(self, num_bytes: int) -> Reservation:
        """Reserve bytes.

        Raises:
            LogUnavailableError: `full`.
            OSError: the file system failed in another way.
        """
        with self._lock:
            total = self._reserved + num_bytes
            self._allocated = self._allocate(self._descriptor, self._end, self._allocated, total)
            self._reserved = total
        return Reservation(self, num_bytes)

    def give_back(self, num_bytes: int) -> None:
        """Count bytes as free again; the blocks stay the segment's until it is closed."""
        with self._lock:
            self._reserved -= num_bytes

    def written(self, end: int) -> None:
        """Go on behind a new end of the segment."""
        with self._lock:
            self._end = end
            self._allocated = max(self._allocated, end)

    def move(self, descriptor: int, end: int) -> None:
        """Reserve the same bytes in another segment; nothing changes where that fails.

        Raises:
            LogUnavailableError: `full`.
            OSError: the file system failed in another way.
        """
        with self._lock:
            allocated = self._allocate(descriptor, end, end, self._reserved)
            self._descriptor, self._end, self._allocated = descriptor, end, allocated

    def _allocate(self, descriptor: int, end: int, allocated: int, total: int) -> int:
        """Return up to where blocks are allocated, which is at least `total` bytes behind `end`."""
        needed = end + total
        limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        if limit != resource.RLIM_INFINITY and needed > limit:
            raise _full("the process's limit on file sizes is reached")
        if needed <= allocated:
            return allocated
        for goal in (needed + _STEP_BYTES, needed):
            try:
                keep_allocated(descriptor, allocated, goal - allocated)
            except OSError as error:
                if error.errno in _CANNOT:
                    return self._count(descriptor, total, allocated)
                if error.errno not in _NO_ROOM:
                    raise
            else:
                return goal
        raise _full("the disk is full")

    @staticmethod
    def _count(descriptor: int, total: int, allocated: int) -> int:
        """Compare the free space with what is reserved, where it cannot be allocated."""
        status = os.fstatvfs(descriptor)
        if status.f_bavail * status.f_frsize < total + _STEP_BYTES:
            raise _full("the disk is full")
        return allocated


def keep_allocated(descriptor: int, offset: int, length: int) -> None:
    """Allocate blocks of a file without changing its size.

    Raises:
        OSError: the file system has no room, or no such call.
    """
    function = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)
    if function is None:
        function = ctypes.CDLL(None, use_errno=True).fallocate
    function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    while function(descriptor, _KEEP_SIZE, offset, length):
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


def lacks_room(error: WriteError) -> bool:
    """Return whether it is a full disk that the file system refused something for."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in _NO_ROOM


def _full(message: str) -> LogUnavailableError:
    return LogUnavailableError("full", message)
