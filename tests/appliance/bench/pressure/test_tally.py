"""Whatever must not come of a deed is seen, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appliance.bench.pressure.deeds import Deed, Key
from appliance.bench.pressure.exchange import Got
from appliance.bench.pressure.tally import Tally, judge

HEADERS = {"windhover-attestation": "att-1-00000000"}
GOOD: dict[str, Any] = {
    "choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}],
    "usage": {"completion_tokens": 3},
    "attestation": {"id": "att-1-00000000"},
}
WHOLE = Deed("whole", fields={"max_tokens": 4, "response_format": {}})
STREAM = Deed("stream", fields={"max_tokens": 4, "stream": True, "stream_options": {}})
CHUNKS: list[dict[str, Any]] = [
    {"choices": [{"delta": {"content": "a"}, "finish_reason": None}]},
    {
        "choices": [{"delta": {}, "finish_reason": "length"}],
        "attestation": {"id": "att-1-00000000"},
    },
    {"choices": [], "usage": {"completion_tokens": 3}},
]

CALLS: dict[str, Any] = {"finish_reason": "tool_calls"}
ENDED = CHUNKS[1] | {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}


def call(arguments: str) -> dict[str, Any]:
    """Return a chunk with a piece of a call."""
    piece = {"index": 0, "function": {"arguments": arguments}}
    return {"choices": [{"delta": {"tool_calls": [piece]}, "finish_reason": None}]}


def answer(value: object, status: int = 200, **headers: str) -> Got:
    """Return an answer with an object."""
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    return Got(status, HEADERS | given, json.dumps(value).encode())


def stream(chunks: list[dict[str, Any]], end: bytes = b"data: [DONE]\n\n") -> Got:
    """Return a stream of chunks."""
    events = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks)
    return Got(200, HEADERS, b": ping\n\n" + events + end)


def error(code: str) -> dict[str, Any]:
    """Return the body of an error."""
    return {"error": {"code": code, "message": "m", "type": "t", "param": None}}


def test_good_ends() -> None:
    assert judge(WHOLE, answer(GOOD)) == ("answered", None)
    assert judge(STREAM, stream(CHUNKS)) == ("answered", None)
    calls = [call('{"at": '), call('"sky"}'), ENDED, CHUNKS[2]]
    assert judge(STREAM, stream(calls)) == ("answered", None)
    assert judge(WHOLE, Got(has_left=True)) == ("left", None)
    busy = answer(error("overloaded"), 503, retry_after="3")
    assert judge(WHOLE, busy) == ("told to wait (503)", None)
    refused = Deed("wrong key", refusal=(401, "invalid_api_key"))
    assert judge(refused, answer(error("invalid_api_key"), 401)) == ("refused (401)", None)


@pytest.mark.parametrize(
    ("deed", "got", "words"),
    [
        (WHOLE, answer(error("overloaded"), 503), "without Retry-After"),
        (WHOLE, answer(error("engine_error"), 500), "status 500"),
        (WHOLE, Got(200, HEADERS, b"{}", failure="IncompleteRead"), "IncompleteRead after 2"),
        (WHOLE, Got(failure="ConnectionResetError"), "ConnectionResetError"),
        (WHOLE, answer(GOOD | {"attestation": {"id": "att-2-00000000"}}), "another attestation"),
        (WHOLE, answer({"choices": GOOD["choices"]}), "without 'attestation'"),
        (WHOLE, answer(GOOD | {"usage": {"completion_tokens": 5}}), "more or fewer"),
        (
            WHOLE,
            answer(GOOD | {"choices": [{"message": {"content": "{"}, "finish_reason": "stop"}]}),
            "should be JSON",
        ),
        (
            WHOLE,
            answer(GOOD | {"choices": [CALLS | {"message": {"content": None}}]}),
            "calls without",
        ),
        (STREAM, stream([call('{"at": '), ENDED, CHUNKS[2]]), "calls without"),
        (STREAM, stream(CHUNKS, b""), "a stream that ends with"),
        (STREAM, stream(CHUNKS[:2]), "0 usages"),
        (
            STREAM,
            stream([*CHUNKS[:2], {"choices": [], "usage": {"completion_tokens": 5}}]),
            "more or fewer",
        ),
        (Deed("wrong key", key=Key.WRONG), answer(error("a"), 429, retry_after="3"), "status 429"),
        (STREAM, stream([CHUNKS[0], CHUNKS[2]]), "attestations []"),
        (STREAM, stream([CHUNKS[1], CHUNKS[1], CHUNKS[2]]), "attestations"),
        (STREAM, stream([error("engine_error")]), "cannot be read"),
        (Deed("unsupported", refusal=(400, "a")), answer(error("b"), 400), "in place of"),
        (Deed("no key", refusal=(401, "a")), answer(GOOD), "in place of"),
        (Deed("broken JSON", refusal=(400, "")), Got(400, {}, b"<html>"), "status 400, None"),
    ],
)
def test_a_fault_is_seen(deed: Deed, got: Got, words: str) -> None:
    outcome, fault = judge(deed, got)
    assert outcome in ("unexpected", "broken off")
    assert fault is not None
    assert words in fault


def test_counts() -> None:
    tally = Tally()
    assert tally.add(WHOLE, answer(error("overloaded"), 503, retry_after="3"), 0) == 3
    assert tally.add(WHOLE, answer(GOOD), 1) is None
    cut = Deed("leaves after events", fields={"stream": True})
    assert (
        tally.add(cut, Got(200, HEADERS | {"windhover-attestation": "b"}, has_left=True), 2) is None
    )
    assert tally.add(WHOLE, Got(failure="TimeoutError"), 0) is None
    assert tally.attestations["att-1-00000000"] == (1, True)
    assert tally.attestations["b"] == (2, False)
    assert (tally.waited_s, tally.num_faults) == (3, 1)
    assert tally.as_json()["whole"] == {"answered": 1, "broken off": 1, "told to wait (503)": 1}
