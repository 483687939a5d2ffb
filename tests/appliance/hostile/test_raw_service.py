"""The whole service, attacked with raw bytes: what is answered is attested as it was sent."""

from __future__ import annotations

import json
import os
import time

import pytest

from tests.appliance.hostile.mutations import Draws, body_of, mutated
from tests.appliance.hostile.rows import ROWS, WAITS
from tests.appliance.hostile.target import BODY_BYTES, Target
from tests.appliance.hostile.wire import BODY, MOST_S, Site, exchange, reset

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prober", "unharmed")]

PATH = "/v1/completions"
BATCH = 24
"""No more than run and wait at once."""
QUIET_S = 2.5
NUM_BATCHES = int(os.environ.get("WINDHOVER_FUZZ_BATCHES", "20"))


@pytest.fixture
def to(target: Target) -> Site:
    return Site(target.host, target.key, PATH)


@pytest.mark.ci
def test_every_row_ends_as_it_says(target: Target, to: Site) -> None:
    wrong = []
    ordered = sorted(ROWS, key=lambda row: row[2] == WAITS)
    for begin in range(0, len(ordered), BATCH):
        rows = ordered[begin : begin + BATCH]
        requests = [make(to) for _, make, _ in rows]
        outcomes = exchange(target.connect, requests, quiet_s=QUIET_S)
        for (name, _, wanted), outcome in zip(rows, outcomes, strict=True):
            # who waits is let go when the time for the request is over
            if outcome.kind not in ((wanted, "closed") if wanted == WAITS else (wanted,)):
                wrong.append((name, wanted, outcome.kind))
    assert not wrong


def attack(target: Target, to: Site, seed: str, *, num_batches: int) -> int:
    """Send changed requests; return how many were answered all the same, each as it was sent."""
    draws, num_answered = Draws(seed), 0
    for _ in range(num_batches):
        requests = [mutated(to.roomy(), draws) for _ in range(BATCH)]
        outcomes = exchange(target.connect, requests, quiet_s=QUIET_S)
        for request, outcome in zip(requests, outcomes, strict=True):
            for answer in outcome.answers:
                if answer.status != 200:
                    assert answer.status < 500, (request, answer)
                    answer.error()
            first = outcome.answers[0] if outcome.answers else None
            if first is None or "windhover-attestation" not in first.headers:
                continue
            body = body_of(request)
            assert body is not None, request
            if first.status == 200 and first.headers["content-type"] == "application/json":
                target.assert_attested(json.loads(first.body), PATH, body)
                num_answered += 1
        status, _ = target.send("POST", PATH, BODY)
        assert status == 200
    return num_answered


@pytest.mark.ci
def test_any_bytes_are_answered_well_or_let_go(target: Target, to: Site) -> None:
    assert attack(target, to, "service", num_batches=2) > 0


def test_any_bytes_at_length(target: Target, to: Site) -> None:
    assert attack(target, to, "service at length", num_batches=NUM_BATCHES) > 0


@pytest.mark.ci
def test_pipelined_requests_are_attested_each_for_itself(target: Target, to: Site) -> None:
    bodies = [BODY[:-1] + b" " * number + b"}" for number in (0, 1, 2)]
    refused = to.post(b"Content-Length: 3\r\n", b"{}}")
    data = to.valid(bodies[0]) + refused + to.valid(bodies[1]) + to.get() + to.valid(bodies[2])
    (outcome,) = exchange(target.connect, [data], quiet_s=QUIET_S)
    assert [answer.status for answer in outcome.answers] == [200, 400, 200, 200, 200]
    for answer, body in zip(
        [outcome.answers[0], outcome.answers[2], outcome.answers[4]], bodies, strict=True
    ):
        target.assert_attested(json.loads(answer.body), PATH, body)


@pytest.mark.ci
def test_chunks_are_refused_however_they_come(target: Target, to: Site) -> None:
    coding = b"Transfer-Encoding: chunked\r\n"
    size = BODY_BYTES + 1
    bodies = [
        b"%x\r\n" % size + b" " * size + b"\r\n0\r\n\r\n",
        b"%x\r\n" % len(BODY) + BODY,
        b"%x;a=b\r\n" % len(BODY) + BODY + b"\r\n0\r\nX: 1\r\n\r\n",
        b"0x5\r\n{}   \r\n0\r\n\r\n",
        b"-5\r\n{}",
        b"fffffffffffffffff\r\n{}",
        b"",
    ]
    requests = [to.post(coding, body) + to.get() for body in bodies]
    for outcome in exchange(target.connect, requests):
        assert [answer.status for answer in outcome.answers] in ([411], [])
        assert outcome.is_closed


@pytest.mark.ci
def test_a_body_at_the_limit_and_one_above(target: Target, to: Site) -> None:
    most = BODY[:-1] + b" " * (BODY_BYTES - len(BODY)) + b"}"
    outcomes = exchange(target.connect, [to.valid(most), to.valid(most + b" ")], quiet_s=QUIET_S)
    assert [outcome.kind for outcome in outcomes] == [200, 413]
    target.assert_attested(json.loads(outcomes[0].answers[0].body), PATH, most)


@pytest.mark.ci
def test_dozens_that_hold_a_connection_are_let_go(target: Target, to: Site) -> None:
    held = [target.connect() for _ in range(60)]
    for number, connection in enumerate(held):
        data = (b"POST /v1/com", to.valid()[:-3], bytes.fromhex("16030100c8"), b"\r\n" * 9)
        connection.sendall(data[number % 4])
    limit = time.monotonic() + MOST_S
    # a byte now and then does not help
    dripping = held[::4]
    while dripping and time.monotonic() < limit:
        time.sleep(0.2)
        dripping = [each for each in dripping if _drip(each)]
    assert not dripping
    for number, connection in enumerate(held):
        if number % 4 in (1, 2):
            assert connection.recv(1) == b""
        connection.close()


def _drip(connection: object) -> bool:
    """Send a byte; return whether the connection is still open."""
    import socket

    assert isinstance(connection, socket.socket)
    try:
        connection.sendall(b"x")
    except OSError:
        return False
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        if connection.fileno() >= 0:
            connection.settimeout(20)


@pytest.mark.ci
def test_clients_that_tear_down_what_they_began(target: Target, to: Site) -> None:
    streamed = BODY[:-1] + b',"stream":true}'
    for number in range(60):
        connection = target.connect()
        whole = to.valid(streamed if number % 2 else BODY)
        connection.sendall(whole[: len(whole) - (0, 1, 20, 200)[number % 4]])
        if number % 3 == 2:
            connection.close()
        else:
            reset(connection)
    status, _ = target.send("POST", PATH, BODY)
    assert status == 200
    for _ in range(200):
        if json.loads(target.get("/v1/status")[1])["requests"]["open"] == 0:
            return
        time.sleep(0.05)
    pytest.fail("a place is still taken")
