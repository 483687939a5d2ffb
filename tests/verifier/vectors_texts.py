"""Vectors of steps 18 to 21: commitments, counts, transcripts, and what an auditor saved."""

from __future__ import annotations

import base64
import json
import struct

from crypto import cbor
from tests.verifier.vector_case import Fixed, Table

NAMES = ("request", "prompt_ids", "transcript", "output_ids", "trace")
TEXTS = Table("texts")
BODY = b'{"messages":[]}'
HELLO = [[1, 0, 0, b"hello"], [6, 0, 0, b"stop"]]
RICH = [
    [1, 0, 0, "Grüße 😀\n".encode()], [2, 0, 0, b"no"], [3, 0, 0, b"add"],
    [4, 0, 0, b'{"a":1}'], [3, 0, 1, b""], [6, 0, 0, b"tool_calls"],
    [1, 2, 0, b"second"], [6, 2, 0, b"tool_calls"],
]  # fmt: skip
DONE = b"data: [DONE]\n\n"


def part_of(name):
    return "trace_root" if name == "trace" else name


def answer(entries, finish="stop"):
    data = entries if isinstance(entries, bytes) else cbor.encode(entries)
    return {"texts": {"transcript": data}, "statement": {-70227: finish}}


def event(**parts):
    return b"data: " + json.dumps(parts).encode() + b"\n\n"


def delta(finish=None, index=0, **parts):
    return event(choices=[{"index": index, "delta": parts, "finish_reason": finish}])


def body(choices):
    return json.dumps({"id": "x", "choices": choices}, ensure_ascii=False).encode()


def commitments(t):
    for name in NAMES:
        shown = name.replace("_", "-")
        t.open(18, f"no-{shown}", parts={part_of(name): None})
        t.open(18, f"no-salt-{shown}", kept_salts={name})
        wrong = bytes(32) if name == "trace" else b"wrong"
        t.fails(18, f"opens-{shown}", parts={part_of(name): wrong})
    t.open(18, "no-request", "nothing-handed-on",
           parts=dict.fromkeys((*map(part_of, NAMES), "salts")))  # fmt: skip
    t.fails(18, "opens-output-ids", "first-is-absent", parts={"request": None, "output_ids": b"x"})
    for bit, name in enumerate(NAMES):
        t.open(7, "not-covered", name.replace("_", "-"), statement={-70232: 31 - (1 << bit)})
    t.fails(19, "counts", "prompt", texts={"prompt_ids": bytes(11)})
    t.fails(19, "counts", "output", texts={"output_ids": bytes(12)})
    t.fails(19, "counts", "trace-is-empty", texts={"trace": b""})
    t.fails(19, "counts", "positions", statement={-70228: [5, 30, 576]})
    t.fails(19, "counts", "no-output", statement={-70226: [3, 0]}, texts={"output_ids": b""})
    t.fails(19, "counts", "trace-of-nothing", statement={-70226: [3, 0], -70228: [0, 0, 0]},
            texts={"output_ids": b""})  # fmt: skip
    of_texts = answer([[5, 0, 0, bytes(8)], [6, 0, 0, b"stop"],
                       [5, 1, 0, bytes(8)], [6, 1, 0, b"stop"]])  # fmt: skip
    inputs = {-70222: {"inputs": 2}}
    said = of_texts["statement"] | inputs | {-70226: [3, 0]}
    nothing = of_texts["texts"] | {"output_ids": b""}
    t.passes("vectors-of-texts", admission=inputs, texts=nothing,
             statement=said | {-70228: [3, 30, 576]})  # fmt: skip
    t.fails(19, "counts", "positions-of-vectors", admission=inputs, texts=nothing,
            statement=said | {-70228: [2, 30, 576]})  # fmt: skip
    t.fails(19, "counts", "vectors-and-output", admission=inputs, texts=of_texts["texts"],
            statement=said | {-70226: [3, 3], -70228: [3, 30, 576]})  # fmt: skip
    t.passes("an-error-without-output",
             statement={-70209: "error", -70227: "error", -70226: [3, 0], -70228: [0, 0, 0]},
             texts={"output_ids": b"", "trace": b"", "transcript": b"\x80"})  # fmt: skip
    t.passes("finish-reason-none", statement={-70227: "none"})
    t.fails(20, "finish-reason", **answer([[6, 0, 0, b"length"]]))
    t.fails(21, "seed", statement={-70223: 7}, admission={-70223: 7})
    near = {-70223: Fixed().statement[-70223] ^ 1}  # the same binary64
    t.fails(21, "seed", "last-bit", statement=near, admission=near)
    t.fails(21, "seed", "without-nonce", statement={-70207: ...}, admission={-70207: ...})
    largest = {-70223: (1 << 64) - 1, -70224: "request"}
    t.passes("largest-seed", statement=largest, admission=largest)


