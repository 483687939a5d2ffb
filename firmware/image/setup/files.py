"""Files that are there whole or not at all, whenever the power goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from fault import SetupError
from places import gives_away

_CHUNK: Final = 1 << 20
_NEW: Final = ".new"


def write(path: Path, data: bytes, *, mode: int = 0o644, owner: tuple[int, int] = (0, 0)) -> None:
    """Put a file in place of what is there.

    Args:
        path: its folder exists.
        data: all of it.
        mode: its permissions.
        owner: user and group; only root gives files away.
    """
    with replacing(path, mode=mode, owner=owner) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, *, mode: int, owner: tuple[int, int]) -> Iterator[BinaryIO]:
    """Give a new file that takes the place of `path` at the end, and is on the disk then."""
    new = _new(path)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        if gives_away():
            os.fchown(file.fileno(), *owner)
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    new.rename(path)
    sync(path.parent)


def copy(source: Path, path: Path, *, mode: int, owner: tuple[int, int]) -> int:
    """Copy a file of any length; return its bytes.

    Raises:
        SetupError: there is no space for it, or it was shorter than it said.
    """
    expected = source.stat().st_size
    _new(path).unlink(missing_ok=True)  # a power cut left it, and it would count as taken space
    space = os.statvfs(path.parent)
    if expected > space.f_bavail * space.f_frsize:
        raise SetupError(f"no space for {source.name}: {expected} bytes")
    length = 0
    with source.open("rb") as stream, replacing(path, mode=mode, owner=owner) as file:
        while chunk := stream.read(_CHUNK):
            length += file.write(chunk)
        if length != expected:
            raise SetupError(f"{source.name} has {length} bytes, and said {expected}")
    return length


def same(first: Path, second: Path) -> bool:
    """Return whether both are there and have the same content."""
    if not (first.is_file() and second.is_file()):
        return False
    if first.stat().st_size != second.stat().st_size:
        return False
    with first.open("rb") as one, second.open("rb") as other:
        while chunk := one.read(_CHUNK):
            if chunk != other.read(_CHUNK):
                return False
    return True


def _new(path: Path) -> Path:
    """Return where a file is written before it has its name."""
    return path.with_name(f".{path.name}{_NEW}")


def sync(folder: Path) -> None:
    """Wait until what was renamed in a folder is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
