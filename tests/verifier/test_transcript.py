"""Saved responses of all forms reduce to one transcript, or to none."""

from __future__ import annotations

import base64
import json
import struct

import pytest

from crypto import cbor
from tests.verifier.bundle_case import Made
from verifier.errors import MalformedError
from verifier.responses import reduce
from verifier.transcript import decode, encode, is_prefix

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
MESSAGE = {"role": "assistant", "content": "Grüße", "refusal": None, "tool_calls": [CALL]}
BODY = {"id": "x", "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}]}
WHOLE = [
    [1, 0, 0, "Grüße".encode()], [3, 0, 0, b"add"], [4, 0, 0, b'{"a":1}'], [6, 0, 0, b"tool_calls"],
]  # fmt: skip


def event(choice=None, **fields):
    choices = [] if choice is None else [{"index": 0, "finish_reason": None} | choice]
    return b"data: " + json.dumps({"choices": choices} | fields).encode() + b"\n\n"


def piece(**delta):
    return event({"delta": delta})


def fragment(index, **function):
    return piece(tool_calls=[{"index": index, "function": function}])


DONE = b"data: [DONE]\n\n"
STREAM = (
    b": comment\r\n\r\n",
    piece(role="assistant", content=""),
    piece(content="Gr"),
    piece(content="üß"),
    b"event: other\nid: 5\n" + piece(content="e"),
    fragment(0, name="add", arguments=""),
    fragment(0, arguments='{"a"'),
    fragment(0, arguments=":1}"),
    event({"delta": {}, "finish_reason": "tool_calls"}),
    event(usage={"total_tokens": 5}),
    DONE,
)


def reduced(response):
    data = encode(reduce(response))
    decode(data)
    return cbor.decode(data)


def test_all_forms_agree():
    forms = [
        cbor.encode(WHOLE),
        json.dumps(BODY).encode(),
        b" \r\n\t" + json.dumps(BODY, ensure_ascii=False, indent=2).encode(),
        b"".join(STREAM),
        b"".join(STREAM).replace(b"\n", b"\r\n"),
        b"".join(STREAM).replace(b"data: ", b"data:"),
        b"".join(STREAM) + b"data: {nonsense\n\n",
        b"".join(STREAM).replace(b', "choices"', b',\ndata: "choices"'),
    ]
    for response in forms:
        assert reduced(response) == WHOLE


def test_completions_and_order_of_choices():
    body = {"choices": [
        {"index": 1, "text": "b", "finish_reason": "length"},
        {"index": 0, "text": "", "finish_reason": "stop"},
    ]}  # fmt: skip
    expected = [[6, 0, 0, b"stop"], [1, 1, 0, b"b"], [6, 1, 0, b"length"]]
    assert reduced(json.dumps(body).encode()) == expected
    stream = event({"index": 1, "text": "b", "finish_reason": "length"})
    stream += event({"text": "", "finish_reason": "stop"}) + DONE
    assert reduced(stream) == expected


def test_interleaved_calls_are_put_in_order():
    stream = fragment(1, name="b") + fragment(0, name="a") + fragment(1, arguments="{}")
    stream += fragment(0, arguments="[]") + event({"finish_reason": "stop"}) + DONE
    assert reduced(stream) == [
        [3, 0, 0, b"a"], [4, 0, 0, b"[]"], [3, 0, 1, b"b"], [4, 0, 1, b"{}"], [6, 0, 0, b"stop"],
    ]  # fmt: skip


def test_embeddings():
    numbers = [0.1, -2, 1e-50, 3.4028235677973366e38 * (1 - 2**-53)]
    raw = struct.pack("<3f", *numbers[:3])
    expected = [[5, 0, 0, raw], [6, 0, 0, b"stop"]]
    for value in (numbers[:3], base64.b64encode(raw).decode()):
        body = {"data": [{"index": 0, "object": "embedding", "embedding": value}]}
        assert reduced(json.dumps(body).encode()) == expected
    body = {"data": [{"embedding": numbers[3:]}]}
    assert reduced(json.dumps(body).encode())[0][3] == struct.pack("<f", 3.4028234663852886e38)


@pytest.mark.parametrize("text", ["1E400", "[]", '"AAAA"', '"AAA="', '"AAAAAA=="x', "true", '"é"'])
def test_broken_embeddings(text):
    response = b'{"data":[{"embedding":[' + text.encode() + b"]}]}"
    if text.startswith('"'):
        response = response.replace(b"[" + text.encode() + b"]", text.encode())
    with pytest.raises(MalformedError):
        reduce(response)


def body(**choice):
    return json.dumps({"choices": [{"finish_reason": "stop"} | choice]}).encode()


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"{}",
        b'{"choices":null}',
        b'{"choices":{}}',
        b'{"choices":[1]}',
        b'{"a":1,"\\u0061":2,"choices":[]}',
        b'{"choices":[]} {}',
        b'\xef\xbb\xbf{"choices":[]}',
        b'{"choices":[],"x":NaN}',
        b'{"choices":[],"x":"\xff"}',
        b'{"choices":[],"x":' + b"[" * 32 + b"]" * 32 + b"}",
        b'{"choices":[],"x":' + b"[" * 100_000,
        body(message=None),
        body(message={"content": ["a"]}),
        body(message={"content": "\ud800"}),
        body(message={"tool_calls": [{"function": {"arguments": "{}"}}]}),
        body(message={"tool_calls": [{}]}),
        body(message={"tool_calls": 5}),
        body(index=0.5),
        body(index=-1),
        body(index=65_536),
        body(index=True),
        body(index="0"),
        body(text="a", finish_reason=None),
        body(text="a", finish_reason=""),
        body(text="a", finish_reason="Stop"),
        json.dumps({"choices": [{"text": "a", "finish_reason": "stop"}] * 2}).encode(),
        event({"delta": {"content": "a"}}) + DONE,
        event({"finish_reason": "stop"}),
        event({"finish_reason": "stop"}) * 2 + DONE,
        event({"finish_reason": "stop"}) + b"data: [DONE]\n",
        piece(tool_calls=[{"function": {"name": "a"}}]) + event({"finish_reason": "stop"}) + DONE,
        b"data: 5\n\n" + DONE,
        b"data: {\n\n" + DONE,
        b"\x80\x80",
        b"\x9a\xff\xff\xff\xff",
    ],
)
def test_what_does_not_reduce(response):
    with pytest.raises(MalformedError):
        reduce(response)


