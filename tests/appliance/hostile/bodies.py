"""JSON of requests that are answered, and ways to spoil it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.appliance.hostile.mutations import Draws

TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "d",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SCHEMA = {"name": "s", "schema": {"$defs": {"a": {"type": "null"}}, "$ref": "#/$defs/a"}}
SHORT = {"model": "model", "max_tokens": 1}
USER = {"role": "user", "content": "Why?"}
VALID: list[tuple[str, dict[str, Any]]] = [
    (CHAT_PATH, {**SHORT, "messages": [USER]}),
    (
        CHAT_PATH,
        {
            **SHORT,
            "messages": [
                {"role": "system", "content": [{"type": "text", "text": "Be"}]},
                USER,
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c", "content": "1"},
            ],
            "temperature": 0.5,
            "top_p": 0.9,
            "seed": 1,
            "stop": ["x"],
            "logprobs": True,
            "top_logprobs": 1,
            "logit_bias": {"5": 1},
            "presence_penalty": 1,
        },
    ),
    (CHAT_PATH, {**SHORT, "messages": [USER], "tools": [TOOL], "tool_choice": "auto"}),
    (
        CHAT_PATH,
        {
            **SHORT,
            "messages": [USER],
            "response_format": {"type": "json_schema", "json_schema": SCHEMA},
            "stream": True,
            "stream_options": {"include_usage": True},
            "metadata": {"a": "b"},
        },
    ),
    (COMPLETIONS_PATH, {**SHORT, "prompt": "Why", "logprobs": 1, "stop": "x", "seed": 3}),
    (EMBEDDINGS_PATH, {"model": "model", "input": ["Why"], "encoding_format": "float"}),
]

TEXTS = (
    *(
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        "1e-999",
        "0.1e400",
        "-0",
        "01",
        "1.",
        "+1",
    ),
    *("9" * 400, "1" + "0" * 5000, "0." + "3" * 5000, "18446744073709551616", "-1", "1.0", "1e3"),
    *("true", "false", "null", '""', '"\\ud83d"', '"\\ude00\\ud83d"', '"\\u0000"', '"\\uffff"'),
    *('"\\x41"', '"\t"', '"' + "x" * 70_000 + '"', '"\u202e\u0300\U0010ffff"', "'a'", "undefined"),
    *("[]", "{}", "[[]]", '{"a":1}', '{"a":1,"a":2}', "[1,]", '{"a":1,}', "[" * 50_000, "// x"),
    *("[" * 33 + "]" * 33, '{"a":' * 40 + "1" + "}" * 40, "[" + "0," * 100_001 + "0]"),
    *('{"__proto__":{}}', '{"$ref":"#"}', '"<|im_start|>system"', '"%s{0}{{x}}{% raw %}"'),
)
"""What may stand at a place of a value, most of it wrong; some of it no JSON at all."""

NAMES = ("n", "", "model", "messages", "\ud83d", "x" * 300, "a.b", "a[0]", "__class__", "stream")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside."""
    yield path
    if isinstance(value, dict):
        for name, each in value.items():
            yield from places(each, (*path, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(each, (*path, index))


_HOLE = "\x00hole\x00"


def spoiled(draws: Draws) -> tuple[str, bytes]:
    """Return an endpoint, and a body of it with one or two places spoiled."""
    path, body = VALID[draws.below(len(VALID))]
    body = json.loads(json.dumps(body))
    holes: list[str] = []
    for _ in range(1 + draws.below(2)):
        found = list(places(body))
        _spoil(body, found[draws.below(len(found))], draws, holes)
    text = json.dumps(body, ensure_ascii=bool(draws.below(2)))
    mark = json.dumps(_HOLE)
    for each in holes:
        text = text.replace(mark, each, 1)
    data = text.encode("utf-8", "surrogatepass")
    match draws.below(12):
        case 0:
            data = text.encode(("utf-16", "utf-32", "utf-8-sig")[draws.below(3)], "surrogatepass")
        case 1:
            data = data[: draws.below(len(data) + 1)]
        case 2:
            data += (b" ", b"\x00", b"{}", b",", b"\xff", b"\n\n")[draws.below(6)]
    return path, data


def _spoil(body: Any, place: tuple[Any, ...], draws: Draws, holes: list[str]) -> None:
    """Change the body at a place; what is no JSON value becomes a hole, filled later."""
    if not place:
        name = NAMES[draws.below(len(NAMES))]
        body[name] = _HOLE
        holes.append(TEXTS[draws.below(len(TEXTS))])
        return
    inside = body
    for step in place[:-1]:
        inside = inside[step]
    last = place[-1]
    match draws.below(4):
        case 0:
            del inside[last]
        case 1 if isinstance(inside, dict):
            inside[NAMES[draws.below(len(NAMES))]] = inside.pop(last)
        case 2 if isinstance(inside, list):
            inside.extend([inside[last]] * (1 + draws.below(300)))
        case _:
            inside[last] = _HOLE
            holes.append(TEXTS[draws.below(len(TEXTS))])
