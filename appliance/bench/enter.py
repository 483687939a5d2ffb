"""Join a cgroup, then become a program. Runs as a file of its own.

Whatever the program does is charged to the group, because it begins there: nothing runs between a
fork of the measuring process and this but an interpreter without site packages, whose memory ends
with it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    """Write this process's number to the file named first, and execute the rest."""
    members, program, *_ = arguments
    Path(members).write_text(str(os.getpid()), encoding="ascii")
    os.execv(program, arguments[1:])  # noqa: S606 - the caller's program


if __name__ == "__main__":
    main(sys.argv[1:])
