"""The data disk: formatted when it is empty and the medium says so, and else left as it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.firmware.image.ground import SETUP, Ground

SIZE = 1 << 30


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """A machine with a disk of zeros, whose label is seen once it has one."""
    made = Ground(tmp_path)
    disk = made.root / "dev/disk/by-id/virtio-windhover-data"
    disk.parent.mkdir(parents=True)
    with disk.open("wb") as file:
        file.truncate(SIZE)
    folders = made.root / "usr/share/windhover/data"
    (folders / "etc/credentials").mkdir(parents=True)
    label = made.root / "dev/disk/by-label/windhover-data"
    # stands for udev
    made.put("udevadm", f'#!/bin/sh\nln -s "{disk}" "{label}"\n')
    return made


def disk_of(ground: Ground) -> Path:
    """Return the disk."""
    return ground.root / "dev/disk/by-id/virtio-windhover-data"


def test_an_empty_disk_is_formatted_once(ground: Ground) -> None:
    code, text = ground.run("disk")
    assert code == 0, text
    assert "formatting" in text
    said = subprocess.run(
        ["/sbin/debugfs", "-R", "stat /etc/credentials", disk_of(ground)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert "Type: directory" in said
    kind = subprocess.run(
        ["/sbin/blkid", "-p", "-o", "export", disk_of(ground)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert "LABEL=windhover-data" in kind
    before = disk_of(ground).read_bytes()[:65536]
    assert ground.run("disk") == (0, "windhover-setup: disk done\n")
    assert disk_of(ground).read_bytes()[:65536] == before


def test_without_the_word_nothing_is_formatted(ground: Ground) -> None:
    (ground.medium / "setup.toml").write_text(SETUP.replace("= true", "= false"))
    assert "does not say format_data = true" in ground.run("disk")[1]
    ground.medium.rename(ground.root / "away")
    code, text = ground.run("disk")
    assert (code, "no medium that says format_data = true" in text) == (1, True)
    assert not any(disk_of(ground).read_bytes()[:65536])


@pytest.mark.parametrize(
    ("offset", "content"),
    [(0, b"\x01"), (1080, b"\x53\xef"), (SIZE - 512, b"EFI PART"), (65536 + 64, b"_BHRfS_M"),
     (4086, b"SWAPSPACE2")],
)  # fmt: skip
def test_a_disk_with_anything_on_it_is_left(ground: Ground, offset: int, content: bytes) -> None:
    with disk_of(ground).open("r+b") as file:
        file.seek(offset)
        file.write(content)
    code, text = ground.run("disk")
    assert (code, "is left as it is" in text) == (1, True), text
    with disk_of(ground).open("rb") as file:
        file.seek(offset)
        assert file.read(len(content)) == content


def test_a_small_disk_and_none_are_refused(ground: Ground) -> None:
    with disk_of(ground).open("wb") as file:
        file.truncate(SIZE - 4096)
    assert "are needed" in ground.run("disk")[1]
    disk_of(ground).unlink()
    code, text = ground.run("disk")
    assert (code, "no disk is called windhover-data" in text) == (1, True)
