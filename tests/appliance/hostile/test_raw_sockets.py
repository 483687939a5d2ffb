"""The server without a model, attacked with raw bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.service.connections import Parser
from tests.appliance.hostile.mutations import Draws, body_of, mutated
from tests.appliance.hostile.rows import ROWS
from tests.appliance.hostile.wire import Answer, Site, exchange
from tests.appliance.service.shell import CONFIGURATION, Address, Shell

BATCH = 100


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("shell"), CONFIGURATION + "receive_s = 5\n")


@pytest.fixture(scope="module")
def address(shell: Shell) -> Iterator[Address]:
    with shell.serving() as started:
        yield started


@pytest.fixture(scope="module")
def to(address: Address) -> Site:
    return Site(f"127.0.0.1:{address.server.address[1]}", address.key, "/v1/echo")


def test_every_row_ends_as_it_says(shell: Shell, address: Address, to: Site) -> None:
    outcomes = exchange(address.connect, [make(to) for _, make, _ in ROWS])
    wrong = []
    for (name, _, wanted), outcome in zip(ROWS, outcomes, strict=True):
        if outcome.kind != wanted:
            wrong.append((name, wanted, outcome.kind))
        for answer in outcome.answers:
            if answer.status != 200:
                assert answer.error()["code"]
    assert not wrong
    assert not shell.service.errors
    assert address.health() == 200


def test_a_refusal_by_the_server_ends_the_connection(address: Address, to: Site) -> None:
    rows = [make(to) for _, make, wanted in ROWS if wanted in (411, 413, 431)]
    smuggled = to.get(b"GET /v1/broken HTTP/1.1")
    for outcome in exchange(address.connect, [row + smuggled for row in rows]):
        assert 500 not in [answer.status for answer in outcome.answers]


@pytest.mark.parametrize("batch", range(4))
def test_any_bytes_are_answered_well_or_let_go(
    shell: Shell, address: Address, to: Site, batch: int
) -> None:
    draws = Draws(f"raw {batch}")
    requests = [mutated(to.roomy(), draws) for _ in range(BATCH)]
    for request, outcome in zip(requests, exchange(address.connect, requests), strict=True):
        assert outcome.answers or outcome.is_closed or not outcome.data
        check_lengths(request, outcome.answers)
    assert not shell.service.errors
    (again,) = exchange(address.connect, [to.valid()])
    assert again.kind == 200


def test_what_breaks_over_a_connection_closes_it_and_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(parser: Parser, data: bytes) -> int:
        raise ZeroDivisionError("a secret")

    shell = Shell(tmp_path)
    with shell.serving() as address:
        monkeypatch.setattr(Parser, "received", broken)
        with address.connect() as connection:
            connection.sendall(b"GET /health HTTP/1.1")
            assert connection.recv(1) == b""
        monkeypatch.undo()
        assert address.health() == 200
    assert [each["kind"] for each in shell.service.errors] == ["ZeroDivisionError"]
    assert capfd.readouterr().err == ""


def check_lengths(request: bytes, answers: list[Answer]) -> None:
    """Assert that the server read the body that a plain reading finds, or refused."""
    for number, answer in enumerate(answers):
        assert answer.status < 500, answer
        if answer.status != 200:
            answer.error()
        elif answer.headers["content-type"] == "application/json" and number == 0:
            value = json.loads(answer.body)
            body = body_of(request)
            assert "length" not in value or (body is not None and value["length"] == len(body))
