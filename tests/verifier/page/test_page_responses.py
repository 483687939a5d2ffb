"""Saved responses through both programs: they reduce to one transcript, or both refuse."""

from __future__ import annotations

import json

from tests.verifier.page.page_case import b64, needs_node, run_cases
from tests.verifier.page.test_page_bundles import Draws, mutated
from tests.verifier.test_transcript import BODY, STREAM, WHOLE
from verifier.errors import MalformedError
from verifier.responses import reduce
from verifier.transcript import encode

pytestmark = needs_node

TEXTS = [
    b'{"choices":[]}',
    b'{"choices":null}',
    b'{"choices":[{"text":"a","finish_reason":"stop"}],"choices":[]}',
    b'{"choices":[{"text":"a","finish_reason":"stop"}],"\\u0063hoices":[]}',
    b'{"choices":[{"text":"\\ud83d\\ude00","finish_reason":"stop"}]}',
    b'{"choices":[{"text":"\\ud83d","finish_reason":"stop"}]}',
    b'{"choices":[{"text":"a","x":"\\ud83d","finish_reason":"stop"}]}',
    b'{"choices":[{"index":-0.0,"text":"a","finish_reason":"stop"}]}',
    b'{"choices":[{"index":65535,"text":"a","finish_reason":"stop"}]}',
    b'{"choices":[{"index":65536,"text":"a","finish_reason":"stop"}]}',
    b'{"choices":[{"index":1e0,"text":"a","finish_reason":"stop"}]}',
    b'{"choices":[{"index":1.5,"text":"a","finish_reason":"stop"}]}',
    b'{"choices":[{"index":true,"text":"a","finish_reason":"stop"}]}',
    b'{"choices":[{"index":null,"text":"a","finish_reason":"stop"}]}',
    b'{"choices":[{"text":"a","finish_reason":""}]}',
    b'{"choices":[{"text":"a","finish_reason":null}]}',
    b'{"choices":[{"text":"a\x01","finish_reason":"stop"}]}',
    b'{"choices":[{"text":"a\xff","finish_reason":"stop"}]}',
    b'{"choices":[{"text":"a\x7f\xe2\x80\xa8","finish_reason":"stop"}]}',
    b'{"x":NaN,"choices":[]}',
    b'{"x":1e999,"choices":[]}',
    b'{"x":01,"choices":[]}',
    b'{"x":1.,"choices":[]}',
    b'{"x":-,"choices":[]}',
    b'{"choices":[],}',
    b'{"choices":[]} x',
    b'\xef\xbb\xbf{"choices":[]}',
    b'{"choices":[]}\x00',
    b'\x0b{"choices":[]}',
    b'{"x":' + b"[" * 31 + b"]" * 31 + b',"choices":[]}',
    b'{"x":' + b"[" * 32 + b"]" * 32 + b',"choices":[]}',
    b'{"x":' + b"[" * 100_000,
    b'{"choices":[],"x":[' + b"0," * ((1 << 20) - 4) + b"0]}",  # as many signs as there may be
    b'{"choices":[],"x":[' + b"0," * ((1 << 20) - 3) + b"0]}",  # one more
    b'{"__proto__":1,"constructor":2,"choices":[]}',
    b'{"data":[{"embedding":[1,0.1,-0,1e-50]}]}',
    b'{"data":[{"embedding":[3.4028235677973366e38]}]}',
    b'{"data":[{"embedding":[3.4028235677973362e38]}]}',
    b'{"data":[{"embedding":"AACAPw=="},{"index":1,"embedding":"AACAPw=="}]}',
    b'{"data":[{"embedding":"AACAPx=="}]}',
    b'{"data":[{"embedding":"AACAPw"}]}',
    b'{"data":[{"embedding":"AACA Pw=="}]}',
    b'{"data":[{"embedding":""}]}',
    b'{"data":[{"embedding":[]}]}',
    b'{"data":[{}]}',
    b"",
    b"\n\n",
    b"data: [DONE]\n\n",
    b"data: [DONE]",
    b"data:\n\ndata: [DONE]\n\n",
    b"data\n\ndata: [DONE]\n\n",
    b"data:  [DONE]\n\ndata: [DONE]\n\n",
    b"\xef\xbb\xbfdata: [DONE]\n\n",
    b"data: {}\r\rdata: [DONE]\r\r",
]  # fmt: skip


def outcome(response, *, partial):
    try:
        return {"value": encode(reduce(response, partial=partial)).hex()}
    except MalformedError:
        return "refused"


def agree(responses, partials=(False, True)):
    pairs = [(data, partial) for data in responses for partial in partials]
    cases = [{"op": "reduce", "data": b64(data), "partial": partial} for data, partial in pairs]
    found = ["refused" if "rule" in answer else answer for answer in run_cases(cases)]
    wanted = [outcome(data, partial=partial) for data, partial in pairs]
    differ = [part for part in zip(pairs, wanted, found, strict=True) if part[1] != part[2]]
    assert not differ
    return found


def test_named_forms():
    found = agree([*TEXTS, json.dumps(BODY).encode(), b"".join(STREAM), b"".join(STREAM[:-2])])
    assert 40 < found.count("refused") < len(found) - 20


def test_long_forms():
    """Neither many lines nor one long text exhaust a stack."""
    text = b"\\n" + b"a" * 1_500_000
    lines = b"data:\n" * 150_000
    responses = [
        b'{"choices":[{"text":"' + text + b'","finish_reason":"stop"}]}',
        b'{"data":[{"embedding":[' + b"1.5," * 150_000 + b"2]}]}",
        b'{"x":[' + b"[]," * 150_000 + b'0],"choices":[]}',
        lines + b'data: {"choices":[]}\n' + lines + b"\ndata: [DONE]\n\n",
        b"\n" * 150_000 + b"data: [DONE]\n\n",
    ]
    assert "refused" not in agree(responses, partials=(False,))


def test_mutated_forms():
    draws = Draws("responses")
    bases = [json.dumps(BODY).encode(), b"".join(STREAM), encode(reduce(b"".join(STREAM)))]
    found = agree([mutated(bases[i % 3], draws) for i in range(300)])
    assert 100 < found.count("refused") < len(found) - 50
    assert len(WHOLE) == 4