def transcripts(t):
    t.passes("transcript-with-everything", **answer(RICH, "tool_calls"))
    t.passes("transcript-of-nothing", **answer([]))
    t.passes("transcript-of-an-embedding", **answer([[5, 0, 0, bytes(8)], [6, 0, 0, b"stop"]]))
    last = [[1, 65_535, 0, b"a"], [6, 65_535, 0, b"stop"]]
    t.passes("transcript-of-the-last-choice", **answer(last))
    end = [[6, 0, 0, b"stop"]]
    for name, entries in {
        "empty": b"", "map": {}, "number": [1], "three-parts": [[1, 0, 0]],
        "text": [[1, 0, 0, "a"], *end], "boolean": [[True, 0, 0, b"a"], *end],
        "no-end": [[1, 0, 0, b"a"]], "empty-reason": [[6, 0, 0, b""]],
        "reason-in-upper-case": [[6, 0, 0, b"Stop"]],
        "reason-and-line-feed": [[6, 0, 0, b"stop\n"]],
        "reason-of-33": [[6, 0, 0, b"a" * 33]], "kind-7": [[7, 0, 0, b"a"], *end],
        "kind-0": [[0, 0, 0, b"a"], *end], "empty-content": [[1, 0, 0, b""], *end],
        "no-utf-8": [[1, 0, 0, b"\xff"], *end], "surrogate": [[1, 0, 0, b"\xed\xa0\x80"], *end],
        "item-of-content": [[1, 0, 1, b"a"], *end], "order": [*end, [1, 0, 0, b"a"]],
        "twice": [*end, *end], "no-name": [[4, 0, 0, b"a"], *end],
        "embedding-of-3": [[5, 0, 0, b"abc"], *end], "choice-65536": [[6, 65_536, 0, b"stop"]],
        "negative-choice": [[6, -1, 0, b"stop"]], "wide-choice": [[6, 1 << 53, 0, b"stop"]],
        "trailing-byte": cbor.encode(HELLO) + b"\0", "wide-array": b"\x98\x01\x84\x06\0\0\x44stop",
    }.items():  # fmt: skip
        t.fails(20, "transcript-format", name, **answer(entries))


def requests(t):
    held = {"request": BODY}
    t.passes("request-body", expected=held)
    t.passes("request-with-path", expected={"request": b"/v1/chat/completions\0" + BODY})
    t.passes("request-stands-in", expected=held, parts={"request": None})
    t.passes("request-of-a-path-unknown", expected=held,
             texts={"request": b"/v9/other\0" + BODY})  # fmt: skip
    t.fails(21, "expected-request", "of-a-path-unknown", expected=held, parts={"request": None},
            texts={"request": b"/v9/other\0" + BODY})  # fmt: skip
    t.passes("request-without-zero-byte", texts={"request": b"/v1/models"})
    t.fails(21, "expected-request", "other", expected={"request": BODY + b" "})
    t.fails(21, "expected-request", "empty", expected={"request": b""})
    t.open(21, "no-salt-request", expected={"request": BODY, "need": ("A0",)},
           kept_salts={"request"})  # fmt: skip
    t.passes("empty-request", expected={"request": b""}, parts={"request": None},
             texts={"request": b"/v1/responses\0"})  # fmt: skip


