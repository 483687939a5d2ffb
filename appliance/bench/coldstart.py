"""Time from the start of a process to the first text, with kernels and files cached."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from appliance.bench.memory import last_line
from engine.errors import ConfigError

PROGRAM = "import sys; from appliance.cli.main import main; sys.argv[0] = 'windhover'; main()"
"""What the console script `windhover` runs."""

_CACHE_SETTING = "WINDHOVER_KERNEL_CACHE"
_PROMPT = "What is the capital of Italy? Answer in one word."


class ColdStart(NamedTuple):
    """Seconds from starting `windhover generate` to the first byte of its answer.

    first_s: with an empty kernel cache: every kernel is compiled.
    second_s: the median of the runs after it.
    """

    threads: int
    first_s: float
    second_s: float
    runs_s: tuple[float, ...]


def measure_cold_start(path: Path, *, threads: int, runs: int = 3) -> ColdStart:
    """Start `windhover generate` once with a kernel cache of its own, then `runs` times again.

    Raises:
        ConfigError: it failed; the message ends with the last line that it wrote.
    """
    with tempfile.TemporaryDirectory(prefix="windhover-kernels-") as folder:
        first_s = time_to_first_byte(path, threads=threads, kernel_cache=folder)
        later = tuple(
            time_to_first_byte(path, threads=threads, kernel_cache=folder) for _ in range(runs)
        )
    return ColdStart(threads, first_s, statistics.median(later), later)


def time_to_first_byte(path: Path, *, threads: int, kernel_cache: str) -> float:
    """Return the seconds until `windhover generate` writes.

    Raises:
        ConfigError: it failed or wrote nothing.
    """
    arguments = ["generate", str(path), "--dev", "--temperature", "0", "--max-tokens", "4"]
    arguments += ["--threads", str(threads), "--prompt", _PROMPT]
    started_s = time.perf_counter()
    with subprocess.Popen(  # noqa: S603 - this interpreter, a program of this package
        [sys.executable, "-c", PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, _CACHE_SETTING: kernel_cache},
    ) as process:
        first = process.stdout.read(1) if process.stdout else b""
        first_s = time.perf_counter() - started_s
        _, errors = process.communicate()
    if process.returncode or not first:
        reason = last_line(errors.decode(errors="replace"))
        raise ConfigError(f"windhover generate failed with {process.returncode}: {reason}")
    return first_s
