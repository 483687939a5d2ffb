"""What OpenAI's SDK, as it is, tries again and what it leaves: counted on the wire."""

from __future__ import annotations

import json
import time

import httpx
import openai
import pytest

from appliance.service.answering import AnswerLimits
from appliance.service.key_file import write_keys
from appliance.service.keys import KeyStore
from appliance.service.principals import KeyLimits, Principal
from crypto.errors import CryptoError
from engine.errors import EngineError
from tests.appliance.service.shell import make_key

pytestmark = [pytest.mark.slow, pytest.mark.ci]

LIMITED = bytes(15) + b"l"


def have_keys(stage, *keys):
    path = stage.served.folder / "keys.json"
    write_keys(path, tuple(key.entry for key in (stage.served.key, *keys)), force=True)
    stage.service.keys = KeyStore(path)


def test_429_is_tried_again_when_the_header_says(stage):
    limits = KeyLimits(generated_tokens_per_minute=60)
    key = make_key(principal=LIMITED, limits=limits)
    have_keys(stage, key)
    now_ms = [1_000_000]
    stage.service.limits._clock_ms = lambda: now_ms[0]
    principal = Principal(id=LIMITED, name="l", scopes=frozenset(), limits=limits)
    stage.service.limits.charge(principal, 60)  # nothing is left, one comes in a second
    with pytest.raises(openai.RateLimitError) as caught:
        stage.ask(stage.client(key.text, max_retries=0))
    assert caught.value.code == "rate_limit_exceeded"
    assert caught.value.type == "rate_limit_error"
    assert caught.value.response.headers["retry-after"] == "1"
    assert "x-should-retry" not in caught.value.response.headers

    def wait(number):
        if number == 3:
            now_ms[0] += 60_000

    stage.relay.on_request = wait
    assert stage.ask(stage.client(key.text)).choices
    first, second = stage.relay.times_s[1:]
    assert second - first >= 1


def test_a_full_queue_is_tried_again_and_says_how_long_it_takes(stage):
    stage.ask()  # so that the service knows how long an answer takes
    places = [stage.service.worker.reserve() for _ in range(3)]
    with pytest.raises(openai.InternalServerError) as caught:
        stage.ask(stage.client(max_retries=0))
    assert (caught.value.status_code, caught.value.code) == (503, "overloaded")
    seconds = caught.value.response.headers["retry-after"]
    assert f"about {seconds} seconds" in caught.value.message

    def wait(number):
        if number == 4:
            for place in places:
                place.release()

    stage.relay.on_request = wait
    assert stage.ask().choices
    assert len(stage.relay.paths) == 4
    assert stage.relay.times_s[3] - stage.relay.times_s[2] >= int(seconds)


def the_engine(stage, monkeypatch):
    stage.fail(EngineError("a secret of the inside"))


def the_attestation(stage, monkeypatch):
    def close(*args):
        raise CryptoError("a secret of the inside")

    monkeypatch.setattr(stage.service.attestor, "close", close)


def the_deadline(stage, monkeypatch):
    stage.service.answering._limits = AnswerLimits(16, 0, 600)


@pytest.mark.parametrize(
    ("break_it", "status", "code"),
    [
        (the_engine, 500, "engine_error"),
        (the_attestation, 500, "attestation_error"),
        (the_deadline, 503, "deadline_exceeded"),
    ],
)
def test_what_would_only_fail_again_is_not_tried_again(stage, monkeypatch, break_it, status, code):
    break_it(stage, monkeypatch)
    with pytest.raises(openai.InternalServerError) as caught:
        stage.ask()
    assert (caught.value.status_code, caught.value.code) == (status, code)
    assert caught.value.type == "server_error"
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert "secret" not in caught.value.response.text
    assert stage.relay.paths == ["/v1/chat/completions"]


@pytest.mark.parametrize(
    ("break_it", "reason"), [(the_engine, "engine"), (the_attestation, "attestation")]
)
def test_after_a_failure_of_engine_or_attestation_nothing_is_ready(
    stage, monkeypatch, break_it, reason
):
    break_it(stage, monkeypatch)
    with pytest.raises(openai.InternalServerError):
        stage.ask()
    ready = httpx.get(f"http://{stage.relay.host}/ready")
    assert (ready.status_code, ready.json()["status"]) == (503, "failed")
    assert [each["code"] for each in ready.json()["reasons"]] == [reason]
    assert httpx.get(f"http://{stage.relay.host}/health").status_code == 200
    with pytest.raises(openai.InternalServerError) as caught:
        stage.ask(stage.client(max_retries=0))
    assert caught.value.code == "not_ready"


def test_an_engine_that_fails_in_a_stream_is_an_error_of_the_sdk_and_no_end(stage):
    stage.fail(EngineError("a secret of the inside"), after=3)
    chunks = []
    with pytest.raises(openai.APIError) as caught:
        take(stage.ask(stream=True, max_tokens=20), chunks)
    assert caught.value.code == "engine_error"
    assert "secret" not in json.dumps(caught.value.body)
    assert chunks
    assert all(chunk.choices[0].finish_reason is None for chunk in chunks)
    assert all("attestation" not in chunk.model_extra for chunk in chunks)
    assert len(stage.relay.paths) == 1


def test_a_time_out_is_tried_again_and_every_attempt_is_attested_as_left(stage):
    stage.hold()
    with pytest.raises(openai.APITimeoutError):
        stage.ask(stage.client(max_retries=1, timeout=httpx.Timeout(60, read=0.2)))
    assert len(stage.relay.paths) == 2
    stage.let_go()
    assert stage.service.worker.wait_empty(60)
    deadline = time.monotonic() + 20
    while len(lines := lines_of(stage)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [line["outcome"] for line in lines] == ["disconnected"] * 2


def take(stream, chunks):
    for chunk in stream:
        chunks.append(chunk)


def lines_of(stage):
    path = stage.served.folder / "access.jsonl"
    return stage.served.lines() if path.exists() else []
