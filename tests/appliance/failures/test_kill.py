"""A process that is killed while clients wait: the next one closes what it had admitted."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from crypto.cose import decode_sign1
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.keys import load_public_key
from crypto.statement import STATEMENT_TYPE, Statement, decode_statement
from tests.appliance.cli.test_serve import DEV
from tests.appliance.failures.running import CHAT, Running, log_is_whole, make_site, running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appliance.service.site import Site

pytestmark = [pytest.mark.slow, pytest.mark.ci]

PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTE = {"type": "function", "function": {"name": "note", "parameters": PARAMETERS}}
CALL = {"tools": [NOTE], "tool_choice": "required"}
NUM_STREAMS = 16


@pytest.fixture
def site(tmp_path: Path, tiny_file: Path) -> Site:
    made = make_site(tmp_path, tiny_file)
    made.configure(DEV, old="context_tokens = 256", new="context_tokens = 512")
    return made


def kill(service: Running) -> None:
    """End the process without a word, and wait until it is gone."""
    os.kill(service.process.pid, signal.SIGKILL)
    service.process.communicate()


class Stream:
    """A stream, and what came of it until it was cut."""

    def __init__(self, service: Running, options: dict[str, Any]) -> None:
        self.options = options
        self.nonce = secrets.token_bytes(32)
        self.attestation: str | None = None
        self.events: list[str] = []
        self._service = service
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    @property
    def is_whole(self) -> bool:
        return self.events[-1:] == ["[DONE]"]

    @property
    def choices(self) -> list[dict[str, Any]]:
        chunks = [json.loads(event) for event in self.events if event != "[DONE]"]
        return [choice for chunk in chunks for choice in chunk["choices"]]

    def _read(self) -> None:
        service = self._service
        body = service.body(stream=True, max_tokens=120, **self.options)
        headers = service.headers | {"Windhover-Nonce": self.nonce.hex()}
        try:
            with httpx.stream(
                "POST", service.url + CHAT, headers=headers, json=body, timeout=60
            ) as response:
                assert response.status_code == 200
                self.attestation = response.headers["windhover-attestation"]
                for line in response.iter_lines():
                    if line.startswith("data: "):
                        self.events.append(line.removeprefix("data: "))
        except httpx.TransportError:
            pass  # killed


def statement_of(site: Site, encoded: str) -> Statement:
    """Verify a statement, and return it."""
    signed = decode_sign1(base64.b64decode(encoded), max_bytes=MAX_OBJECT_BYTES)
    signed.verify(load_public_key(site.path("attest.pub.pem"), role="attest"), typ=STATEMENT_TYPE)
    return decode_statement(signed.payload)


def test_streams_that_a_killed_process_leaves_are_closed_as_lost(site: Site) -> None:
    service = Running(site)
    streams = [Stream(service, CALL if number % 2 else {}) for number in range(NUM_STREAMS)]
    while sum(len(stream.events) > 3 for stream in streams) < 4:
        time.sleep(0.001)
    kill(service)
    for stream in streams:
        stream.thread.join()
    cut = [stream for stream in streams if stream.attestation and not stream.is_whole]
    outcomes = []
    with running(site) as service:
        for stream in cut:
            found = service.get(f"/v1/attestations/{stream.attestation}").json()
            said = statement_of(site, found["statement"])
            assert said.nonce == stream.nonce
            outcomes.append(said.outcome)
            if said.outcome == "lost":
                assert not any(choice["finish_reason"] for choice in stream.choices)
                assert (said.finish_reason, said.output_tokens) == ("none", 0)
            assert found["bundle"] is None
        for stream in set(streams) - set(cut):
            if stream.attestation:
                found = service.get(f"/v1/attestations/{stream.attestation}").json()
                assert statement_of(site, found["statement"]).outcome == "answered"
        assert service.ready["lost_admissions"] >= outcomes.count("lost")
    lost = [stream for stream, outcome in zip(cut, outcomes, strict=True) if outcome == "lost"]
    assert {bool(stream.options) for stream in lost} == {False, True}
    assert set(outcomes) <= {"lost", "answered"}
    assert log_is_whole(site)["open_admissions"] == 0


def test_killed_under_load_nothing_released_is_lost(site: Site) -> None:
    released: list[tuple[str, int, str]] = []
    refused: list[str] = []
    lost = 0
    for _ in range(2):
        service = Running(site)
        lost += service.ready["lost_admissions"]

        def client(number: int, service: Running = service) -> None:
            try:
                for turn in range(500):
                    response = service.ask(seed=number * 1000 + turn, max_tokens=6)
                    if response.status_code != 200:
                        refused.append(response.text)
                        continue
                    said = response.json()["attestation"]
                    released.append((said["id"], said["sequence"], said["statement"]))
            except httpx.TransportError:
                pass  # killed while it answered, or before it was asked

        threads = [threading.Thread(target=client, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        time.sleep(1.5)
        kill(service)
        for thread in threads:
            thread.join()
    assert len(released) > 10
    assert refused == []
    with running(site) as service:
        lost += service.ready["lost_admissions"]
        for attestation, sequence, statement in released:
            found = service.get(f"/v1/attestations/{attestation}").json()
            assert (found["sequence"], found["statement"]) == (sequence, statement)
    # a request that was admitted when its process ended is closed by the next one
    assert lost > 0
    assert log_is_whole(site)["open_admissions"] == 0