def test_limits_that_still_pass():
    deep = b'{"choices":[],"x":' + b"[" * 31 + b"]" * 31 + b"}"
    assert reduced(deep) == []
    # two signs of the object, one of the array, and a comma before each further number
    most = b'{"choices":[],"x":[' + b"0," * ((1 << 20) - 4) + b"0]}"
    assert reduced(most) == []
    with pytest.raises(MalformedError) as caught:
        reduced(most.replace(b"0,", b"0,0,", 1))
    assert caught.value.rule == "json-items"
    assert reduced(body(index=65_535, text='{[\\"')) == [
        [1, 65_535, 0, b'{[\\"'],
        [6, 65_535, 0, b"stop"],
    ]


def test_every_cut_of_a_stream_is_a_prefix():
    stream, whole = b"".join(STREAM), decode(cbor.encode(WHOLE))
    for at in range(len(stream) + 1):
        assert is_prefix(reduce(stream[:at], partial=True), whole)
    other = decode(cbor.encode([[1, 0, 0, b"Grusse"], *WHOLE[1:]]))
    assert not is_prefix(reduce(stream, partial=True), other)
    other = decode(cbor.encode([*WHOLE[:3], [6, 0, 0, b"stop"]]))
    assert not is_prefix(reduce(stream, partial=True), other)
    assert not is_prefix(reduce(stream, partial=True), decode(cbor.encode(WHOLE[3:])))


def test_a_prefix_against_a_bundle():
    made = Made()
    made.texts["transcript"] = cbor.encode(WHOLE)
    made.statement[-70227] = "tool_calls"
    stream = b"".join(STREAM)
    assert made.verify(response=stream).verdict == "PASS"
    assert made.verify(response=stream[:-20]).reason == "expected-response"
    assert made.verify(response=stream[:-20], prefix=True).verdict == "PASS"
    altered = stream.replace(b"Gr", b"gr")
    assert made.verify(response=altered, prefix=True).reason == "expected-response"
