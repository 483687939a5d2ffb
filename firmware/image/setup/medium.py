"""The setup medium: a file system labelled WH-SETUP, which an operator plugs in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fault import SetupError
from files import sync, write
from places import LABEL_MEDIUM, Places
from programs import run
from wishes import MAX_BYTES, Wishes, parse

MAX_SMALL_BYTES: Final = 1 << 20
"""How long a file of the medium may be that is no weights."""


class Medium:
    """What is on the medium while it is mounted."""

    def __init__(self, folder: Path) -> None:
        """Name the folder where it is seen."""
        self.folder = folder

    def wishes(self) -> Wishes:
        """Read setup.toml.

        Raises:
            SetupError: it is not there, or not what it has to be.
        """
        data = self.small("setup.toml", max_bytes=MAX_BYTES)
        if data is None:
            raise SetupError(f"there is no setup.toml on {LABEL_MEDIUM}")
        return parse(data)

    def small(self, name: str, *, max_bytes: int = MAX_SMALL_BYTES) -> bytes | None:
        """Return a small file, or None without it.

        Raises:
            SetupError: it is too long, empty or no file.
        """
        path = self.folder / name
        if not path.exists() and not path.is_symlink():
            return None
        if path.is_symlink() or not path.is_file() or not 0 < path.stat().st_size <= max_bytes:
            raise SetupError(f"{name} on the medium is no file of 1 to {max_bytes} bytes")
        return path.read_bytes()

    def large(self, name: str) -> Path | None:
        """Return the path of a file, or None without it.

        Raises:
            SetupError: it is no file, or empty.
        """
        path = self.folder / name
        if not path.exists() and not path.is_symlink():
            return None
        if path.is_symlink() or not path.is_file() or path.stat().st_size == 0:
            raise SetupError(f"{name} on the medium is no file, or empty")
        return path

    def export(self, name: str, data: bytes) -> None:
        """Write a file into `export`, and wait until it is there."""
        folder = self.folder / "export"
        folder.mkdir(exist_ok=True)
        write(folder / name, data)
        sync(self.folder)


@contextmanager
def mounted(places: Places, *, writable: bool) -> Iterator[Medium | None]:
    """Give the medium, or None where none is plugged in; nothing on it is executed.

    Raises:
        SetupError: it cannot be mounted.
    """
    device = places.by_label(LABEL_MEDIUM)
    if device.is_dir():  # in tests a folder stands for it
        yield Medium(device)
        return
    if not device.exists():
        yield None
        return
    folder = places.root / "run/windhover-medium"
    folder.mkdir(parents=True, exist_ok=True)
    options = f"nosuid,nodev,noexec,{'rw' if writable else 'ro'}"
    kind = run("blkid", "-p", "-o", "value", "-s", "TYPE", device).strip()
    if kind not in {"ext4", "ext3", "ext2", "vfat"}:
        raise SetupError(f"{LABEL_MEDIUM} is neither ext4 nor vfat")
    if kind == "vfat":
        options += ",umask=0077"
    run("mount", "-t", kind, "-o", options, device, folder)
    try:
        yield Medium(folder)
    finally:
        run("umount", folder)
