"""The data disk at the first start: found, seen to be empty, formatted where the medium says so."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from fault import SetupError, say
from medium import mounted
from places import LABEL_DATA, Places
from programs import run

MIN_BYTES: Final = 1 << 30
_LOOK_BYTES: Final = 4096
_CANDIDATES: Final = (f"by-partlabel/{LABEL_DATA}", f"by-id/virtio-{LABEL_DATA}")


def prepare_disk(places: Places) -> None:
    """Format an empty data disk; one that has the label is left as it is.

    A power cut leaves a disk that is whole, or one without the label: mke2fs writes it last.

    Raises:
        SetupError: there is no data disk, the medium does not allow it, or it is not empty.
    """
    if places.by_label(LABEL_DATA).exists():
        return
    with mounted(places, writable=False) as medium:
        if medium is None:
            raise SetupError("no data disk, and no medium that says format_data = true")
        wishes = medium.wishes()
    if not wishes.format_data:
        raise SetupError("no data disk, and setup.toml does not say format_data = true")
    device = _device(places, wishes.data_disk)
    _check_empty(device)
    say(f"formatting {device}")
    options = ["-q", "-F", "-t", "ext4", "-m", "1", "-L", LABEL_DATA]
    run("mke2fs", *options, "-d", places.share / "data", device)
    run("udevadm", "trigger", "--settle", device)
    if not places.by_label(LABEL_DATA).exists():
        raise SetupError(f"{device} was formatted, and its label is not seen")


def _device(places: Places, wished: str) -> Path:
    """Return the disk to format."""
    if wished:
        return places.root / wished.lstrip("/")
    for name in _CANDIDATES:
        if (path := places.root / "dev/disk" / name).exists():
            return path
    raise SetupError("no disk is called windhover-data; setup.toml can name it: data_disk")


def _check_empty(device: Path) -> None:
    """Refuse a disk that has anything at its beginning or end.

    Raises:
        SetupError: it is too small, or not empty.
    """
    with device.open("rb", buffering=0) as stream:
        kind = os.fstat(stream.fileno()).st_mode
        if not (stat.S_ISBLK(kind) or stat.S_ISREG(kind)):
            raise SetupError(f"{device} is no disk")
        length = stream.seek(0, os.SEEK_END)
        if length < MIN_BYTES:
            raise SetupError(f"{device} has {length} bytes; {MIN_BYTES} are needed")
        # An interrupted mke2fs has written groups, and not yet what says where they are.
        for offset in (0, length - _LOOK_BYTES):
            stream.seek(offset)
            if any(stream.read(_LOOK_BYTES)):
                raise SetupError(f"{device} is not empty, and is left as it is")
    if found := run("wipefs", "--noheadings", "--output", "TYPE", device).split():
        raise SetupError(f"{device} has a {found[0]}, and is left as it is")
