"""What a process has mapped of files, and how much of it is in memory.

Source: proc_pid_smaps(5).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_UNIT_BYTES = 1024


class Mapped(NamedTuple):
    """Bytes in memory of file mappings: those of one file, and of all others.

    model: of the file that was asked for.
    others: of programs, libraries and every other file; pages that were copied when they were
        written to are anonymous and no part of it.
    """

    model: int
    others: int


def mapped(lines: Iterable[str], device: int, inode: int) -> Mapped:
    """Sum up the mappings of a process.

    Args:
        lines: /proc/PID/smaps.
        device: of the file that is counted alone, as in `os.stat`.
        inode: of the same file.
    """
    sums = {True: 0, False: 0}
    is_file = is_model = False
    resident = 0
    for line in lines:
        name, *words = line.split(maxsplit=5)
        if not name.endswith(":"):
            # address permissions offset device inode path
            found = int(words[3])
            is_file = found != 0
            is_model = found == inode and _device(words[2]) == device
        elif not is_file:
            continue
        elif name == "Rss:":
            resident = int(words[0]) * _UNIT_BYTES
        elif name == "Anonymous:":
            sums[is_model] += resident - int(words[0]) * _UNIT_BYTES
    return Mapped(sums[True], sums[False])


def _device(text: str) -> int:
    major, _, minor = text.partition(":")
    major_number, minor_number = int(major, 16), int(minor, 16)
    # makedev of the C library
    return (
        (major_number & 0xFFFFF000) << 32
        | (major_number & 0xFFF) << 8
        | (minor_number & 0xFFFFFF00) << 12
        | minor_number & 0xFF
    )
