"""A5 passes for an honest answer, and names rung and place of every lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from appliance.attestation import Answer, Attestor
from appliance.audit.claimed import read_claimed
from appliance.audit.findings import PASS, FailedError, Findings, Result
from appliance.audit.replay_steps import check_replay
from appliance.audit.text_steps import check_model, check_text
from appliance.bundle import Bundle
from crypto.transcript import answer_entries, build
from engine.audit.answered import Answered
from engine.audit.replay import replay
from engine.model import Model
from engine.sampling.parameters import SamplingParameters
from tests.appliance.audit.case import Lie, attested


def audit(bundle: Bundle, model: Model) -> Findings:
    """Make all steps of A5."""
    findings = Findings()
    claimed = read_claimed(bundle.encode())
    check_model(findings, claimed, model)
    check_text(findings, claimed, model)
    check_replay(findings, claimed, model.engine, model)
    return findings


def failures(findings: Findings) -> dict[str, tuple[str | None, int | None]]:
    return {s.name: (s.reason, s.position) for s in findings if s.result is Result.FAILED}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": "0"},
        {"seed": None},
        {"presence_penalty": "0.5", "repetition_penalty": "1.1", "top_p": "0.9", "top_k": 40},
    ],
)
def test_an_honest_answer_passes(attestor: Attestor, tiny_model: Model, options) -> None:
    bundle, _ = attested(attestor, tiny_model, nonce=bytes(16), **options)
    findings = audit(bundle, tiny_model)
    assert findings.verdict == (PASS, "ok")
    assert [step.name for step in findings] == [
        "model",
        "request",
        "prompt-ids",
        "answer",
        "choices",
        "trace",
    ]


def test_a_stop_string_ends_text_and_ids(attestor: Attestor, tiny_model: Model) -> None:
    _, generation = attested(attestor, tiny_model)
    middle = generation.text[len(generation.text) // 2]
    bundle, cut = attested(attestor, tiny_model, stop=middle)
    assert len(cut.text) < len(generation.text)
    assert audit(bundle, tiny_model).verdict == (PASS, "ok")


def test_another_quantisation_of_the_same_weights(
    attestor: Attestor, tiny_model: Model, other_model: Model
) -> None:
    bundle, _ = attested(attestor, tiny_model, Lie(model=other_model))
    assert failures(audit(bundle, tiny_model))["trace"] == ("trace", None)


def test_ids_of_a_cheap_model_under_the_trace_of_the_real_one(
    attestor: Attestor, tiny_model: Model, other_model: Model
) -> None:
    bundle, generation = attested(
        attestor, tiny_model, Lie(model=other_model, change=real_trace(tiny_model, attestor))
    )
    found = failures(audit(bundle, tiny_model))
    assert found.keys() == {"choices"}
    reason, position = found["choices"]
    assert reason == "choice"
    assert position is not None
    assert position >= generation.prompt_tokens


def real_trace(model: Model, attestor: Attestor) -> Callable[[Answer], Answer]:
    """Put the trace that a model gives for foreign ids into the place of the true one."""
    honest, _ = attested(attestor, model)
    prompt = read_claimed(honest.encode()).prompt_ids

    def change(answer: Answer) -> Answer:
        assert answer.output_ids is not None
        replayed = replay(model.engine, Answered(prompt, answer.output_ids, SamplingParameters()))
        return replace(answer, trace_root=replayed.trace_root)

    return change


def test_a_hidden_system_prompt(attestor: Attestor, tiny_model: Model) -> None:
    hidden = [
        {"role": "system", "content": "Praise the sponsor."},
        {"role": "user", "content": "Why is the sky blue?"},
    ]
    bundle, _ = attested(attestor, tiny_model, Lie(messages=hidden))
    found = failures(audit(bundle, tiny_model))
    assert found.keys() == {"prompt-ids"}
    assert found["prompt-ids"][0] == "prompt-ids"


def test_another_seed_than_the_stated_one(attestor: Attestor, tiny_model: Model) -> None:
    bundle, _ = attested(attestor, tiny_model, Lie(seed=12))
    assert failures(audit(bundle, tiny_model)).keys() == {"choices"}


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (lambda order: replace(order, seed=order.seed + 1), "seed"),
        (lambda order: replace(order, seed=None), "seed"),
        (lambda order: replace(order, parameters={**order.parameters, "top_k": 3}), "parameters"),
        (lambda order: replace(order, parameters={**order.parameters, "stops": 1}), "parameters"),
        (
            lambda order: replace(order, parameters={**order.parameters, "max_tokens": 13}),
            "parameters",
        ),
        (lambda order: replace(order, parameters={}), "parameters"),
        (lambda order: replace(order, body=order.body + b"}"), "request-refused"),
        (lambda order: replace(order, path="/v1/else"), "request-refused"),
    ],
    ids=["seed", "no-seed", "top-k", "stops", "max-tokens", "nothing", "body", "path"],
)
def test_what_is_stated_is_what_was_asked(
    attestor: Attestor, tiny_model: Model, order, reason: str
) -> None:
    bundle, _ = attested(attestor, tiny_model, Lie(order=order))
    assert failures(audit(bundle, tiny_model))["request"] == (reason, None)


@pytest.mark.parametrize("change", [{"num_layers": 4}, {"hidden_size": 32}])
def test_a_trace_of_another_shape(
    attestor: Attestor, tiny_model: Model, facts, change: dict[str, int]
) -> None:
    attestor._facts = replace(facts, **change)
    bundle, _ = attested(attestor, tiny_model)
    assert failures(audit(bundle, tiny_model)) == {"model": ("model-claims", None)}


@pytest.mark.parametrize("name", ["tokenizer_root", "template_root"])
def test_another_tokenizer_or_template_than_the_models(
    attestor: Attestor, tiny_model: Model, facts, name: str
) -> None:
    attestor._facts = replace(facts, **{name: bytes(32)})
    bundle, _ = attested(attestor, tiny_model)
    assert failures(audit(bundle, tiny_model)) == {"model": ("model-claims", None)}


def test_one_changed_token(attestor: Attestor, tiny_model: Model) -> None:
    def change(answer: Answer) -> Answer:
        assert answer.output_ids is not None
        ids = list(answer.output_ids)
        ids[5] = ids[5] + 1 if ids[5] < 300 else ids[5] - 1
        return replace(answer, output_ids=tuple(ids))

    bundle, generation = attested(attestor, tiny_model, Lie(change=change))
    found = failures(audit(bundle, tiny_model))
    assert found["choices"] == ("choice", generation.prompt_tokens + 5)
    assert found["trace"] == ("trace", None)


def test_one_changed_word(attestor: Attestor, tiny_model: Model) -> None:
    def change(answer: Answer) -> Answer:
        entries = answer_entries(content="Yes.", finish_reason=answer.finish_reason)
        return replace(answer, transcript=build([entries]))

    bundle, _ = attested(attestor, tiny_model, Lie(change=change))
    assert failures(audit(bundle, tiny_model)) == {"answer": ("transcript", None)}


def test_a_wrong_finish_reason(attestor: Attestor, tiny_model: Model) -> None:
    def change(answer: Answer) -> Answer:
        other = "stop" if answer.finish_reason == "length" else "length"
        content = answer.transcript.entries[0].data.decode()
        entries = answer_entries(content=content, finish_reason=other)
        return replace(answer, finish_reason=other, transcript=build([entries]))

    bundle, generation = attested(attestor, tiny_model, Lie(change=change))
    last = generation.prompt_tokens + len(generation.token_ids) - 1
    assert failures(audit(bundle, tiny_model)) == {"answer": ("finish-reason", last)}


def test_an_answer_cut_short_is_the_beginning_of_its_text(
    attestor: Attestor, tiny_model: Model
) -> None:
    def cut(answer: Answer) -> Answer:
        content = answer.transcript.entries[0].data.decode()[:3]
        entries = answer_entries(content=content, finish_reason="cancelled")
        return replace(
            answer,
            outcome="disconnected",
            finish_reason="cancelled",
            transcript=build([entries]),
        )

    bundle, _ = attested(attestor, tiny_model, Lie(change=cut))
    assert audit(bundle, tiny_model).verdict == (PASS, "ok")


@pytest.mark.parametrize("name", ["request", "prompt_ids", "transcript", "output_ids", "trace"])
def test_what_is_left_out_is_named(attestor: Attestor, tiny_model: Model, name: str) -> None:
    bundle, _ = attested(attestor, tiny_model)
    names = set(bundle.texts) - {name}
    findings = audit(bundle.strip(names), tiny_model)
    assert findings.verdict == ("INCOMPLETE", f"no-{name.replace('_', '-')}")


def test_what_is_not_covered_is_absent(attestor: Attestor, tiny_model: Model) -> None:
    def unknown(answer: Answer) -> Answer:
        return replace(answer, outcome="error", output_ids=None, trace_root=None)

    bundle, _ = attested(attestor, tiny_model, Lie(change=unknown))
    claimed = read_claimed(bundle.encode())
    assert claimed.opened.keys() == {"request", "prompt_ids", "transcript"}
    findings = audit(bundle, tiny_model)
    assert findings.verdict == ("INCOMPLETE", "no-output-ids")


def test_a_text_without_its_salt_is_not_opened(attestor: Attestor, tiny_model: Model) -> None:
    bundle, _ = attested(attestor, tiny_model)
    salts = {name: salt for name, salt in bundle.salts.items() if name != "transcript"}
    findings = audit(replace(bundle, salts=salts), tiny_model)
    assert findings.verdict == ("INCOMPLETE", "no-salt-transcript")


def test_another_model_at_hand_is_no_evidence(
    attestor: Attestor, tiny_model: Model, other_model: Model
) -> None:
    bundle, _ = attested(attestor, tiny_model)
    findings = audit(bundle, other_model)
    assert findings.verdict == ("INCOMPLETE", "other-model")
    assert {step.result for step in findings} == {Result.OPEN, Result.NOT_MADE}


def test_a_changed_text_does_not_open(attestor: Attestor, tiny_model: Model) -> None:
    bundle, _ = attested(attestor, tiny_model)
    texts = dict(bundle.texts) | {"request": bundle.texts["request"] + b" "}
    with pytest.raises(FailedError) as caught:
        read_claimed(replace(bundle, texts=texts).encode())
    assert caught.value.reason == "opens-request"
