"""The access log: its fields, and what never gets into it."""

from __future__ import annotations

import json
import os
from dataclasses import fields

import pytest

from appliance.service.access_log import AccessLog, AccessRecord, client_request_id
from tests.appliance.service.shell import Shell

PROMPT = "a prompt that nobody else may read"


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


def test_a_line_has_listed_fields_and_nothing_of_the_request(shell):
    client = shell.app.test_client()
    answer = client.post(
        "/v1/echo",
        json={"prompt": PROMPT},
        headers=shell.headers | {"User-Agent": PROMPT, "X-Request-Id": "mine"},
    )
    answer.close()
    client.get(f"/nothing/{PROMPT.replace(' ', '-')}?q={PROMPT}").close()
    first, second = shell.lines()
    names = {each.name for each in fields(AccessRecord)}
    assert first.keys() <= names
    assert first["route"] == "/v1/echo"
    assert first["principal"] == bytes(16).hex()
    assert first["key_id"] == shell.key.entry.id
    assert first["client_request_id"] == "mine"
    assert first["request_id"] == answer.headers["X-Request-Id"]
    assert (second["route"], second["status"], second["code"]) == ("-", 404, "not_found")
    text = (shell.folder / "access.jsonl").read_text()
    assert "nobody else" not in text
    assert "nobody-else" not in text
    assert shell.key.text not in text


@pytest.mark.parametrize(
    ("given", "noted"),
    [(None, None), ("", None), ("a" * 500, "a" * 64), ('"\n\u2028\x1b', '"\\n\\u2028\\x1b')],
)
def test_a_clients_id_is_bounded_and_escaped(given, noted):
    assert client_request_id(given) == noted
    line = AccessRecord(client_request_id=noted).line()
    assert line.count(b"\n") == 1
    assert json.loads(line).get("client_request_id") == noted


def test_a_log_that_cannot_be_written_stops_nothing_and_is_counted(shell):
    (shell.folder / "access.jsonl").mkdir()
    client = shell.app.test_client()
    for _ in range(3):
        answer = client.get("/health")
        assert answer.status_code == 200
        answer.close()
    assert shell.service.access_log.lost == 3
    text = client.get("/metrics", headers=shell.headers).text
    assert "windhover_lost_log_lines 3.0" in text


def test_a_moved_log_is_begun_again(tmp_path):
    path = tmp_path / "log"
    log = AccessLog(path)
    log.write(AccessRecord())
    path.rename(tmp_path / "old")
    log.reopen()
    log.event("start", seconds=1.5)
    log.close()
    assert json.loads(path.read_text())["event"] == "start"
    assert path.stat().st_mode & 0o007 == 0


def test_a_line_that_was_cut_stays_alone(tmp_path, monkeypatch):
    path = tmp_path / "log"
    log = AccessLog(path)
    real, room = os.write, [7, 1, 1000]
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, data: real(file, data[: room.pop(0)]))
        for number in range(3):
            log.event("turn", number=number)
    log.event("turn", number=3)
    log.close()
    assert log.lost == 2
    broken, *whole = path.read_text().splitlines()
    assert broken == '{"time_'
    assert [json.loads(line)["number"] for line in whole] == [2, 3]


def test_metrics_count_what_was_noted(shell):
    metrics = shell.service.metrics
    metrics.record(
        AccessRecord(
            route="/v1/x", status=200, finish="stop", prompt_tokens=3, generated_tokens=5,
            cached_tokens=2, first_token_ms=40, duration_ms=100,
        )
    )  # fmt: skip
    text = metrics.text().decode()
    for line in (
        'windhover_requests_total{finish="stop",route="/v1/x",status="200"} 1.0',
        "windhover_prompt_tokens_total 3.0",
        "windhover_generated_tokens_total 5.0",
        "windhover_cached_tokens_total 2.0",
        "windhover_first_token_seconds_count 1.0",
        "windhover_ready 0.0",
    ):
        assert line in text
