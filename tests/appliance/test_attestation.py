"""From a request to a bundle that an auditor's program accepts, whatever happened in between."""

from __future__ import annotations

import base64
import threading
from dataclasses import replace

import pytest

from appliance.api.parse import parse_request
from appliance.api.prompt import prompt_ids
from appliance.api.write import write_request
from appliance.attestation import Answer, Attestor, Order
from appliance.bundle import Bundle, decode_bundle
from appliance.log.errors import LogUnavailableError
from appliance.selfcheck import SelfCheck
from crypto.admission import decode_admission
from crypto.commitment import NAMES, commitment, seed_of_nonce
from crypto.cose import decode_sign1
from crypto.errors import SelfTestError, UnavailableError
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.sm2 import generate as generate_key
from crypto.statement import OUTCOMES, decode_statement
from crypto.transcript import answer_entries, build, decode_transcript
from engine.generate import generate
from engine.sequence import Request
from tests import altered
from tests.appliance.conftest import ISSUER, SOFTWARE
from verifier.expectations import Expectations
from verifier.verify import verify

NONCE = bytes(range(32))
BLUE = build([answer_entries(content="Blue.", finish_reason="stop")])


def trust_for(signer, log):
    """Return a trust file that pins key and log."""
    key = base64.b64encode(signer.public_key.spki_der()).decode()
    text = (
        f'version = 1\n[keys.a]\nrole = "attest"\npublic_key = "{key}"\n'
        f'[logs.a]\nid = "{log.log_id.hex()}"\n'
    )
    return text.encode()


def order_of(attestor: Attestor, **changes) -> Order:
    """Return an order that needs no model."""
    path, body = write_request(model="tiny", prompt="The sky is", options={"max_tokens": 5})
    parsed = parse_request(path, body)
    values = {
        "path": path,
        "body": body,
        "prompt_ids": (1, 2, 3),
        "parameters": parsed.parameters(5),
        "admitted_ms": attestor.now_ms(),
    }
    return Order(**values | changes)


def payload(signed: bytes) -> bytes:
    return decode_sign1(signed, max_bytes=MAX_OBJECT_BYTES).payload


def said(bundle: Bundle):
    return decode_statement(payload(bundle.statement))


