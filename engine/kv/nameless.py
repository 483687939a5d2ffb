"""A private file without a name, read and written past the page cache (rules D2, D7, D8)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from pathlib import Path
from typing import Final

from engine.errors import SpillError
from engine.memory.buffers import PAGE_BYTES, mapped_pages

_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_MODE: Final = 0o600
# What systems without nameless files answer; old kernels take the flag for O_DIRECTORY.
_NO_TMPFILE: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)


class NamelessFile:
    """A file that only this process can reach and that ends with it; safe for several threads.

    Offsets, lengths and addresses are multiples of 4096.
    """

    def __init__(self, folder: Path, size_bytes: int, *, reserve: bool = False) -> None:
        """Make a file in `folder`.

        Args:
            folder: an existing folder of the file system to use.
            size_bytes: where the file ends.
            reserve: whether its space is taken now, and not as it is written.

        Raises:
            SpillError: the file system refuses the file or its size.
        """
        try:
            self.descriptor = _open(folder)
        except OSError as error:
            raise SpillError(f"{folder}: no file can be made: {error.strerror}") from error
        try:
            os.ftruncate(self.descriptor, size_bytes)
            if reserve:
                os.posix_fallocate(self.descriptor, 0, size_bytes)
            self.is_direct = self._become_direct()
            """Whether the page cache is passed by."""
            if not self.is_direct:
                # What would be read ahead would be dropped by nobody.
                os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        except OSError as error:
            os.close(self.descriptor)
            raise SpillError(f"{folder}: {size_bytes} bytes: {error.strerror}") from error

    def read_into(self, view: memoryview, offset: int) -> None:
        """Fill `view` from `offset`.

        Raises:
            SpillError: it cannot be read, or the file has become shorter.
        """
        start, size_bytes = offset, view.nbytes
        while view:
            try:
                count = os.preadv(self.descriptor, [view], offset)
            except OSError as error:
                raise SpillError(f"cache blocks cannot be read: {error.strerror}") from error
            if count == 0:
                raise SpillError(f"the file of cache blocks ends at {offset}")
            view = view[count:]
            offset += count
        if not self.is_direct:
            os.posix_fadvise(self.descriptor, start, size_bytes, os.POSIX_FADV_DONTNEED)

    def write_from(self, view: memoryview, offset: int) -> None:
        """Write `view` at `offset`.

        Raises:
            SpillError: it cannot be written, such as for want of space.
        """
        while view:
            try:
                count = os.pwritev(self.descriptor, [view], offset)
            except OSError as error:
                raise SpillError(f"cache blocks cannot be written: {error.strerror}") from error
            if count == 0:
                raise SpillError("cache blocks cannot be written: the file takes nothing more")
            view = view[count:]
            offset += count

    def settle(self) -> None:
        """Let nothing of what was written stay in the page cache.

        Raises:
            SpillError: it cannot be written.
        """
        if self.is_direct:
            return
        try:
            os.fdatasync(self.descriptor)  # pages that are not on the disk yet cannot be dropped
            os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError as error:
            raise SpillError(f"cache blocks cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Close the file, which frees its space; once, when no thread reads or writes."""
        os.close(self.descriptor)

    def _become_direct(self) -> bool:
        """Write directly from now on if one page can be; OSError where none can be written."""
        plain = fcntl.fcntl(self.descriptor, fcntl.F_GETFL)
        page = mapped_pages(PAGE_BYTES).data
        try:
            fcntl.fcntl(self.descriptor, fcntl.F_SETFL, plain | os.O_DIRECT)
            os.pwritev(self.descriptor, [page], 0)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
            fcntl.fcntl(self.descriptor, fcntl.F_SETFL, plain)
            return False
        return True


def _open(folder: Path) -> int:
    try:
        # Exclusive: nobody can give it a name later either.
        return os.open(folder, _FLAGS | os.O_TMPFILE | os.O_EXCL, _MODE)
    except OSError as error:
        if error.errno not in _NO_TMPFILE:
            raise
    path = folder / f".spilled-{secrets.token_hex(16)}"
    descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, _MODE)
    try:
        path.unlink()
    except OSError:
        with contextlib.suppress(OSError):
            os.close(descriptor)
        raise
    return descriptor
