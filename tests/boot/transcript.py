"""What was done and when, as lines that are printed while it happens and kept."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE_SETTING = "WINDHOVER_BOOT_TRANSCRIPT"


class Transcript:
    """Lines, each with the seconds since the beginning."""

    def __init__(self) -> None:
        """Begin."""
        self._start_s = time.monotonic()
        name = os.environ.get(FILE_SETTING)
        self._file = Path(name) if name else None
        if self._file is not None:
            self._file.write_text("")

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._start_s

    def say(self, line: str) -> None:
        """Print a line, and append it to the file that the environment names."""
        line = f"{self.seconds:7.1f} s  {line}"
        print(line, flush=True)
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(line + "\n")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Say that a step begins, and how long it took."""
        self.say(name)
        began_s = time.monotonic()
        yield
        self.say(f"  {name}: {time.monotonic() - began_s:.1f} s")
