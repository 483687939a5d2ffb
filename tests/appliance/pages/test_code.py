"""Streams, answers and requests, as the pages' code reads and writes them."""

from __future__ import annotations

import json

import pytest

from tests.appliance.pages.appliance_double import chunk
from tests.appliance.pages.code_case import needs_node, run_cases

pytestmark = needs_node


def events(stream, size=1 << 20):
    return {"op": "events", "stream": stream.hex(), "size": size}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_however_the_stream_is_cut(size):
    stream = (
        ": ping\n\ndata: {\"a\": \"é 中 \U0001f600\"}\r\n\r\ndata:one\ndata:  two\n\n"
        ":\n\ndata: [DONE]\n\n: bye\n\n"
    ).encode()  # fmt: skip
    [answer] = run_cases(events(stream, size))
    assert answer == {"value": [['{"a": "é 中 \U0001f600"}', "one\n two"], True]}


def test_streams_that_break_their_form_are_refused():
    streams = {
        "cut": b"data: 1\n\ndata: 2\n",
        "utf-8": b"data: \xff\n\n",
        "field": b"event: done\ndata: 1\n\n",
        "after-done": b"data: [DONE]\n\ndata: 1\n\n",
        "too-long": b"data: " + bytes(8 << 20) + b"\n\n",
    }
    answers = run_cases(*map(events, streams.values()))
    assert answers == [{"rule": rule} for rule in streams]
    assert run_cases(events(b"data: 1\n\ndata: 2")) == [{"rule": "cut"}]
    assert run_cases(events(b"data: 1\n\n")) == [{"value": [["1"], False]}]


def test_many_comments_are_no_long_event():
    [answer] = run_cases(events(b": ping\n\n" * ((1 << 20) + 1)))
    assert answer == {"value": [[], False]}


def attestation():
    return {"id": "att1", "log_id": "00" * 32, "sequence": 7, "url": "/x", "statement": ""}


def answer_of(*chunks):
    return {"op": "answer", "events": [json.dumps(one) for one in chunks]}


def test_an_answer_is_put_together():
    usage = chunk({}) | {"choices": [], "usage": {"total_tokens": 3}}
    calls = [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]
    more = [{"index": 0, "function": {"arguments": "{}"}}]
    [said, called] = run_cases(
        answer_of(
            chunk({"role": "assistant", "content": ""}), chunk({"content": "a"}),
            chunk({"content": "b"}), chunk({}, "length", attestation=attestation()), usage,
        ),
        answer_of(
            chunk({"tool_calls": calls}), chunk({"tool_calls": more}),
            chunk({}, "tool_calls", attestation=attestation()),
        ),
    )  # fmt: skip
    assert said["value"]["text"] == "ab"
    assert said["value"]["finish"] == "length"
    assert said["value"]["attestation"] == {"id": "att1", "sequence": 7, "logId": "00" * 32}
    assert called["value"]["calls"] == [{"name": "f", "arguments": "{}"}]


BAD_CHUNKS = {
    "no json": ["{"],
    "an array": ["[]"],
    "no choices": [json.dumps({"id": "x", "model": "tiny"})],
    "two choices": [json.dumps(chunk({}) | {"choices": [{}, {}]})],
    "content that is no text": [json.dumps(chunk({"content": 1}))],
    "another id": [json.dumps(chunk({})), json.dumps(chunk({}) | {"id": "other"})],
    "an end without an attestation": [json.dumps(chunk({}, "stop"))],
    "an end twice": [json.dumps(chunk({}, "stop", attestation=attestation()))] * 2,
    "text after the end": [
        json.dumps(chunk({}, "stop", attestation=attestation())),
        json.dumps(chunk({"content": "more"})),
    ],
}


def test_what_is_no_chunk_is_refused():
    answers = run_cases(*({"op": "answer", "events": data} for data in BAD_CHUNKS.values()))
    assert [name for name, one in zip(BAD_CHUNKS, answers, strict=True) if "rule" not in one] == []


def test_an_error_in_the_stream_is_no_end():
    error = json.dumps({"error": {"message": "the engine failed", "code": "engine_error"}})
    assert run_cases({"op": "answer", "events": [error]}) == [
        {"error": ["the engine failed", "engine_error"]}
    ]


def body(**given):
    given = {"model": "tiny", "system": "", "turns": [], "question": "q", "parameters": {}} | given
    return {"op": "body", **given}


def test_the_request_is_what_the_reader_sees():
    turns = [
        {"isKept": True, "question": "one", "answer": {"text": "1"}},
        {"isKept": False, "question": "lost", "answer": {"text": ""}},
    ]
    [plain, full, broken] = run_cases(
        body(),
        body(system="be brief", turns=turns, parameters={"seed": 3, "temperature": 0}),
        body(question="a\ud83d b"),
    )
    path, _, text = plain["value"].partition("\0")
    assert path == "/v1/chat/completions"
    assert json.loads(text) == {
        "model": "tiny", "messages": [{"role": "user", "content": "q"}], "stream": True,
    }  # fmt: skip
    sent = json.loads(full["value"].partition("\0")[2])
    assert [message["content"] for message in sent["messages"]] == ["be brief", "one", "1", "q"]
    assert sent["seed"] == 3
    assert sent["temperature"] == 0
    assert "a� b" in broken["value"]


def test_fields_are_checked_before_anything_is_sent():
    empty = {"temperature": " ", "max-tokens": "", "seed": ""}
    cases = [
        ({}, {}),
        ({"temperature": "0.7", "max-tokens": "5", "seed": "9007199254740991"},
         {"temperature": 0.7, "max_tokens": 5, "seed": 9007199254740991}),
        *((bad, None) for bad in (
            {"temperature": "2.1"}, {"temperature": "-1"}, {"temperature": "1e1"},
            {"max-tokens": "0"}, {"max-tokens": "1.5"}, {"seed": "9007199254740992"},
            {"seed": "-1"}, {"seed": "0x1"},
        )),
    ]  # fmt: skip
    answers = run_cases(*({"op": "parameters", "fields": empty | fields} for fields, _ in cases))
    for (fields, wanted), answer in zip(cases, answers, strict=True):
        if wanted is None:
            assert answer["field"] in fields
        else:
            assert answer == {"value": wanted}
