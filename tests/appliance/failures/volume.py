"""Small file systems of their own, which can be filled, made read-only, and fail."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MS_RDONLY = 1
MS_REMOUNT = 32
MNT_DETACH = 2
EXT4_IOC_SHUTDOWN = 0x8004587D
_PIECE = 4096


class Volume:
    """A file system at a folder, until it is unmounted."""

    def __init__(self, folder: Path) -> None:
        """Name it."""
        self.folder = folder
        self._filling = folder / "filling"

    def fill(self) -> None:
        """Leave no room on it, whoever has asked for how much."""
        with self._filling.open("ab", buffering=0) as stream, suppress(OSError):
            while stream.write(bytes(_PIECE)):
                pass
        assert os.statvfs(self.folder).f_bavail == 0

    def free(self) -> None:
        """Give the room back."""
        self._filling.unlink()

    def allow_writing(self, allowed: bool) -> None:
        """Mount it read-only, or not any more; no file may be open for writing then."""
        flags = MS_REMOUNT | (0 if allowed else MS_RDONLY)
        number = _mount("none", self.folder, "tmpfs", flags, "")
        assert not number, os.strerror(number)


@contextmanager
def tmpfs(folder: Path, num_bytes: int) -> Iterator[Volume]:
    """Mount a file system in memory; the test is skipped where that may not be done."""
    folder.mkdir()
    number = _mount("windhover-test", folder, "tmpfs", 0, f"size={num_bytes},mode=0700")
    if number:
        pytest.skip(f"a file system cannot be mounted here: {os.strerror(number)}")
    try:
        yield Volume(folder)
    finally:
        ctypes.CDLL(None).umount2(os.fsencode(folder), MNT_DETACH)


class Disk(Volume):
    """A file system on a disk of its own, which may break."""

    def __init__(self, folder: Path, image: Path) -> None:
        """Name the folder and the file that stands for the disk."""
        super().__init__(folder)
        self._image = image

    def mount(self) -> None:
        """Mount it; the test is skipped where that may not be done."""
        result = _run("mount", "-o", "loop", str(self._image), str(self.folder))
        if result.returncode:
            pytest.skip(f"a disk cannot be mounted here: {result.stderr.strip()}")

    def shut_down(self) -> None:
        """Let every later access fail, as that of a disk that is gone."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", 0))
        finally:
            os.close(descriptor)

    def mount_again(self) -> None:
        """Bring it back."""
        self.unmount()
        self.mount()

    def unmount(self) -> None:
        """Take it away."""
        _run("umount", str(self.folder))


@contextmanager
def ext4(folder: Path, num_bytes: int) -> Iterator[Disk]:
    """Make a file system on a file; the test is skipped where that may not be done."""
    if not all(map(shutil.which, ("mkfs.ext4", "mount", "umount"))):
        pytest.skip("a disk needs mkfs.ext4, mount and umount: not all of them are here")
    folder.mkdir()
    image = folder.with_suffix(".image")
    image.touch()
    os.truncate(image, num_bytes)
    result = _run("mkfs.ext4", "-q", str(image))
    assert result.returncode == 0, result.stderr
    disk = Disk(folder, image)
    disk.mount()
    try:
        yield disk
    finally:
        disk.unmount()


def _run(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the system."""
    path = shutil.which(name) or name
    return subprocess.run([path, *words], check=False, capture_output=True, text=True)


def _mount(source: str, folder: Path, kind: str, flags: int, options: str) -> int:
    """Call mount(2); return 0, or the number of the error."""
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.mount(
        source.encode(), os.fsencode(folder), kind.encode(), ctypes.c_ulong(flags),
        options.encode(),
    )  # fmt: skip
    return ctypes.get_errno() if failed else 0
