"""Mappings of a process: by the file that is looked for, and all others."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

from appliance.bench.mappings import Mapped, mapped

SMAPS = """\
559a79ceb000-559a79cec000 r-xp 00001000 fe:00 26723                      /usr/bin/a program
Size:                 40 kB
Rss:                  36 kB
Private_Dirty:         0 kB
Anonymous:             8 kB
VmFlags: rd ex mr mw me
559a7b000000-559a7b100000 rw-p 00000000 00:00 0                          [heap]
Rss:                 999 kB
Anonymous:           999 kB
7f873ac00000-7f873b400000 r--s 00000000 fe:00 5360608                    /models/model.vqf
Rss:                8192 kB
Anonymous:             0 kB
7f873b500000-7f873b600000 r--s 00000000 fe:01 5360608                    /other/disk
Rss:                 100 kB
Anonymous:             0 kB
7f873b700000-7f873b800000 rw-p 00000000 00:00 0
Rss:                 500 kB
Anonymous:           500 kB
"""
DEVICE = os.makedev(0xFE, 0)


def test_files_are_told_apart_by_device_and_number() -> None:
    found = mapped(SMAPS.splitlines(keepends=True), DEVICE, 5_360_608)
    assert found == Mapped(8192 * 1024, (36 - 8 + 100) * 1024)


def test_large_device_numbers() -> None:
    device = os.makedev(0x1234, 0x56789)
    text = SMAPS.replace("fe:01", "1234:56789")
    assert mapped(text.splitlines(), device, 5_360_608).model == 100 * 1024


def test_this_process(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(4 << 20))
    status = path.stat()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        lines = Path("/proc/self/smaps").read_text().splitlines()
        before = mapped(lines, status.st_dev, status.st_ino)
        np.frombuffer(memory, np.uint8).sum()
        lines = Path("/proc/self/smaps").read_text().splitlines()
    after = mapped(lines, status.st_dev, status.st_ino)
    assert before.model < 4 << 20 == after.model
    assert after.others > 1 << 20
