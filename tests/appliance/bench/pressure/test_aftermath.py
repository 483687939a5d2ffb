"""What is left behind is seen: a slot, an open admission, a changed byte, a missing attestation."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from appliance.attestation import Attestor
from appliance.bench.pressure import aftermath
from appliance.bench.pressure.caller import Caller
from appliance.bench.pressure.results import Plan, Results, State
from appliance.log.log import Log
from engine.model import Model
from tests.appliance.service.desk import Desk, desk_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from crypto.signer import SoftwareSigner

STATUS: dict[str, Any] = {
    "requests": {"running": 0, "queued": 0, "open": 0, "generated_tokens": 1, "cached_tokens": 1}
    | {"prompt_tokens": 1},
    "log": {"open_admissions": 0},
    "model": {},
    "start": None,
    "errors": [],
    "ready": True,
    "state": "ready",
    "reasons": [],
    "access_log_lines_lost": 0,
}
METRICS = "# HELP\nwindhover_running 0.0\nwindhover_places 0.0\nwindhover_mismatches 0.0\n"


@contextmanager
def saying(pages: Mapping[str, object]) -> Iterator[Caller]:
    """Serve pages: texts as they are, objects as JSON; all else is 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            self.send_response(404 if page is None else 200)
            body = page if isinstance(page, str) else json.dumps(page)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Caller(f"http://127.0.0.1:{server.server_port}", "a key")
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def results() -> Results:
    """Nothing found yet."""
    return Results(Plan(), {})


@pytest.mark.parametrize(
    ("status", "metrics", "found"),
    [
        ({}, METRICS, ""),
        ({"requests": STATUS["requests"] | {"running": 1}}, METRICS, "running 1"),
        ({"requests": STATUS["requests"] | {"open": 2}}, METRICS, "open 2"),
        ({"log": {"open_admissions": 3}}, METRICS, "open admissions 3"),
        ({}, METRICS.replace("places 0", "places 4"), "places 4"),
        ({}, METRICS.replace("mismatches 0", "mismatches 5"), "mismatches 5"),
    ],
)
def test_a_lost_slot(
    results: Results,
    monkeypatch: pytest.MonkeyPatch,
    status: dict[str, Any],
    metrics: str,
    found: str,
) -> None:
    monkeypatch.setattr(aftermath, "_IDLE_S", 0.1)
    with saying({"/v1/status": STATUS | status, "/metrics": metrics}) as operator:
        aftermath.check_slots(results, operator)
    assert results.state is (State.FAILED if found else State.PASSED)
    assert found in results.checks[0].found


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ({}, "none"),
        ({"errors": ["KeyError at a.py"]}, "KeyError"),
        ({"ready": False, "state": "failed", "reasons": ["engine"]}, "it is failed"),
        ({"access_log_lines_lost": 2}, "2 lines"),
    ],
)
def test_a_service_that_met_an_error(results: Results, status: dict[str, Any], found: str) -> None:
    with saying({"/v1/status": STATUS | status}) as operator:
        aftermath.check_state(results, operator)
    assert results.state is (State.FAILED if status else State.PASSED)
    assert found in results.checks[0].found


@pytest.fixture
def desk(
    tiny_model: Model, log: Log, attestor: Attestor, attest_signer: SoftwareSigner
) -> Iterator[Desk]:
    """What answers with a tiny model and a real log."""
    made = desk_of(tiny_model, log, attestor, attest_signer)
    yield made
    made.stop()


def test_the_log(
    desk: Desk, results: Results, tmp_path: Path, attest_signer: SoftwareSigner
) -> None:
    folder, key = tmp_path / "log", attest_signer.public_key
    names = [desk.whole()["attestation"]["id"] for _ in range(3)]
    aftermath.check_log(results, folder, tmp_path / "anchor", key)
    assert [check.state for check in results.checks] == [State.PASSED] * 2
    assert results.checks[1].found == "3 admitted, 0 open; 3 answered"
    assert results.figures["admitted"] == results.figures["closed_answered"] == len(names)

    running = desk.begin()
    opened = Results(Plan(), {})
    aftermath.check_log(opened, folder, None, key)
    running.life.left()
    assert [check.state for check in opened.checks] == [State.PASSED, State.FAILED]
    assert opened.checks[1].found.startswith("4 admitted, 1 open")

    segment = max(folder.glob("*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    damaged = Results(Plan(), {})
    aftermath.check_log(damaged, folder, None, key)
    assert [check.state for check in damaged.checks] == [State.FAILED]
    unknown = Results(Plan(), {})
    aftermath.check_log(unknown, None, None, None)
    assert unknown.state is State.UNCHECKED


def test_attestations(desk: Desk, results: Results) -> None:
    whole = desk.whole()["attestation"]
    cut = desk.begin(stream=True)
    cut.life.left()
    found = desk.store.find(cut.attestation, bytes(15) + b"a")
    assert found is not None
    pages = {
        f"/v1/attestations/{whole['id']}": {"statement": whole["statement"]},
        f"/v1/attestations/{found.id}": {"statement": base64.b64encode(found.statement).decode()},
        "/v1/attestations/x": {"statement": "AAAA"},
    }

    def state(known: dict[str, tuple[int, bool]]) -> str:
        with saying(pages) as caller:
            aftermath.check_attestations(results, caller.url, ("a key",), known)
        check = results.checks[-1]
        return "" if check.state is State.PASSED else check.found

    assert state({whole["id"]: (0, True), found.id: (0, False)}) == ""
    assert state({found.id: (0, True)}) == f"{found.id}: disconnected"
    assert state({"att-9-00000000": (0, False)}) == "att-9-00000000: status 404, None"
    assert state({"x": (0, False)}) == "x: no statement: FormatError"
