"""Vectors of texts: from the request to a bundle that is computed again."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

from appliance.api.errors import ApiError, api_error_of
from appliance.api.parsed import EMBEDDINGS_PATH
from appliance.attestation import Attestor
from appliance.audit.claimed import read_claimed
from appliance.audit.findings import Findings, Result
from appliance.audit.text_steps import check_model, check_text
from appliance.audit.vector_steps import check_vectors
from appliance.facts import facts_of
from appliance.service.asked import Asked
from appliance.service.embedding import Embedding
from appliance.service.life import AttestedError
from crypto.sm3 import sm3
from engine.admission import DEV
from engine.audit.embed import embed_again
from engine.errors import EngineError
from engine.model import Model
from tests.appliance.service.desk import ALICE, Desk, desk_of

SOFTWARE = sm3(b"software")
TEXTS = ["Why is the sky blue?", "a", "Because of " + "air " * 40]


@pytest.fixture(scope="module")
def model(embedding_file):
    with Model(embedding_file, policy=DEV, num_threads=2, max_positions=128, max_rows=64) as opened:
        yield opened


def attestor_of(model: Model, log, signer) -> Attestor:
    return Attestor(signer, log, facts_of(model), issuer="appliance-7", software=lambda: SOFTWARE)


@pytest.fixture
def desk(model, log, attest_signer):
    attestor = attestor_of(model, log, attest_signer)
    made = desk_of(model, log, attestor, attest_signer)
    yield made
    made.stop()
    assert made.worker.numbers.places == 0
    assert made.rates.num_running == 0
    assert not log.open_admissions()


def begin(desk: Desk, texts=TEXTS, **fields) -> Embedding:
    body = json.dumps({"model": "tiny", "input": texts} | fields).encode()
    return desk.answering.embed(Asked(path=EMBEDDINGS_PATH, body=body, principal=ALICE))


def whole(desk: Desk, texts=TEXTS, **fields):
    return begin(desk, texts, **fields).whole(lambda: False)


def vectors(answer) -> list[bytes]:
    found = []
    for index, part in enumerate(answer["data"]):
        assert (part["object"], part["index"]) == ("embedding", index)
        value = part["embedding"]
        if isinstance(value, str):
            found.append(base64.b64decode(value, validate=True))
        else:
            found.append(np.array(value, "<f4").tobytes())
    return found


def audited(bundle: bytes, model: Model) -> dict[str, str | None]:
    """Return the steps of a full audit that did not pass, with their reasons."""
    findings, claimed = Findings(), read_claimed(bundle)
    check_model(findings, claimed, model)
    check_text(findings, claimed, model)
    check_vectors(findings, claimed, model.engine, model)
    return {step.name: step.reason for step in findings.steps if step.result is not Result.PASSED}


def test_each_text_becomes_the_vector_that_it_has_alone(desk, model):
    answer = whole(desk)
    found = vectors(answer)
    assert answer["object"] == "list"
    assert answer["model"] == "tiny"
    ids = [model.tokenizer.encode_embedding(text) for text in TEXTS]
    tokens = sum(map(len, ids))
    assert answer["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    assert desk.worker.numbers.prompt_tokens == tokens
    for text, vector in zip(TEXTS, found, strict=True):
        numbers = np.frombuffer(vector, "<f4").astype(np.float64)
        assert numbers.shape == (model.config.hidden_size,)
        assert abs(np.linalg.norm(numbers) - 1) < 1e-6
        assert vectors(whole(desk, text)) == [vector]
        assert vectors(whole(desk, [text], encoding_format="base64")) == [vector]
    desk.worker.stop()
    again = embed_again(model.engine, [tuple(each) for each in ids])
    assert [vector.astype("<f4").tobytes() for vector in again.vectors] == found


def test_the_bundle_verifies_and_computes_again(desk, model):
    answer = whole(desk)
    name = answer["attestation"]["id"]
    response = json.dumps(answer).encode()
    report, statement = desk.verified(name, response=response)
    failed = [step for step in report.steps if step.result == "failed"]
    assert failed == []
    assert (statement.outcome, statement.finish_reason) == ("answered", "stop")
    assert dict(statement.parameters) == {"inputs": 3}
    assert statement.trace_shape == (
        statement.prompt_tokens,
        model.config.num_layers,
        model.config.hidden_size,
    )
    desk.worker.stop()
    assert audited(desk.bundle(name).encode(), model) == {}
    other = json.dumps(whole_with(answer, 1, 1e-3)).encode()
    report, _ = desk.verified(name, response=other)
    assert (report.verdict, report.reason) == ("FAIL", "expected-response")


def whole_with(answer, index: int, change: float):
    """Return an answer with one number of one vector changed."""
    data = [dict(part) for part in answer["data"]]
    data[index]["embedding"] = [*data[index]["embedding"][:-1], change]
    return answer | {"data": data}


class Liar:
    """Makes statements about vectors that are not those of the texts."""

    def __init__(self, real: Attestor, **lie) -> None:
        self._real, self._lie = real, lie

    def __getattr__(self, name):
        return getattr(self._real, name)

    def close(self, admitted, answer):
        if "trace_root" in self._lie:
            return self._real.close(admitted, replace(answer, **self._lie))
        entries = list(answer.transcript.entries)
        data = bytearray(entries[2].data)
        data[0] ^= 1
        entries[2] = replace(entries[2], data=bytes(data))
        transcript = replace(answer.transcript, entries=tuple(entries))
        return self._real.close(admitted, replace(answer, transcript=transcript))


@pytest.mark.parametrize(
    ("lie", "found"),
    [({}, {"vectors": "vector"}), ({"trace_root": bytes(32)}, {"trace": "trace"})],
    ids=["last-bit-of-a-vector", "another-trace"],
)
def test_a_lie_is_found_by_computing_again(model, log, attest_signer, lie, found):
    attestor = attestor_of(model, log, attest_signer)
    desk = desk_of(model, log, Liar(attestor, **lie), attest_signer)
    name = whole(desk)["attestation"]["id"]
    desk.stop()
    assert audited(desk.bundle(name).encode(), model) == found


def refusal(call) -> ApiError:
    try:
        call()
    except Exception as error:
        return api_error_of(error)
    raise AssertionError("it was answered")


def test_what_cannot_become_a_vector_is_refused_before_it_is_admitted(desk, log):
    size = log.head.size
    too_long = refusal(lambda: begin(desk, ["a", "air " * 200]))
    assert (too_long.status, too_long.code) == (400, "context_length_exceeded")
    nothing = refusal(lambda: begin(desk, ["a", ""]))
    assert (nothing.status, nothing.param) == (400, "input")
    ids = refusal(lambda: begin(desk, [1, 2, 3]))
    assert (ids.status, ids.code) == (400, "unsupported_parameter")
    assert refusal(lambda: begin(desk, "a", dimensions=8)).status == 400
    assert log.head.size == size


def test_a_model_without_pooling_refuses(tiny_model, log, attestor, attest_signer):
    desk = desk_of(tiny_model, log, attestor, attest_signer)
    error = refusal(lambda: begin(desk))
    desk.stop()
    assert (error.status, error.code, error.param) == (400, "unsupported_parameter", "model")


def test_a_client_that_leaves_is_stated(desk, monkeypatch):
    monkeypatch.setattr("appliance.service.embedding.LOOK_S", 0)  # it looks before anything comes
    embedding = begin(desk, ["air " * 30] * 40)
    with pytest.raises(AttestedError) as caught:
        embedding.whole(lambda: True)
    assert caught.value.status == 499
    _, statement = desk.verified(embedding.attestation)
    assert (statement.outcome, statement.trace_shape) == ("disconnected", (0, 0, 0))


def test_one_text_without_a_vector_ends_the_request(desk, monkeypatch):
    from engine.pooling import Pooling

    real = Pooling.vector
    monkeypatch.setattr(Pooling, "vector", lambda self: fail_on_one(self, real))
    embedding = begin(desk)
    with pytest.raises(AttestedError) as caught:
        embedding.whole(lambda: False)
    assert caught.value.code == "engine_error"
    _, statement = desk.verified(embedding.attestation)
    assert statement.outcome == "error"
    monkeypatch.undo()
    assert len(vectors(whole(desk))) == 3


def fail_on_one(pooling, real):
    if pooling._num_positions == 1:
        raise EngineError("no direction")
    return real(pooling)
