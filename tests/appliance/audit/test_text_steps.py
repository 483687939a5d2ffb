"""Answers with calls of tools: audited whole and cut short, and every lie about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from appliance.api.parse import parse_request
from appliance.api.parsed import EMBEDDINGS_PATH
from appliance.api.prompt import prompt_ids
from appliance.attestation import Answer, Attestor, Order
from appliance.audit.claimed import read_claimed
from appliance.audit.findings import PASS, Findings, Result
from appliance.audit.replay_steps import check_replay
from appliance.audit.text_steps import check_model, check_text
from appliance.bundle import Bundle
from crypto.transcript import Entry, Kind, ToolCall, Transcript, answer_entries, build
from engine.model import Model
from tests.appliance.audit.case import Lie, attested

SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": [1]}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
CALLED = {
    "tools": TOOLS,
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "max_tokens": 90,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
NAME = Entry(Kind.TOOL_NAME, 0, 0, b"weather")


def audit(bundle: Bundle, model: Model, *, is_replayed: bool = False) -> Findings:
    findings = Findings()
    claimed = read_claimed(bundle.encode())
    check_model(findings, claimed, model)
    check_text(findings, claimed, model)
    if is_replayed:
        check_replay(findings, claimed, model.engine, model)
    return findings


def reasons(findings: Findings) -> dict[str, str | None]:
    return {s.name: s.reason for s in findings if s.result is not Result.PASSED}


def said(entries: list[Entry]) -> Callable[[Answer], Answer]:
    """Return what hands out these entries in place of the answer's, with its finish reason."""

    def change(answer: Answer) -> Answer:
        end = answer.transcript.entries[-1]
        return replace(answer, transcript=Transcript((*entries, end)))

    return change


def cut_short(entries: list[Entry]) -> Callable[[Answer], Answer]:
    """Return what ends the answer as cancelled, with these entries handed out."""

    def change(answer: Answer) -> Answer:
        end = Entry(Kind.FINISH, 0, 0, b"cancelled")
        return replace(
            answer,
            outcome="cancelled",
            finish_reason="cancelled",
            transcript=Transcript((*entries, end)),
        )

    return change


def test_an_answer_that_calls_a_tool(attestor: Attestor, tiny_model: Model) -> None:
    bundle, generation = attested(attestor, tiny_model, **CALLED)
    assert generation.text.startswith('<tool_call>\n{"name": "weather", "arguments": {')
    claimed = read_claimed(bundle.encode())
    assert claimed.statement.finish_reason == "tool_calls"
    assert claimed.statement.parameters["grammar"] == 3
    assert audit(bundle, tiny_model, is_replayed=True).verdict == (PASS, "ok")


def test_an_answer_in_the_form_of_a_schema(attestor: Attestor, tiny_model: Model) -> None:
    bundle, _ = attested(attestor, tiny_model, response_format=FORMAT, max_tokens=60)
    claimed = read_claimed(bundle.encode())
    assert (claimed.statement.finish_reason, claimed.statement.parameters["grammar"]) == ("stop", 2)
    assert audit(bundle, tiny_model, is_replayed=True).verdict == (PASS, "ok")


def arguments_of(attestor: Attestor, model: Model) -> bytes:
    bundle, _ = attested(attestor, model, **CALLED)
    entries = read_claimed(bundle.encode()).text("transcript")
    start = entries.index(b"{")
    return entries[start : entries.rindex(b"}") + 1]


@pytest.mark.parametrize(
    "handed_out",
    [
        lambda arguments: [],
        lambda arguments: [NAME],
        lambda arguments: [NAME, Entry(Kind.TOOL_ARGUMENTS, 0, 0, arguments[:5])],
        lambda arguments: [NAME, Entry(Kind.TOOL_ARGUMENTS, 0, 0, arguments)],
    ],
    ids=["nothing", "a name", "half of the arguments", "everything"],
)
def test_a_call_that_was_cut_short(attestor: Attestor, tiny_model: Model, handed_out) -> None:
    entries = handed_out(arguments_of(attestor, tiny_model))
    bundle, _ = attested(attestor, tiny_model, Lie(change=cut_short(entries)), **CALLED)
    assert reasons(audit(bundle, tiny_model)) == {}


