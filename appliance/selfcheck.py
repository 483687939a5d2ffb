"""The last look at a bundle before it leaves: an auditor's own program reads it first.

It runs in a process of its own. Pure Python takes several milliseconds for it and holds the
interpreter's lock, which every step of every running answer would wait for. Where cores are scarce
the process comes after those that compute answers.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from collections.abc import Set
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from appliance.bundle import Bundle
from crypto.errors import SelfTestError, UnavailableError
from crypto.sm2 import PublicKey

_MUST_PASS: Final = frozenset({1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 19, 20, 21})
"""Steps that depend on nobody's trust file: of A0, A1 and A2 all but mode, time and openings."""

_OPENINGS: Final = 18
_PROGRAM: Final = (
    "import os, sys; os.nice(10); sys.path.insert(0, sys.argv[1]); "
    "from appliance.selfcheck_worker import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)


class SelfCheck:
    """Verifies bundles of one key and one log. Any thread may call; they take turns."""

    def __init__(self, public_key: PublicKey, log_id: bytes) -> None:
        """Trust this key for this log, and nobody else; start the process."""
        key = base64.b64encode(public_key.spki_der()).decode("ascii")
        self._trust = (
            f'version = 1\n[keys.self]\nrole = "attest"\npublic_key = "{key}"\n'
            f'[logs.self]\nid = "{log_id.hex()}"\n'
        ).encode("ascii")
        self._lock = threading.Lock()
        self._worker: subprocess.Popen[bytes] | None = None
        self._worker = self._start()

    def __del__(self) -> None:
        """End the process; it also ends when its input does, with this process."""
        self._stop()

    def __call__(self, bundle: Bundle, covered: Set[str]) -> None:
        """Verify a bundle that is about to leave.

        Args:
            bundle: the bundle.
            covered: names of the commitments that have to open. The signature of the admission is
                not computed again: it was verified when it was made.

        Raises:
            SelfTestError: a step did not pass that has to, whoever verifies.
            UnavailableError: the process ended, so nothing was verified.
        """
        report = self._ask(bundle.encode(), bundle.admission or b"")
        results = {number: (result, reason) for number, result, reason in report["steps"]}
        # What an answer never had, such as the trace of one that was refused, cannot be opened.
        opened = set(report["opened"])
        if results.get(_OPENINGS, ("failed", ""))[0] == "failed" or opened != covered:
            raise SelfTestError("a bundle does not verify: what it opens is not what it covers")
        for number in sorted(_MUST_PASS):
            result, reason = results.get(number, ("not made", report["reason"]))
            if result != "passed":
                raise SelfTestError(f"a bundle does not verify: step {number} {result}: {reason}")

    def _ask(self, bundle: bytes, admission: bytes) -> dict[str, Any]:
        """Return what the process says about a bundle."""
        with self._lock:
            try:
                if self._worker is None:
                    self._worker = self._start()
                self._send(self._worker, bundle, admission)
                line = self._worker.stdout.readline() if self._worker.stdout else b""
                report: dict[str, Any] = json.loads(line)
            except (OSError, ValueError) as error:
                self._stop()  # the next bundle gets another one
                message = "a bundle could not be verified: the process for it ended"
                raise UnavailableError(message) from error
            return report

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process and give it the trust file."""
        root = str(Path(__file__).resolve().parents[1])
        worker = subprocess.Popen(  # noqa: S603  this interpreter, and nothing but the verifier
            [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._send(worker, self._trust)
        return worker

    @staticmethod
    def _send(worker: subprocess.Popen[bytes], *frames: bytes) -> None:
        """Write frames to the process."""
        if worker.stdin is None:
            raise BrokenPipeError("the process has no input")
        worker.stdin.write(b"".join(len(f).to_bytes(4, "little") + f for f in frames))
        worker.stdin.flush()

    def _stop(self) -> None:
        """End the process."""
        if self._worker is None:
            return
        self._worker.kill()
        for pipe in (self._worker.stdin, self._worker.stdout):
            with suppress(OSError):  # what was not written yet is for nobody any more
                if pipe is not None:
                    pipe.close()
        self._worker.wait()
        self._worker = None
