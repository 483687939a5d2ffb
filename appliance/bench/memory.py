"""Peak memory of a program, measured from outside and the same way for every program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from appliance.bench import peak
from engine.errors import ConfigError


class Peak(NamedTuple):
    """What a program took: the largest resident set, file pages included, and processor time."""

    max_rss_bytes: int
    cpu_s: float


def peak_of(command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> Peak:
    """Run a program to its end.

    Args:
        command: program and arguments.
        environment: variables that are added to this process's.

    Raises:
        OSError: the program cannot be started.
        ConfigError: it failed; the message ends with the last line that it wrote.
    """
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(2, os.strerror(2), command[0])
    done = subprocess.run(  # noqa: S603 - the caller's program, through this interpreter
        [sys.executable, "-I", "-S", peak.__file__, program, *command[1:]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
        env={**os.environ, **(environment or {})},
    )
    result = json.loads(done.stdout)
    if result["exit_code"]:
        raise ConfigError(
            f"{command[0]} failed with {result['exit_code']}: {last_line(done.stderr)}"
        )
    return Peak(result["max_rss_bytes"], result["cpu_s"])


def last_line(text: str) -> str:
    """Return the last line that is not empty, where programs say what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it wrote nothing"