def answer_of(attestor, model, *, options, nonce=None, seed=None):
    """Let the model answer a chat; return parsed request, admission and bundle."""
    messages = [{"role": "user", "content": "Why is the sky blue?"}]
    path, body = write_request(
        model="tiny", messages=messages, options={"max_tokens": 8, "seed": seed, **options}
    )
    parsed = parse_request(path, body)
    now_ms = attestor.now_ms()
    order = Order(
        path=path,
        body=body,
        prompt_ids=prompt_ids(model, parsed, now_unix_s=now_ms // 1000),
        parameters=parsed.parameters(8),
        admitted_ms=now_ms,
        seed=parsed.seed,
        nonce=nonce,
    )
    admitted = attestor.admit(order)
    request = Request(
        order.prompt_ids,
        8,
        replace(parsed.sampling, seed=admitted.seed),
        model.tokenizer_config.eos_ids,
    )
    generation = generate(model, request, stops=parsed.stops)
    entries = answer_entries(content=generation.text, finish_reason=generation.finish_reason.value)
    answer = Answer(
        outcome="answered",
        finish_reason=generation.finish_reason.value,
        transcript=build([entries]),
        output_ids=generation.token_ids,
        trace_root=generation.trace_root,
    )
    return parsed, generation, attestor.close(admitted, answer)


def test_an_answer_of_a_model_verifies_with_all_it_says(
    attestor, tiny_model, attest_signer, log, facts
):
    parsed, generation, bundle = answer_of(
        attestor, tiny_model, options={"temperature": "0.7"}, nonce=NONCE
    )
    report = verify(bundle.encode(), trust_for(attest_signer, log), Expectations(nonce=NONCE))
    results = {step.number: (step.result, step.reason) for step in report.steps}
    # it is of mode dev, so only that and the release are open
    assert report.verdict == "INCOMPLETE"
    assert results.pop(7) == ("open", "mode-dev")
    assert results.pop(23) == ("open", "no-release")
    rest = {n: results.pop(n) for n in (24, 25)}
    assert {result for result, _ in rest.values()} <= {"open", "not made"}
    assert {result for result, _ in results.values()} == {"passed"}
    statement = said(bundle)
    assert statement.issuer == ISSUER
    assert statement.software_digest == SOFTWARE
    assert statement.model_digest == tiny_model.model_digest == facts.model_digest
    assert statement.parameters["temperature_millionths"] == 700_000
    assert statement.seed == seed_of_nonce(NONCE)
    assert statement.seed_source == "nonce"
    assert statement.coverage == 31
    admission = decode_admission(payload(bundle.admission))
    assert statement.started_ms == admission.admitted_ms < statement.ended_ms
    assert statement.output_tokens == len(generation.token_ids)
    assert statement.trace_shape == (
        generation.prompt_tokens + len(generation.token_ids) - 1,
        tiny_model.config.num_layers,
        tiny_model.config.hidden_size,
    )
    assert bundle.texts["trace"] == generation.trace_root
    transcript = decode_transcript(bundle.texts["transcript"])
    assert transcript.finish_reasons == (statement.finish_reason,)
    assert decode_bundle(bundle.encode()) == bundle
    assert parsed.seed is None


def test_the_request_in_the_bundle_gives_the_prompt_ids_again(attestor, tiny_model):
    _, _, bundle = answer_of(attestor, tiny_model, options={}, seed=11)
    path, body = bundle.texts["request"].split(b"\0", 1)
    admission = decode_admission(payload(bundle.admission))
    parsed = parse_request(path.decode(), body)
    ids = prompt_ids(tiny_model, parsed, now_unix_s=admission.admitted_ms // 1000)
    assert b"".join(i.to_bytes(4, "little") for i in ids) == bundle.texts["prompt_ids"]
    assert parsed.seed == said(bundle).seed == 11
    assert said(bundle).seed_source == "request"


def test_seed_comes_from_request_nonce_or_server(attestor):
    by_request = attestor.admit(order_of(attestor, seed=0, nonce=NONCE))
    assert (by_request.seed, by_request.seed_source) == (0, "request")
    by_nonce = attestor.admit(order_of(attestor, nonce=NONCE))
    assert (by_nonce.seed, by_nonce.seed_source) == (seed_of_nonce(NONCE), "nonce")
    drawn = [attestor.admit(order_of(attestor)) for _ in range(3)]
    assert {a.seed_source for a in drawn} == {"server"}
    assert len({a.seed for a in drawn}) == 3


@pytest.mark.parametrize("outcome", [name for name in OUTCOMES if name not in ("answered", "lost")])
def test_every_outcome_is_attested_and_none_passes_for_an_answer(
    attestor, attest_signer, log, outcome
):
    admitted = attestor.admit(order_of(attestor))
    reason = {"error": "error", "cancelled": "cancelled"}.get(outcome, "none")
    bundle = attestor.close(admitted, Answer(outcome=outcome, finish_reason=reason))
    statement = said(bundle)
    assert (statement.outcome, statement.coverage) == (outcome, 7)
    assert statement.trace_shape == (0, 0, 0)
    report = verify(bundle.encode(), trust_for(attest_signer, log), Expectations())
    assert report.verdict == "INCOMPLETE"
    assert not [step for step in report.steps if step.result == "failed"]


def test_a_request_is_closed_once(attestor, log):
    admitted = attestor.admit(order_of(attestor))
    answer = Answer(outcome="answered", finish_reason="stop", transcript=BLUE, output_ids=(4,))
    attestor.close(admitted, answer)
    size = log.head.size
    with pytest.raises(ValueError, match="closed before"):
        attestor.close(admitted, answer)
    assert log.head.size == size
    assert log.state == "ready"


def test_a_trace_without_output_is_not_claimed(attestor):
    admitted = attestor.admit(order_of(attestor))
    bundle = attestor.close(
        admitted,
        Answer(outcome="cancelled", finish_reason="cancelled", output_ids=(), trace_root=bytes(32)),
    )
    assert said(bundle).trace_shape == (0, 0, 0)
    assert said(bundle).coverage == 15
    assert bundle.texts["trace"] == b""


def test_what_cannot_be_said_takes_no_index_and_stops_nothing(attestor, log):
    size = log.head.size
    with pytest.raises(ValueError, match="value-range"):
        attestor.admit(order_of(attestor, nonce=bytes(8)))
    with pytest.raises(ValueError, match="text-characters"):
        attestor.admit(order_of(attestor, parameters={"Temperature": 1}))
    admitted = attestor.admit(order_of(attestor))
    with pytest.raises(ValueError, match="claim-choice"):
        attestor.close(admitted, Answer(outcome="answered", finish_reason="eos"))
    assert log.state == "ready"
    assert log.head.size == size + 1
    attestor.close(admitted, Answer(outcome="error", finish_reason="error"))


def test_a_bundle_that_does_not_verify_does_not_leave(attestor):
    answer = Answer(outcome="answered", finish_reason="stop", transcript=BLUE, output_ids=(4,))
    admitted = attestor.admit(order_of(attestor))
    with pytest.raises(SelfTestError, match="step 14"):
        attestor.close(replace(admitted, seed=admitted.seed ^ 1), answer)
    admitted = attestor.admit(order_of(attestor))
    with pytest.raises(SelfTestError, match="step 20"):
        attestor.close(admitted, replace(answer, finish_reason="length"))


def test_only_what_was_admitted_is_closed(attestor, log):
    answer = Answer(outcome="error", finish_reason="error")
    admitted = attestor.admit(order_of(attestor))
    size = log.head.size
    other = replace(admitted, admission=altered.last_byte(admitted.admission))
    for wrong in (other, replace(admitted, index=0)):
        with pytest.raises(ValueError, match="none of this process"):
            attestor.close(wrong, answer)
    assert log.head.size == size


def test_the_last_look_finds_what_an_auditor_would(attestor, attest_signer, log):
    admitted = attestor.admit(order_of(attestor))
    answer = Answer(outcome="answered", finish_reason="stop", transcript=BLUE, output_ids=(4,))
    bundle = attestor.close(admitted, answer)
    check = SelfCheck(attest_signer.public_key, log.log_id)
    covered = {"request", "prompt_ids", "transcript", "output_ids"}
    check(bundle, covered)
    texts = bundle.texts | {"transcript": bundle.texts["transcript"] + b"\0"}
    wrong = {
        "opens": [
            bundle.strip(["request"]),
            replace(bundle, texts=texts),
            replace(bundle, salts={}),
        ],
        "step 5": [replace(bundle, statement=altered.last_byte(bundle.statement))],
        "step 10": [replace(bundle, checkpoint=None)],
        "step 11": [replace(bundle, checkpoint=altered.last_byte(bundle.checkpoint))],
        "step 13": [replace(bundle, inclusion=None), replace(bundle, inclusion=())],
        "step 15": [replace(bundle, admission_inclusion=(bytes(32),))],
        "step 16": [replace(bundle, consistency=(bytes(32),))],
    }
    for match, bundles in wrong.items():
        for other in bundles:
            with pytest.raises(SelfTestError, match=match):
                check(other, covered)
    with pytest.raises(SelfTestError, match="opens"):
        check(bundle, covered | {"trace"})
    with pytest.raises(SelfTestError, match="step 4"):
        SelfCheck(generate_key().public_key, log.log_id)(bundle, covered)
    with pytest.raises(SelfTestError, match="step 12"):
        SelfCheck(attest_signer.public_key, bytes(32))(bundle, covered)


def test_a_check_that_cannot_be_made_is_no_passed_one(attestor, attest_signer, log):
    admitted = attestor.admit(order_of(attestor))
    answer = Answer(outcome="answered", finish_reason="stop", transcript=BLUE, output_ids=(4,))
    bundle = attestor.close(admitted, answer)
    check = SelfCheck(attest_signer.public_key, log.log_id)
    covered = {"request", "prompt_ids", "transcript", "output_ids"}
    check._worker.kill()
    check._worker.wait()
    with pytest.raises(UnavailableError, match="could not be verified"):
        check(bundle, covered)
    check(bundle, covered)  # by the next process


def test_the_process_of_the_check_ends_with_its_owner(attest_signer, log):
    check = SelfCheck(attest_signer.public_key, log.log_id)
    worker = check._worker
    del check
    assert worker.returncode is not None


def test_no_log_no_answer(attestor, log):
    admitted = attestor.admit(order_of(attestor))
    log.close()
    for _ in range(2):  # it is still open, and may be tried again
        with pytest.raises(LogUnavailableError):
            attestor.close(admitted, Answer(outcome="error", finish_reason="error"))
    with pytest.raises(LogUnavailableError):
        attestor.admit(order_of(attestor))


def test_admissions_of_an_earlier_process_are_closed_as_lost(
    open_log, attest_signer, facts, log, attestor
):
    admitted = [attestor.admit(order_of(attestor)) for _ in range(2)]
    attestor.close(admitted[0], Answer(outcome="error", finish_reason="error"))
    log.close()
    with open_log() as again:
        later = Attestor(
            attest_signer,
            again,
            replace(facts, model_digest=bytes(32)),
            issuer=ISSUER,
            software=lambda: SOFTWARE,
        )
        assert later.close_lost() == 1
        assert later.close_lost() == 0
        assert not again.open_admissions()
        size = again.head.size
        statement = decode_statement(payload(again.files.entry(size - 1).body))
    admission = decode_admission(payload(admitted[1].admission))
    assert statement.outcome == "lost"
    assert statement.admission == admitted[1].index == admission.sequence
    assert statement.commitments["request"] == admission.request_commitment
    assert statement.model_digest == admission.model_digest == facts.model_digest
    assert statement.coverage == 1
    assert statement.finish_reason == "none"


def test_many_threads_attest_at_once(attestor, attest_signer, log):
    bundles: list[Bundle] = []

    def work() -> None:
        for _ in range(3):
            admitted = attestor.admit(order_of(attestor))
            bundles.append(
                attestor.close(
                    admitted,
                    Answer(
                        outcome="answered", finish_reason="stop", transcript=BLUE, output_ids=(4,)
                    ),
                )
            )

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statements = [said(bundle) for bundle in bundles]
    assert len({statement.sequence for statement in statements}) == 12
    assert len({statement.admission for statement in statements}) == 12
    assert not log.open_admissions()


def test_a_short_prompt_cannot_be_guessed_from_a_bundle_handed_on(attestor):
    hidden = "4711"
    path, body = write_request(model="tiny", prompt=hidden, options={"max_tokens": 5})
    admitted = attestor.admit(order_of(attestor, path=path, body=body, prompt_ids=(52, 55)))
    bundle = attestor.close(
        admitted,
        Answer(outcome="answered", finish_reason="stop", transcript=BLUE, output_ids=(4,)),
    )
    stripped = bundle.strip(["transcript"])
    data = stripped.encode()
    assert bundle.salts["request"] not in data
    assert bundle.salts["prompt_ids"] not in data
    assert bundle.texts["request"] not in data
    known = [bytes(32), *stripped.salts.values()]
    made = {said(bundle).commitments[name] for name in NAMES}
    made.add(decode_admission(payload(bundle.admission)).request_commitment)
    found = 0
    for number in range(10_000):
        path, body = write_request(model="tiny", prompt=f"{number:04}", options={"max_tokens": 5})
        text = path.encode() + b"\0" + body
        guesses = {commitment(name, salt, text) for name in NAMES for salt in known}
        found += not guesses.isdisjoint(made)
    assert found == 0
    # with the salt the right one is found: the search above would have seen it
    path, body = write_request(model="tiny", prompt=hidden, options={"max_tokens": 5})
    text = path.encode() + b"\0" + body
    assert commitment("request", bundle.salts["request"], text) in made
