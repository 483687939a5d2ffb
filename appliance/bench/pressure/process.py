"""`windhover serve` as a process: started, waited for, looked at, ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from appliance.bench.memory import last_line
from engine.errors import ConfigError

PROGRAM: Final = (
    "import sys; from appliance.cli.main import main; sys.argv[0] = 'windhover'; main()"
)

_END_S: Final = 120


class ServedProcess:
    """A service in a process of its own.

    Attributes:
        url: where it listens.
        ready: what it said when it was ready.
    """

    def __init__(self, config: Path, errors: Path) -> None:
        """Start it and wait until it is ready.

        Args:
            config: its configuration.
            errors: the file that its standard error goes to.

        Raises:
            ConfigError: it did not start; the message ends with its last line.
        """
        self._errors = errors
        with errors.open("wb") as stream:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, our own program
                [sys.executable, "-c", PROGRAM, "serve", "--config", str(config), "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
            )
        line = "" if self._process.stdout is None else self._process.stdout.readline()
        self.ready: dict[str, object] = json.loads(line) if line else {}
        if "ready" not in self.ready:
            self.stop()
            raise ConfigError(f"the service did not start: {self._last_line()}")
        self.url = str(self.ready["ready"])

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def stop(self) -> int:
        """Ask it to end, and return its exit code; kill it if it does not."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        return self._process.returncode

    def _last_line(self) -> str:
        return last_line(self._errors.read_text(encoding="utf-8", errors="replace"))
