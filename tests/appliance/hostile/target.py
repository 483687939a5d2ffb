"""A service as a process of its own that is attacked, and a thread that asks /health meanwhile."""

from __future__ import annotations

import base64
import http.client
import json
import signal
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from appliance.bundle import Bundle, decode_bundle
from crypto.commitment import commitment, request_bytes
from crypto.cose import decode_sign1
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.statement import decode_statement
from tests.appliance.cli.test_serve import DEV, ended, serve
from tests.appliance.service.live import SCOPES
from tests.appliance.service.site import Site

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

LIMITS = """
receive_s = 2
idle_s = 20
stall_s = 5
[limits]
requests_per_minute = 0
default_max_tokens = 4
body_bytes = 262144
"""
BODY_BYTES = 262_144
PROBE_PAUSE_S = 0.02
MOST_PROBE_S = 1.0
"""Only a hang takes so long; what it really takes is printed."""


class Target:
    """A service that runs, its key, and what it said on standard error."""

    def __init__(self, site: Site, process: subprocess.Popen[str]) -> None:
        """Wait until it is ready."""
        self.site, self.key, self.process = site, site.key, process
        assert process.stdout is not None
        line = process.stdout.readline()
        if "ready" not in line:
            pytest.fail(line + ended(process)[2])
        self.url: str = json.loads(line)["ready"]
        self.host = self.url.removeprefix("http://")
        self.port = int(self.host.rpartition(":")[2])
        self.said: list[str] = []
        assert process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        self._reader.start()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self.said.append(line)

    def close(self) -> None:
        """Take the rest of what it says, after it has ended."""
        self._reader.join()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()

    def check(self) -> None:
        """Assert that it lives, answers, and has nothing to complain about."""
        assert self.process.poll() is None, self.said
        assert self.get("/ready")[0] == 200
        assert not self.said, self.said
        status, state = self.get("/v1/status")
        assert status == 200
        assert json.loads(state)["errors"] == []

    def get(self, path: str) -> tuple[int, bytes]:
        """Ask for something with the key."""
        return self.send("GET", path)

    def send(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes]:
        """Ask on a connection of its own; return status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, body, given | headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        """Open a connection."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def bundle(self, attestation: str) -> Bundle:
        """Return the bundle of an answer."""
        status, data = self.get(f"/v1/attestations/{attestation}?format=bundle")
        assert status == 200, data
        return decode_bundle(data)

    def assert_attested(self, answer: dict[str, Any], path: str, body: bytes) -> None:
        """Assert that the statement of an answer is about these very bytes."""
        signed = base64.b64decode(answer["attestation"]["statement"])
        payload = decode_sign1(signed, max_bytes=MAX_OBJECT_BYTES).payload
        bundle = self.bundle(answer["attestation"]["id"])
        assert bundle.texts["request"] == request_bytes(path, body)
        made = commitment("request", bundle.salts["request"], request_bytes(path, body))
        assert decode_statement(payload).commitments["request"] == made


@contextmanager
def targeted(folder: Path, weights: Path) -> Iterator[Target]:
    """Start a service in a folder, and see that it ends as it should."""
    site = Site(folder, weights)
    path = site.configure(DEV, old="context_tokens = 256", new="context_tokens = 1024")
    path.write_text(path.read_text() + LIMITS)
    site.key = site.new_key(*SCOPES)
    process = serve(site, "--json")
    target = Target(site, process)
    try:
        yield target
    finally:
        process.send_signal(signal.SIGTERM)
        exit_code = process.wait(60)
        target.close()
    assert exit_code == 0, target.said
    assert not target.said


class Prober:
    """Asks /health again and again, and notes how long each answer took."""

    def __init__(self, target: Target) -> None:
        """Begin."""
        self._target = target
        self._stopped = threading.Event()
        self.seconds: list[float] = []
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(PROBE_PAUSE_S):
            begun = time.perf_counter()
            try:
                status = self._target.get("/health")[0]
                if status != 200:
                    self.failures.append(f"status {status}")
            except OSError as error:
                self.failures.append(repr(error))
            self.seconds.append(time.perf_counter() - begun)

    def line(self) -> str:
        """Return what was measured."""
        ordered = sorted(self.seconds)
        half, most = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
        return (
            f"/health {len(ordered)} times: p50 {half * 1000:.1f} ms, p99 {most * 1000:.1f} ms, "
            f"max {ordered[-1] * 1000:.1f} ms"
        )
