"""What is looked at from outside while the load runs: memory of the process, and `/health`."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from engine.errors import ConfigError

PROBER: Final = "import sys; from appliance.bench.pressure.prober import main; sys.exit(main())"

_FIELDS: Final = ("VmRSS", "RssAnon", "Threads")


@dataclass(slots=True)
class Memory:
    """Samples of a process, taken by a thread until it is stopped.

    Attributes:
        samples: seconds since the start, MB resident, MB of them that no file backs, threads.
    """

    pid: int
    interval_s: float
    samples: list[tuple[float, float, float, int]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def anonymous(self) -> list[tuple[float, float]]:
        """Return minutes and MB that no file backs: a leak shows there."""
        return [(seconds / 60, anon) for seconds, _, anon, _ in self.samples]

    def resident(self) -> list[tuple[float, float]]:
        """Return minutes and MB resident."""
        return [(seconds / 60, resident) for seconds, resident, _, _ in self.samples]

    def _run(self) -> None:
        begun = time.monotonic()
        while True:
            try:
                found = _status(self.pid)
            except OSError:
                return
            now = round(time.monotonic() - begun, 3)
            self.samples.append((now, found[0] / 1000, found[1] / 1000, found[2]))
            if self._stop.wait(self.interval_s):
                return


def _status(pid: int) -> list[int]:
    """Return the fields of a process, sizes in units of 1,000 bytes."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii", errors="replace").splitlines()
    values = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    found = []
    for name in _FIELDS:
        number, *unit = values.get(name, ["0"])
        found.append(int(number) * 1024 // 1000 if unit else int(number))
    return found


class Prober:
    """Asks `/health` again and again, in a process that the clients do not slow down."""

    def __init__(self, url: str, interval_s: float) -> None:
        """Start it."""
        parts = urlsplit(url)
        words = {"host": parts.hostname, "port": parts.port, "interval_s": interval_s}
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, a module of this package
            [sys.executable, "-c", PROBER, json.dumps(words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def stop(self) -> list[float | None]:
        """End it; return milliseconds of every probe, None where it was not answered with 200.

        Raises:
            ConfigError: it ended before.
        """
        out, _ = self._process.communicate()
        if self._process.returncode:
            raise ConfigError("the process that asks /health has failed")
        found: list[float | None] = json.loads(out)
        return found
