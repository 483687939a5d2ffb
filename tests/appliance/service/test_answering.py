"""An answer from its request to its bundle: whole, streamed, cut, refused, and always attested."""

from __future__ import annotations

import gc
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from appliance.api.errors import ApiError, api_error_of
from appliance.api.parsed import COMPLETIONS_PATH
from appliance.api.request_error import RequestError
from appliance.audit.findings import Result
from appliance.service.access_log import AccessRecord
from appliance.service.answering import AnswerLimits
from appliance.service.job import Cause
from appliance.service.life import AttestedError
from appliance.service.stream import whole_answer
from crypto.commitment import seed_of_nonce
from crypto.transcript import Kind, decode_transcript
from engine.errors import EngineError
from engine.generate import generate
from engine.sequence import Request
from tests.appliance.service.desk import (
    ALICE,
    BOB,
    Desk,
    audit,
    chunks_of,
    desk_of,
    text_of,
)

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def desk(tiny_model, log, attestor, attest_signer):
    desk = desk_of(tiny_model, log, attestor, attest_signer)
    yield desk
    desk.stop()
    assert desk.worker.numbers.places == 0
    assert desk.worker.numbers.mismatches == 0
    assert desk.rates.num_running == 0
    assert not log.open_admissions()


def handed(desk: Desk, name: str) -> dict[Kind, str]:
    transcript = decode_transcript(desk.bundle(name).texts["transcript"])
    return {entry.kind: entry.data.decode() for entry in transcript.entries}


def test_whole_and_streamed_are_one_answer(desk):
    whole = desk.whole()
    data = b"".join(desk.stream())
    chunks = chunks_of(data)
    assert data.endswith(b"data: [DONE]\n\n")
    assert text_of(chunks) == whole["choices"][0]["message"]["content"]
    last = chunks[-1]
    assert last["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert [c for c in chunks if "attestation" in c] == [last]
    assert len({(c["id"], c["created"], c["model"]) for c in chunks}) == 1
    one, other = (desk.bundle(each["attestation"]["id"]) for each in (whole, last))
    for name in ("transcript", "output_ids", "prompt_ids", "trace"):
        assert one.texts[name] == other.texts[name]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_what_the_client_saved_verifies(desk, path):
    whole = json.dumps(desk.whole(path=path)).encode()
    streamed = b"".join(desk.stream(path=path, stream_options={"include_usage": True}))
    assert chunks_of(streamed)[-1]["choices"] == []
    for saved, attestation in (
        (whole, json.loads(whole)["attestation"]),
        (streamed, chunks_of(streamed)[-2]["attestation"]),
    ):
        report, statement = desk.verified(attestation["id"], response=saved)
        assert {s.number: s.result for s in report.steps}[21] == "passed"
        assert not [step for step in report.steps if step.result == "failed"]
        assert statement.outcome == "answered"
        assert statement.sequence == attestation["sequence"]


def test_it_is_what_the_engine_gives_alone(desk, tiny_model):
    whole = desk.whole(max_tokens=9, temperature=0.8)
    bundle = desk.bundle(whole["attestation"]["id"])
    ids = bundle.texts["output_ids"]
    data = bundle.texts["prompt_ids"]
    prompt = tuple(int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4))
    running = desk.begin(max_tokens=9, temperature=0.8)
    sampling = running.life.job.request.sampling
    running.life.left()
    alone = generate(tiny_model, Request(prompt, 9, sampling, tiny_model.tokenizer_config.eos_ids))
    assert alone.text == whole["choices"][0]["message"]["content"]
    assert b"".join(i.to_bytes(4, "little") for i in alone.token_ids) == ids
    assert alone.trace_root == bundle.texts["trace"]
    assert whole["usage"]["prompt_tokens"] == len(prompt)
    assert whole["usage"]["completion_tokens"] == len(alone.token_ids)


