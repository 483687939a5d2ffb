"""The parent's side of a measuring process: start it, ask it, end it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import Any, Self

from appliance.bench.cases import Case
from appliance.bench.memory import last_line
from engine.errors import ConfigError

WORKER = "import sys; from appliance.bench.worker import main; sys.exit(main())"
"""The program of a measuring process."""


def worker_command(settings: dict[str, Any]) -> list[str]:
    """Return the command line of a measuring process."""
    return [sys.executable, "-c", WORKER, json.dumps(settings)]


class Child:
    """A measuring process, as a context manager."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """Start it and wait until its model is loaded.

        Args:
            settings: as of `appliance.bench.worker.serve`.

        Raises:
            ConfigError: it could not load the model; the message says why.
        """
        self._stderr = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - see close
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, a program of this package
            worker_command(settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        try:
            self.facts = self._read()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it."""
        self.close()

    def close(self) -> None:
        """End the process; it has nothing that could be lost."""
        self._process.kill()
        self._process.communicate()
        self._stderr.close()

    def rate(self, case: Case, *, trace: bool) -> float:
        """Return tokens per second of one case."""
        request = {"do": "measure", "phase": case.phase, "tokens": case.tokens, "trace": trace}
        seconds: float = self._ask({**request, "depth": case.depth})["seconds"]
        return case.tokens / seconds

    def sampling(self, tokens: int) -> dict[str, float]:
        """Return mean times of a decode step and of choosing a token, in seconds."""
        return self._ask({"do": "sampling", "tokens": tokens})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        stdin = self._process.stdin
        if stdin is None:
            raise ConfigError("the measuring process has no input")
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None
        return self._read()

    def _read(self) -> dict[str, Any]:
        stdout = self._process.stdout
        line = stdout.readline() if stdout is not None else ""
        if not line:
            raise self._failure()
        reply = json.loads(line)
        if "error" in reply:
            raise ConfigError(f"{reply['kind']}: {reply['error']}")
        value: dict[str, Any] = reply["value"]
        return value

    def _failure(self) -> ConfigError:
        exit_code = self._process.wait()
        self._stderr.seek(0)
        reason = last_line(self._stderr.read())
        return ConfigError(f"the measuring process ended with {exit_code}: {reason}")
