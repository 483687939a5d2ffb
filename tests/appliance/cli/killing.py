"""A process that starts a command again and again and kills it: by the clock, or at a system call.

It has everything imported and tested, and forks for each attempt, so that an attempt costs no start
of an interpreter. Arguments: a JSON object; results: a JSON array on stdout.
"""

from __future__ import annotations

import importlib
import json
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appliance.cli.main import COMMANDS, run
from crypto.selftest import ensure_self_tested

CALLS = (
    *("open", "close", "write", "pwrite", "pwritev", "sendfile", "copy_file_range", "truncate"),
    *("ftruncate", "posix_fallocate", "chmod", "fchmod", "fsync", "fdatasync"),
    *("link", "symlink", "rename", "replace", "unlink", "remove", "mkdir"),
)
"""What changes a file system, and some that only look."""


def start(words: list[str], prepare: Callable[[], None]) -> int:
    """Run a command in a process of its own and return its id."""
    process = os.fork()
    if process:
        return process
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    prepare()
    os._exit(run(words))


def kill_at_call(number: int) -> Callable[[], None]:
    """Return what makes a process kill itself before its `number`-th call."""

    def prepare() -> None:
        left = number

        def wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*arguments: Any, **settings: Any) -> Any:
                nonlocal left
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments, **settings)

            return counted

        for name in CALLS:
            setattr(os, name, wrapped(getattr(os, name)))

    return prepare


class Attempts:
    """A command on a file, which is put back before each attempt."""

    def __init__(self, spec: dict[str, Any]) -> None:
        """Take `file`, `original` (a path, or null where there is no file), `words`, `check`."""
        self.file = Path(spec["file"])
        self.original = None if spec["original"] is None else Path(spec["original"])
        self.words: list[str] = spec["words"]
        self.check: list[str] = spec["check"]

    def reset(self) -> None:
        """Put the old file back."""
        self.file.unlink(missing_ok=True)
        if self.original is not None:
            shutil.copyfile(self.original, self.file)

    def state(self) -> str:
        """Say what the file is: `old`, `new` (it passes the check) or `broken`."""
        if not self.file.exists():
            return "old" if self.original is None else "broken"
        if self.original is not None and self.file.read_bytes() == self.original.read_bytes():
            return "old"
        _, status = os.waitpid(start(self.check, lambda: None), 0)
        return "broken" if status else "new"

    def attempt(self, prepare: Callable[[], None], delay_s: float | None) -> dict[str, Any]:
        """Run once, kill after a delay if one is given, and say what is left."""
        self.reset()
        started_s = time.monotonic()
        process = start(self.words, prepare)
        if delay_s is not None:
            time.sleep(delay_s)
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        took_s = time.monotonic() - started_s
        left = sorted(p.name for p in self.file.parent.iterdir() if p.name.endswith(".partial"))
        found = {
            "killed": os.WIFSIGNALED(status),
            "exit_code": os.waitstatus_to_exitcode(status),
            "state": self.state(),
            "left": left,
            "took_s": took_s,
        }
        for name in left:
            self.file.with_name(name).unlink()
        return found


def by_the_clock(attempts: Attempts, moments: int) -> list[dict[str, Any]]:
    """Kill at moments that are spread over the time that the command takes."""
    whole_s = min(attempts.attempt(lambda: None, None)["took_s"] for _ in range(3))
    found = []
    for number in range(moments):
        part = (number + secrets.randbelow(1000) / 1000) / moments
        found.append(attempts.attempt(lambda: None, 1.1 * whole_s * part))
    return found


def at_every_call(attempts: Attempts, most: int) -> list[dict[str, Any]]:
    """Kill before the first call, before the second, until one is not reached any more."""
    found: list[dict[str, Any]] = []
    while len(found) < most and (not found or found[-1]["killed"]):
        found.append(attempts.attempt(kill_at_call(len(found) + 1), None))
    return found


def main() -> None:
    """Do what the argument asks for."""
    spec = json.loads(sys.argv[1])
    for name in (spec["words"][0], spec["check"][0]):
        importlib.import_module(COMMANDS[name].module)
    ensure_self_tested()
    attempts = Attempts(spec)
    way = by_the_clock if spec["way"] == "clock" else at_every_call
    print(json.dumps(way(attempts, spec["most"])))


if __name__ == "__main__":
    main()
