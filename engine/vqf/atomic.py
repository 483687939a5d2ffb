"""A file that appears whole or not at all.

It is written under a name of its own in the folder of the target, with no permissions for others,
and takes the target's name after everything is on the disk. Whatever interrupts the writing, the
target is untouched; unless the process is killed outright, the temporary file is gone too.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from errno import EINVAL, EOPNOTSUPP, EPERM
from typing import TYPE_CHECKING, Self

from engine.errors import ConversionError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from _typeshed import ReadableBuffer


class AtomicFile:
    """Context manager around the temporary file; leaving it without `commit` removes the file.

    Every failure of the file system is a `ConversionError` of one line that names the target.
    """

    def __init__(self, target: Path, *, force: bool) -> None:
        """Name the target; `force` allows it to be replaced if it is a regular file."""
        self._target = target
        self._force = force
        self._temporary = target.with_name(f".{target.name}.{secrets.token_hex(12)}.partial")
        self._descriptor = -1

    def __enter__(self) -> Self:
        """Return the file; nothing is made yet, so that an interrupt cannot leave it behind."""
        return self

    def create(self) -> None:
        """Make the temporary file.

        Raises:
            ConversionError: the target exists and may not be replaced, or its folder cannot be
                written.
        """
        self._check_target()
        try:
            self._descriptor = os.open(
                self._temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
            )
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
            ConversionError: there are not so many.
        """
        try:
            os.posix_fallocate(self._descriptor, 0, length)
        except OSError as error:
            # These two say that the file system cannot; a disk that is full says so while writing.
            if error.errno not in (EOPNOTSUPP, EINVAL):
                raise self._failure(error) from error

    def write_at(self, offset: int, data: ReadableBuffer) -> None:
        """Write all of `data` at `offset`.

        Raises:
            ConversionError: the file system refused.
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
            ConversionError: the target has appeared meanwhile and may not be replaced, or the file
                system refused.
        """
        try:
            os.fchmod(self._descriptor, 0o666 & ~_umask())
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

    def _take_name(self) -> None:
        """Give the file its name; without `force` in a way that cannot replace anything."""
        if self._force:
            self._temporary.replace(self._target)
            return
        try:
            self._target.hardlink_to(self._temporary)
            self._temporary.unlink()
        except FileExistsError:
            raise self._exists() from None
        except OSError as error:
            if error.errno not in (EPERM, EOPNOTSUPP):
                raise
            # A file system without hard links: the check just before is all there can be.
            self._temporary.replace(self._target)

    def _check_target(self) -> None:
        """Refuse to replace what must not be replaced."""
        try:
            mode = self._target.lstat().st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failure(error) from error
        if not self._force:
            raise self._exists()
        if not stat.S_ISREG(mode):
            raise ConversionError(f"{self._target} exists and is not a regular file")

    def _exists(self) -> ConversionError:
        """Return the refusal to replace the target."""
        return ConversionError(f"{self._target} exists already; it is replaced only if forced")

    def _failure(self, error: OSError) -> ConversionError:
        """Return one line about a refusal of the file system."""
        return ConversionError(f"{self._target} cannot be written: {error.strerror or error}")


def _umask() -> int:
    """Return the process's file creation mask, which can only be read by setting it."""
    mask = os.umask(0o077)  # strict, for files that other threads make meanwhile
    os.umask(mask)
    return mask
