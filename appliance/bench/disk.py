"""Which disk a file is on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, Self


class Disk(NamedTuple):
    """A block device, as far as the system tells.

    device: its name, such as `vda`; None where the file is on none. model: what its maker calls it.
    rotational: whether it is said to rotate. file_system: such as `ext4`.
    """

    device: str | None
    model: str | None
    rotational: bool | None
    file_system: str | None

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the disk of a file.

        Raises:
            OSError: there is no such file.
        """
        number = path.stat().st_dev
        name = f"{os.major(number)}:{os.minor(number)}"
        file_system = None
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        for line in mounts.splitlines():
            left, _, right = line.partition(" - ")
            if left.split()[2:3] == [name]:
                file_system = right.split()[0]
        link = Path("/sys/dev/block", name)
        if not link.exists():
            return cls(None, None, None, file_system)
        device = link.resolve()
        whole = device if (device / "queue").exists() else device.parent
        rotational = _line(whole / "queue/rotational")
        return cls(
            device.name,
            _line(whole / "device/model"),
            None if rotational is None else rotational == "1",
            file_system,
        )


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