def test_nothing_is_computed_after_a_stop_string(desk, tiny_model):
    text = desk.whole(max_tokens=16)["choices"][0]["message"]["content"]
    stop = text[len(text) // 2 : len(text) // 2 + 3]
    whole = desk.whole(max_tokens=16, stop=[stop])
    chunks = chunks_of(b"".join(desk.stream(max_tokens=16, stop=[stop])))
    wanted = text[: text.index(stop)]
    assert whole["choices"][0]["message"]["content"] == text_of(chunks) == wanted
    assert whole["choices"][0]["finish_reason"] == "stop"
    whole_ids = desk.bundle(whole["attestation"]["id"]).texts["output_ids"]
    assert len(whole_ids) < 4 * 16
    assert whole_ids == desk.bundle(chunks[-1]["attestation"]["id"]).texts["output_ids"]
    bundle = desk.bundle(whole["attestation"]["id"]).encode()
    assert set(audit(bundle, tiny_model).values()) == {Result.PASSED}


def test_logprobs_are_the_same_whole_and_streamed(desk):
    fields = {"logprobs": True, "top_logprobs": 2}
    whole = desk.whole(**fields)["choices"][0]["logprobs"]["content"]
    chunks = chunks_of(b"".join(desk.stream(**fields)))
    parts = [c["logprobs"]["content"] for o in chunks for c in o["choices"] if c["logprobs"]]
    assert [token for part in parts for token in part] == whole
    assert len(whole) == 12
    assert {len(each["top_logprobs"]) for each in whole} == {2}


def test_a_stream_that_is_left_is_closed_as_far_as_it_came(desk, tiny_model):
    stream = desk.stream(max_tokens=200)
    data = b"".join(next(stream) for _ in range(4))
    name = stream._running.attestation
    stream.close()
    report, statement = desk.verified(name, response=data, prefix=True)
    assert (statement.outcome, statement.finish_reason) == ("disconnected", "cancelled")
    assert report.verdict == "INCOMPLETE"
    assert not [step for step in report.steps if step.result == "failed"]
    assert handed(desk, name).get(Kind.CONTENT, "") == text_of(chunks_of(data))
    assert statement.output_tokens < 200
    assert set(audit(desk.bundle(name).encode(), tiny_model).values()) == {Result.PASSED}
    assert next(stream, None) is None


def test_a_stream_that_nobody_began_is_closed(desk):
    stream = desk.stream()
    name = stream._running.attestation
    stream.close()
    assert desk.verified(name)[1].outcome == "disconnected"


def test_an_answer_that_nobody_holds_is_closed(desk):
    name = desk.begin().attestation
    gc.collect()
    desk.worker.wait_empty(60)
    assert desk.verified(name)[1].outcome == "disconnected"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_during_prefill_is_seen(desk, stream):
    prompt = "why " * 90
    record = AccessRecord()
    fields = {"path": COMPLETIONS_PATH, "prompt": prompt, "max_tokens": 100, "record": record}
    if stream:
        assert b"".join(desk.stream(is_gone=lambda: True, **fields)).count(b"[DONE]") == 0
    else:
        with pytest.raises(AttestedError) as caught:
            whole_answer(desk.begin(**fields), lambda: True)
        assert caught.value.status == 499
    report, statement = desk.verified(record.attestation)
    assert statement.outcome == record.outcome == "disconnected"
    assert statement.output_tokens < 100
    assert not [step for step in report.steps if step.result == "failed"]


def test_one_that_is_cancelled_in_the_queue_never_starts(tiny_model, log, attestor, attest_signer):
    desk = desk_of(tiny_model, log, attestor, attest_signer, max_running=1)
    first = desk.stream(max_tokens=200)
    next(first)
    second = desk.begin(principal=BOB)
    second.life.left()
    assert second.life.job.ended.output_ids == ()
    third = desk.begin(principal=BOB)
    first.close()
    assert whole_answer(third, lambda: False)["choices"]
    desk.stop()
    found = desk.store.find(second.attestation, BOB.id)
    assert found is not None
    assert desk.worker.numbers.places == 0


def test_a_full_queue_is_refused_before_the_admission(tiny_model, log, attestor, attest_signer):
    desk = desk_of(tiny_model, log, attestor, attest_signer, max_running=1, max_queued=1)
    held = [desk.begin(max_tokens=200) for _ in range(2)]
    size = log.head.size
    with pytest.raises(ApiError) as caught:
        desk.begin()
    assert (caught.value.status, caught.value.code) == (503, "overloaded")
    assert caught.value.retry_after_s >= 1
    assert log.head.size == size
    for each in held:
        each.life.left()
    assert desk.whole()["choices"]
    desk.stop()


REFUSALS = [
    ({"model": "other"}, "model_not_found"),
    ({"max_tokens": 100_000}, "context_length_exceeded"),
    ({"messages": [{"role": "user", "content": "long " * 600}], "max_tokens": None},
     "context_length_exceeded"),
    ({"top_p": 7}, "invalid_value"),
    ({"logit_bias": {"99999": 1}}, "invalid_value"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "code"), REFUSALS)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_wrong_is_refused_with_a_status_and_not_admitted(desk, log, fields, code, stream):
    size = log.head.size
    with pytest.raises((ApiError, RequestError, EngineError)) as caught:
        desk.begin(stream=stream, **fields)
    error = api_error_of(caught.value)
    assert error.status in (400, 404)
    assert error.code == code
    assert log.head.size == size


def test_the_default_length_is_what_fits(desk, tiny_model):
    whole = desk.whole(max_tokens=None)
    _, statement = desk.verified(whole["attestation"]["id"])
    assert statement.parameters["max_tokens"] == 16


@pytest.mark.parametrize("stream", [False, True])
def test_deadline_before_the_first_token(tiny_model, log, attestor, attest_signer, stream):
    limits = AnswerLimits(16, 0, 600)
    desk = desk_of(tiny_model, log, attestor, attest_signer, limits=limits)
    if stream:
        stream = desk.stream()
        name = stream._running.attestation
        chunks = chunks_of(b"".join(stream))
        assert chunks[-1]["error"]["code"] == "deadline_exceeded"
    else:
        with pytest.raises(AttestedError) as caught:
            desk.whole()
        assert (caught.value.status, caught.value.code) == (503, "deadline_exceeded")
        assert caught.value.headers()["x-should-retry"] == "false"
        name = caught.value.headers()["Windhover-Attestation"]
    assert desk.verified(name)[1].outcome == "cancelled"
    desk.stop()


def test_the_end_of_the_service_is_attested_as_cancelled(desk):
    stream = desk.stream(max_tokens=400)
    name = stream._running.attestation
    before = [next(stream) for _ in range(2)]
    desk.worker.cancel_all(Cause.DRAIN)
    data = b"".join([*before, *stream])
    chunks = chunks_of(data)
    assert chunks[-1]["error"]["code"] == "not_ready"
    assert b"[DONE]" not in data
    assert all(c["finish_reason"] is None for o in chunks[:-1] for c in o["choices"])
    report, statement = desk.verified(name, response=b"".join(before), prefix=True)
    assert statement.outcome == "cancelled"
    assert not [step for step in report.steps if step.result == "failed"]


def test_a_nonce_gives_the_seed(desk):
    nonce = bytes(range(32))
    whole = desk.whole(nonce=nonce, seed=None)
    report, statement = desk.verified(whole["attestation"]["id"], nonce=nonce)
    assert statement.seed == seed_of_nonce(nonce)
    assert {s.number: s.result for s in report.steps}[6] == "passed"


def test_a_log_that_fails_at_the_end_gives_no_answer(tiny_model, log, attestor, attest_signer):
    desk = desk_of(tiny_model, log, attestor, attest_signer)
    running, stream = desk.begin(), desk.stream()
    log.close()
    with pytest.raises(AttestedError) as caught:
        whole_answer(running, lambda: False)
    assert (caught.value.status, caught.value.code) == (500, "attestation_error")
    data = b"".join(stream)
    assert chunks_of(data)[-1]["error"]["code"] == "attestation_error"
    assert b"[DONE]" not in data
    assert b'"finish_reason":"' not in data
    with pytest.raises(ApiError) as caught:
        desk.begin()
    assert (caught.value.status, caught.value.code) == (503, "not_ready")
    assert desk.failures == ["attestation", "attestation"]
    desk.stop()
    assert desk.worker.numbers.places == 0


def test_eight_at_once_are_as_alone(desk):
    kinds = [
        {"temperature": 0},
        {"temperature": 0.9, "seed": 5},
        {"stop": ["a"]},
        {"logprobs": True},
    ]
    same = ("prompt_ids", "output_ids", "transcript", "trace")

    def opened(answer, principal=ALICE):
        bundle = desk.bundle(answer["attestation"]["id"], principal)
        return [bundle.texts[name] for name in same]

    alone = [opened(desk.whole(**kind)) for kind in kinds]
    assert all(text for texts in alone for text in texts)
    barrier = threading.Barrier(8)

    def ask(number):
        barrier.wait()
        kind = kinds[number % 4]
        if number < 4:
            return opened(desk.whole(principal=BOB, **kind), BOB)
        return opened(chunks_of(b"".join(desk.stream(**kind)))[-1])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == alone * 2


def test_cached_tokens_are_told_and_change_nothing(desk):
    prompt = {"path": COMPLETIONS_PATH, "prompt": "the sky " * 40}
    first, again = desk.whole(**prompt), desk.whole(**prompt)
    other = desk.whole(principal=BOB, **prompt)
    assert first["choices"][0]["text"] == again["choices"][0]["text"]
    cached = [o["usage"]["prompt_tokens_details"]["cached_tokens"] for o in (first, again, other)]
    assert cached[1] > cached[0] == cached[2] == 0
    one, two = (desk.bundle(each["attestation"]["id"]) for each in (first, again))
    assert one.texts["trace"] == two.texts["trace"]


def test_a_shared_principal_has_no_cache_without_a_key(desk):
    shared = replace(ALICE, shared=True)
    messages = [{"role": "user", "content": "the sky " * 40}]
    cached = []
    for key in (None, None, "x", "x", "y"):
        usage = desk.whole(principal=shared, messages=messages, prompt_cache_key=key)["usage"]
        cached.append(usage["prompt_tokens_details"]["cached_tokens"] > 0)
    assert cached == [False, False, False, True, False]


def test_too_many_of_one_principal_are_refused_and_free_again(
    tiny_model, log, attestor, attest_signer
):
    desk = desk_of(tiny_model, log, attestor, attest_signer, concurrent_requests=1)
    running = desk.begin(max_tokens=100)
    with pytest.raises(ApiError) as caught:
        desk.begin()
    assert caught.value.status == 429
    running.life.left()
    assert desk.whole()["choices"]
    desk.stop()