@pytest.mark.parametrize(
    "handed_out",
    [
        lambda arguments: [Entry(Kind.CONTENT, 0, 0, b"<"), NAME],
        lambda arguments: [Entry(Kind.TOOL_NAME, 0, 0, b"weath")],
        lambda arguments: [NAME, Entry(Kind.TOOL_ARGUMENTS, 0, 0, arguments[1:])],
        lambda arguments: [
            NAME,
            Entry(Kind.TOOL_ARGUMENTS, 0, 0, arguments[:-1]),
            Entry(Kind.TOOL_NAME, 0, 1, b"weather"),
        ],
        lambda arguments: [
            NAME,
            Entry(Kind.TOOL_ARGUMENTS, 0, 0, arguments),
            Entry(Kind.TOOL_NAME, 0, 1, b"weather"),
        ],
    ],
    ids=["content", "half a name", "another beginning", "a gap", "a call too many"],
)
@pytest.mark.parametrize("is_cut", [False, True])
def test_other_calls_than_those_of_the_ids(
    attestor: Attestor, tiny_model: Model, handed_out, is_cut: bool
) -> None:
    entries = handed_out(arguments_of(attestor, tiny_model))
    lie = Lie(change=cut_short(entries) if is_cut else said(entries))
    bundle, _ = attested(attestor, tiny_model, lie, **CALLED)
    assert reasons(audit(bundle, tiny_model)) == {"answer": "transcript"}


def test_calls_as_text_of_the_answer(attestor: Attestor, tiny_model: Model) -> None:
    def change(answer: Answer) -> Answer:
        entries = answer_entries(content="<tool_call>", finish_reason="stop")
        return replace(answer, finish_reason="stop", transcript=build([entries]))

    bundle, _ = attested(attestor, tiny_model, Lie(change=change), **CALLED)
    assert reasons(audit(bundle, tiny_model)) == {"answer": "finish-reason"}


def test_a_call_in_an_answer_without_tools(attestor: Attestor, tiny_model: Model) -> None:
    def change(answer: Answer) -> Answer:
        entries = answer_entries(
            tool_calls=[ToolCall("weather", "{}")], finish_reason=answer.finish_reason
        )
        return replace(answer, transcript=build([entries]))

    bundle, _ = attested(attestor, tiny_model, Lie(change=change))
    assert reasons(audit(bundle, tiny_model)) == {"answer": "transcript"}


def test_a_grammar_that_the_answer_does_not_follow(attestor: Attestor, tiny_model: Model) -> None:
    def change(answer: Answer) -> Answer:
        assert answer.output_ids is not None
        return replace(answer, output_ids=(answer.output_ids[-1], *answer.output_ids[1:]))

    bundle, _ = attested(attestor, tiny_model, Lie(change=change), **CALLED)
    assert reasons(audit(bundle, tiny_model)) == {"answer": "choice"}


def test_a_grammar_that_the_statement_hides(attestor: Attestor, tiny_model: Model) -> None:
    def hide(order: Order) -> Order:
        numbers = {name: n for name, n in order.parameters.items() if name != "grammar"}
        return replace(order, parameters=numbers)

    bundle, _ = attested(attestor, tiny_model, Lie(order=hide), **CALLED)
    assert reasons(audit(bundle, tiny_model))["request"] == "parameters"


def embedded(attestor: Attestor, model: Model, entries: list[Entry]) -> Bundle:
    """Return a bundle of an embedding of two texts."""
    body = b'{"model":"m","input":["a","bc"]}'
    parsed = parse_request(EMBEDDINGS_PATH, body)
    now_ms = attestor.now_ms()
    order = Order(
        path=EMBEDDINGS_PATH,
        body=body,
        prompt_ids=prompt_ids(model, parsed, now_unix_s=now_ms // 1000),
        parameters=parsed.parameters(0),
        admitted_ms=now_ms,
    )
    answer = Answer(
        outcome="answered",
        finish_reason="stop",
        transcript=Transcript(tuple(entries)),
        output_ids=(),
        trace_root=None,
    )
    return attestor.close(attestor.admit(order), answer)


def vector(choice: int, data: bytes = bytes(8)) -> list[Entry]:
    return [Entry(Kind.EMBEDDING, choice, 0, data), Entry(Kind.FINISH, choice, 0, b"stop")]


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([*vector(0), *vector(1)], None),
        (vector(0), "transcript"),
        ([*vector(0), *vector(2)], "transcript"),
        (answer_entries(content="a", finish_reason="stop"), "transcript"),
    ],
)
def test_embeddings(attestor: Attestor, tiny_model: Model, entries, reason: str | None) -> None:
    found = reasons(audit(embedded(attestor, tiny_model, entries), tiny_model))
    assert found == ({} if reason is None else {"answer": reason})
