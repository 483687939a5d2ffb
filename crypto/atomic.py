"""A file that appears whole or not at all.

It is written without a name in the folder of the target, where the file system can do that, and
under a hidden name of its own elsewhere; it takes the target's name after everything is on the
disk. Whatever interrupts the writing, the target is untouched, and a file without a name is gone
when its process is, even one that was killed.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from errno import EINVAL, EISDIR, ENOENT, ENOSYS, EOPNOTSUPP, EPERM, EXDEV
from typing import TYPE_CHECKING, Final, Self

from crypto.errors import WriteError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from _typeshed import ReadableBuffer

_COPY_BYTES: Final = 1 << 20
_CANNOT: Final = frozenset({EOPNOTSUPP, EINVAL, EISDIR, ENOENT, ENOSYS, EXDEV, EPERM})
"""What a system or a file system says that does not know the operation."""


class AtomicFile:
    """Context manager around the new file; leaving it without `commit` removes the file.

    Every failure of the file system is a `WriteError` of one line that names the target.
    """

    def __init__(self, target: Path, *, force: bool, mode: int | None = None) -> None:
        """Name the target.

        Args:
            target: the name that the file takes.
            force: whether a regular file of that name may be replaced.
            mode: its permissions; by default those of the file that it replaces, or those that the
                process's mask leaves to new files.
        """
        self._target = target
        self._force = force
        self._mode = mode
        self._temporary = target.with_name(f".{target.name}.{secrets.token_hex(12)}.partial")
        self._descriptor = -1
        self._named = False

    def __enter__(self) -> Self:
        """Return the file; nothing is made yet, so that an interrupt cannot leave it behind."""
        return self

    def create(self) -> None:
        """Make the new file, empty.

        Raises:
            WriteError: the target exists and may not be replaced, or its folder cannot be written.
        """
        self._check_target()
        try:
            self._descriptor = self._without_name()
            if self._descriptor < 0:
                self._named = True
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._descriptor = os.open(self._temporary, flags, 0o600)
        except OSError as error:
            raise self._failure(error) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close, and remove what was not committed."""
        with suppress(OSError):
            self._temporary.unlink()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def reserve(self, length: int) -> None:
        """Claim `length` bytes of the disk, so that a full one is known before the work is done.

        Raises:
            WriteError: there are not so many.
        """
        try:
            os.posix_fallocate(self._descriptor, 0, length)
        except OSError as error:
            # These two say that the file system cannot; a disk that is full says so while writing.
            if error.errno not in (EOPNOTSUPP, EINVAL):
                raise self._failure(error) from error

    def copy_range(self, source: int, offset: int, to_offset: int, length: int) -> None:
        """Copy bytes of another file; blocks are shared where the file system can do that.

        Args:
            source: a descriptor open for reading.
            offset: of the first byte in the source.
            to_offset: of the first byte in the new file.
            length: how many bytes.

        Raises:
            WriteError: the file system refused, or the source is too short.
        """
        try:
            while length:
                count = self._copy_some(source, offset, to_offset, length)
                if not count:
                    message = f"{self._target} cannot be written: its source became shorter"
                    raise WriteError(message)
                offset, to_offset, length = offset + count, to_offset + count, length - count
        except OSError as error:
            raise self._failure(error) from error

    def write_at(self, offset: int, data: ReadableBuffer) -> None:
        """Write all of `data` at `offset`.

        Raises:
            WriteError: the file system refused.
        """
        view = memoryview(data).cast("B")
        try:
            while view:
                written = os.pwrite(self._descriptor, view, offset)
                offset += written
                view = view[written:]
        except OSError as error:
            raise self._failure(error) from error

    def commit(self) -> None:
        """Make everything durable and give the file its name.

        Raises:
            WriteError: the target has appeared meanwhile and may not be replaced, or the file
                system refused.
        """
        try:
            old_mode = self._check_target()
            mode = next(m for m in (self._mode, old_mode, 0o666 & ~_umask()) if m is not None)
            os.fchmod(self._descriptor, mode)
            os.fsync(self._descriptor)
            self._check_target()
            self._take_name()
            folder = os.open(self._target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise self._failure(error) from error

    def _without_name(self) -> int:
        """Return the descriptor of a file without a name, or -1 where there is no such thing."""
        try:
            descriptor = os.open(
                self._target.parent, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            return -1
        if os.access(f"/proc/self/fd/{descriptor}", os.F_OK):
            return descriptor
        os.close(descriptor)  # without /proc it could not be given a name
        return -1

    def _link_to(self, name: Path) -> None:
        """Give the file `name`, which must be free."""
        if self._named:
            os.link(self._temporary, name)
            return
        # A folder's descriptor makes Python call linkat, which follows the link in /proc.
        folder = os.open(name.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.link(f"/proc/self/fd/{self._descriptor}", name.name, dst_dir_fd=folder)
        finally:
            os.close(folder)

    def _take_name(self) -> None:
        """Give the file its name; without `force` in a way that cannot replace anything."""
        if not self._force:
            try:
                self._link_to(self._target)
            except FileExistsError:
                raise self._exists() from None
            except OSError as error:
                if not self._named or error.errno not in (EPERM, EOPNOTSUPP):
                    raise
                # A file system without hard links: the check just before is all there can be.
            else:
                return
        if not self._named:
            self._link_to(self._temporary)
        self._temporary.replace(self._target)

    def _copy_some(self, source: int, offset: int, to_offset: int, length: int) -> int:
        """Copy some of the bytes and return how many; 0 at the end of the source."""
        try:
            return os.copy_file_range(source, self._descriptor, length, offset, to_offset)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
        piece = os.pread(source, min(length, _COPY_BYTES), offset)
        self.write_at(to_offset, piece)
        return len(piece)

    def _check_target(self) -> int | None:
        """Refuse to replace what must not be replaced; return the permissions of what may be."""
        try:
            mode = self._target.lstat().st_mode
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failure(error) from error
        if not self._force:
            raise self._exists()
        if not stat.S_ISREG(mode):
            raise WriteError(f"{self._target} exists and is not a regular file")
        return stat.S_IMODE(mode)

    def _exists(self) -> WriteError:
        """Return the refusal to replace the target."""
        return WriteError(f"{self._target} exists already; it is replaced only if forced")

    def _failure(self, error: OSError) -> WriteError:
        """Return one line about a refusal of the file system."""
        return WriteError(f"{self._target} cannot be written: {error.strerror or error}")


def _umask() -> int:
    """Return the process's file creation mask, which can only be read by setting it."""
    mask = os.umask(0o077)  # strict, for files that other threads make meanwhile
    os.umask(mask)
    return mask
