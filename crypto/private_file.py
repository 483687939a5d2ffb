"""Reading a file that only its owner may read: keys and secrets.

What is opened is checked, not what the path named a moment before, and nothing is read of a file
that fails. Codes of `KeyFileError` are in crypto/README.md, section "Secrets".
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from crypto.errors import KeyFileError

if TYPE_CHECKING:
    from _typeshed import StrPath

# Without O_NONBLOCK the open itself would wait for the writer of a named pipe.
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_ROOT: Final = 0
_OTHERS_OR_GROUP: Final = 0o077
_OTHERS_OR_GROUP_CHANGES: Final = 0o037


def read_private_file(
    path: StrPath, *, max_bytes: int, dir_fd: int | None = None, group_may_read: bool = False
) -> bytearray:
    """Return the whole content of a private file, in a buffer that the caller can overwrite.

    Args:
        path: the file; its last component is no symbolic link.
        max_bytes: how long it may be; it is not empty.
        dir_fd: the open directory that a relative path begins at.
        group_may_read: whether the group may read it, as with systemd's credentials, which show
            their access list there.

    Raises:
        KeyFileError: `missing`, `unreadable`, `symlink`, `kind` (no regular file), `owner` (neither
            this user nor root), `mode` (others can read or change it), `size` (empty or too long).
    """
    try:
        descriptor = os.open(path, _FLAGS, dir_fd=dir_fd)
    except OSError as error:
        raise _open_error(path, error) from None
    try:
        status = os.fstat(descriptor)
        _check(path, status, _OTHERS_OR_GROUP_CHANGES if group_may_read else _OTHERS_OR_GROUP)
        if not 1 <= status.st_size <= max_bytes:
            raise _size_error(path, max_bytes)
        return read_until_end(descriptor, path, max_bytes=max_bytes)
    finally:
        os.close(descriptor)


def read_until_end(descriptor: int, name: StrPath, *, max_bytes: int) -> bytearray:
    """Return what an open file still gives, 1..max_bytes; `name` is for the error.

    Raises:
        KeyFileError: `unreadable`, `size`.
    """
    # One byte more than may be there: a file that has grown since it was looked at is seen.
    content = bytearray(max_bytes + 1)
    try:
        length = _read_into(descriptor, content)
        if not 1 <= length <= max_bytes:
            raise _size_error(name, max_bytes)
        return content[:length]
    except OSError as error:
        raise KeyFileError("unreadable", f"{name}: {error.strerror}") from None
    finally:
        wipe(content)


def wipe(buffer: bytearray) -> None:
    """Overwrite a buffer with zeros; what was copied from it stays where it is."""
    buffer[:] = bytes(len(buffer))


def _check(path: StrPath, status: os.stat_result, refused_bits: int) -> None:
    """Refuse a file that is not a regular one or that others can get at."""
    if not stat.S_ISREG(status.st_mode):
        raise KeyFileError("kind", f"{path}: not a regular file")
    if status.st_uid not in (_ROOT, os.geteuid()):
        raise KeyFileError("owner", f"{path}: belongs to user {status.st_uid}, not to this one")
    if status.st_mode & refused_bits:
        mode = stat.S_IMODE(status.st_mode)
        raise KeyFileError("mode", f"{path}: mode {mode:04o} lets others at it; use chmod 600")


def _read_into(descriptor: int, buffer: bytearray) -> int:
    """Fill `buffer` from a file until it is full or the file ends; return the number of bytes."""
    filled = 0
    view = memoryview(buffer)
    while filled < len(buffer):
        count = os.readv(descriptor, [view[filled:]])
        if count == 0:
            break
        filled += count
    return filled


def _open_error(path: StrPath, error: OSError) -> KeyFileError:
    """Return the error for a file that does not open."""
    if error.errno == errno.ENOENT:
        return KeyFileError("missing", f"{path}: no such file")
    if error.errno == errno.ELOOP:
        return KeyFileError("symlink", f"{path}: is a symbolic link; name the file itself")
    return KeyFileError("unreadable", f"{path}: {error.strerror}")


def _size_error(path: StrPath, max_bytes: int) -> KeyFileError:
    """Return the error for a file that is empty or too long."""
    return KeyFileError("size", f"{path}: must have 1..{max_bytes} bytes")