def responses(t):
    good = {
        "transcript": cbor.encode(HELLO),
        "body": body([{"message": {"content": "hello"}, "finish_reason": "stop"}]),
        "body-with-spaces": b" \r\n\t" + body([{"text": "hello", "finish_reason": "stop"}]),
        "escapes": b'{"choices":[{"text":"\\u0068e\\u006cl\\u006F","finish_reason":"stop"}]}',
        "index-of-minus-zero": b'{"choices":[{"index":-0,"text":"hello","finish_reason":"stop"}]}',
        "index-as-a-power": b'{"choices":[{"index":0e9,"text":"hello","finish_reason":"stop"}]}',
        "unused-values": b'{"x":[1e999,-1E-999,9007199254740993,"\\ud800",null],"\\u0000":{},'
        + body([{"text": "hello", "finish_reason": "stop", "y": True}])[1:],
        "stream": delta(role="assistant") + delta(content="hel") + delta(content="lo")
        + delta("stop") + DONE + b"rest",
        "stream-with-crlf": (delta("stop", content="hello") + DONE).replace(b"\n", b"\r\n"),
        "stream-of-lines": b": note\nid: 1\ndata:{\"choices\":[\ndata:{\"text\":\"hello\",\n"
        b"data: \"finish_reason\":\"stop\"}]}\n\n" + DONE,
    }  # fmt: skip
    for name, response in good.items():
        t.passes(f"response-{name}", expected={"response": response})
    t.passes("response-stands-in", expected={"response": good["body"]}, parts={"transcript": None})
    t.fails(20, "finish-reason", "of-a-stand-in", expected={"response": good["body"]},
            parts={"transcript": None}, statement={-70227: "length"})  # fmt: skip
    t.open(21, "no-salt-transcript", expected={"response": good["body"], "need": ("A0",)},
           kept_salts={"transcript"})  # fmt: skip
    bad = {
        "other": body([{"text": "hallo", "finish_reason": "stop"}]),
        "empty": b"",
        "no-json": b"{",
        "byte-order-mark": b"\xef\xbb\xbf" + good["body"],
        "name-twice": b'{"choices":[],' + good["body"][1:],
        "name-twice-escaped": b'{"\\u0063hoices":[],' + good["body"][1:],
        "nan": b'{"x":NaN,' + good["body"][1:],
        "comma": good["body"][:-1] + b",}",
        "surrogate": body([{"text": "hello", "finish_reason": "stop"}]).replace(
            b'"hello"', b'"hello\\ud83d"'
        ),
        "index-1.5": b'{"choices":[{"index":1.5,"text":"hello","finish_reason":"stop"}]}',
        "index-65536": b'{"choices":[{"index":65536,"text":"hello","finish_reason":"stop"}]}',
        "index-text": b'{"choices":[{"index":"0","text":"hello","finish_reason":"stop"}]}',
        "index-null": b'{"choices":[{"index":null,"text":"hello","finish_reason":"stop"}]}',
        "choice-twice": body([{"text": "hello", "finish_reason": "stop"}, {}]),
        "depth-33": b'{"x":' + b"[" * 32 + b"]" * 32 + b"," + good["body"][1:],
        "no-finish": body([{"text": "hello"}]),
        "two-finishes": delta("stop", content="hello") + delta("stop") + DONE,
        "no-done": delta("stop", content="hello"),
        "done-without-line": delta("stop", content="hello") + b"data: [DONE]\n",
        "done-with-space": delta("stop", content="hello") + b"data:  [DONE]\n\n" + DONE,
        "bare-carriage-returns": (delta("stop", content="hello") + DONE).replace(b"\n", b"\r"),
    }  # fmt: skip
    for name, response in bad.items():
        t.fails(21, "expected-response", name, expected={"response": response})
    t.passes("response-depth-32", expected={
        "response": b'{"x":' + b"[" * 31 + b"]" * 31 + b"," + good["body"][1:]
    })  # fmt: skip
    _rich(t)
    _embeddings(t)
    _prefixes(t)


