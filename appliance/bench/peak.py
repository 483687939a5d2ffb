"""Start one program and say how much memory it took at most. Runs as a file of its own.

Linux begins a child's largest resident set with that of the process that started it. So this is a
program of its own: an interpreter without site packages takes about 10 MB, and whatever it starts
takes more. Output: one JSON line with `exit_code`, `max_rss_bytes` and `cpu_s`; what the program
itself prints is dropped, what it writes to stderr is not.
"""

from __future__ import annotations

import json
import os
import sys


def main(arguments: list[str]) -> int:
    """Run the program that the arguments name and print what it took."""
    files = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    child = os.posix_spawn(arguments[0], arguments, os.environ, file_actions=files)
    _, status, usage = os.wait4(child, 0)
    result = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "max_rss_bytes": usage.ru_maxrss * 1024,
        "cpu_s": usage.ru_utime + usage.ru_stime,
    }
    print(json.dumps(result))  # noqa: T201 - the output of this program
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