def _rich(t):
    calls = [
        {"function": {"name": "add", "arguments": '{"a":1}'}},
        {"function": {"name": "", "arguments": ""}},
    ]
    message = {"content": "Grüße 😀\n", "refusal": "no", "tool_calls": calls}
    second = {"index": 2, "message": {"content": "second"}, "finish_reason": "tool_calls"}
    whole = body([second, {"message": message, "finish_reason": "tool_calls"}])
    pieces = [
        delta(index=2, content="sec"), delta(content="Gr", refusal="n"),
        delta(content="üße 😀\n", tool_calls=[{"index": 1}]), delta(refusal="o"),
        delta(tool_calls=[{"index": 0, "function": {"name": "a", "arguments": '{"a"'}}]),
        delta(tool_calls=[{"index": 0, "function": {"name": "dd", "arguments": ":1}"}}]),
        delta("tool_calls"), event(usage={}, data=5), delta("tool_calls", 2, content="ond"), DONE,
    ]  # fmt: skip
    rich = answer(RICH, "tool_calls")
    t.passes("response-with-everything", expected={"response": whole}, **rich)
    t.passes("stream-with-everything", expected={"response": b"".join(pieces)}, **rich)
    cut = b"".join(pieces[:5])[:-1]
    t.passes("prefix-of-everything", expected={"response": cut, "prefix": True}, **rich)
    calls[1]["function"]["name"] = None
    nameless = body([second, {"message": message, "finish_reason": "tool_calls"}])
    t.fails(21, "expected-response", "call-without-name", expected={"response": nameless}, **rich)


def _embeddings(t):
    numbers = [1.0, 0.1, -0.0, 1e-50]
    packed = struct.pack("<4f", *numbers)
    made = answer([[5, 0, 0, packed], [6, 0, 0, b"stop"]])
    text = base64.b64encode(packed).decode()
    for name, value in {"numbers": numbers, "base64": text}.items():
        response = json.dumps({"data": [{"index": 0, "embedding": value}]}).encode()
        t.passes(f"response-embedding-{name}", expected={"response": response}, **made)
    for name, value in {
        "base64-without-filling": text.rstrip("="), "base64-url": "__" + text[2:],
        "too-large": [3.4028235677973366e38], "boolean": [True, 0.1, -0.0, 1e-50], "null": None,
    }.items():  # fmt: skip
        response = json.dumps({"data": [{"embedding": value}]}).encode()
        t.fails(21, "expected-response", f"embedding-{name}", expected={"response": response},
                **made)  # fmt: skip


def _prefixes(t):
    def cut(response):
        return {"response": response, "prefix": True}

    t.passes("prefix-empty", expected=cut(b""))
    t.passes("prefix-hel", expected=cut(delta(content="hel") + b'data: {"choi'))
    t.passes("prefix-whole", expected=cut(delta("stop", content="hello") + DONE))
    t.fails(21, "expected-response", "prefix-hal", expected=cut(delta(content="hal")))
    t.fails(21, "expected-response", "prefix-longer", expected=cut(delta(content="hello!")))
    t.fails(21, "expected-response", "prefix-finish", expected=cut(delta("sto", content="hello")))
    t.fails(21, "expected-response", "prefix-body-without-end",
            expected=cut(b'{"choices":[{"text":"hel"}]}'))  # fmt: skip
    t.open(21, "no-transcript", expected=cut(b"") | {"need": ("A0",)}, parts={"transcript": None})


commitments(TEXTS)
transcripts(TEXTS)
requests(TEXTS)
responses(TEXTS)
