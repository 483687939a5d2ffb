"""Grammars of tool calls: forced, named, or in the middle of free text."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from engine.errors import SamplingError
from engine.grammar.spec import ToolChoice
from engine.text.tool_calls import ArgumentsDelta, CallStart, ToolCallParser
from tests.engine.grammar.support import (
    ALL_BYTES,
    EOS_IDS,
    calls,
    compiler,
    drawn,
    push_bytes,
    tool,
)
from tests.engine.text.support import tokenizer

ONE = b'<tool_call>\n{"name": "weather", "arguments": {"city": "a", "days": 3}}\n</tool_call>'
OTHER = b'<tool_call>\n{"name": "x", "arguments": {"city":"b"}}\n</tool_call>'
MODES = [ToolChoice.AUTO, ToolChoice.REQUIRED, "weather"]


def is_legal(spec, text: bytes) -> bool:
    constraint = compiler().compile(spec).start()
    try:
        push_bytes(constraint, text)
    except SamplingError:
        return False
    return True


def may_end(spec, text: bytes) -> bool:
    constraint = compiler().compile(spec).start()
    push_bytes(constraint, text)
    return bool(constraint.is_complete or constraint.mask()[EOS_IDS[0]])


@pytest.mark.parametrize("choice", MODES)
@pytest.mark.parametrize("parallel", [True, False])
def test_calls_end_where_the_form_says(choice: ToolChoice | str, parallel: bool) -> None:
    spec = calls(choice, parallel=parallel)
    constraint = compiler().compile(spec).start()
    for byte in ONE[:-1]:
        constraint.push(ALL_BYTES.index(bytes([byte])))
        assert not constraint.is_complete
    push_bytes(constraint, ONE[-1:])
    assert constraint.is_complete == (not parallel)
    assert constraint.mask()[list(EOS_IDS)].all()
    assert is_legal(spec, ONE + b"\n" + ONE) == parallel
    for more in (b"x", b" ", b"\n\n", b"\nx"):
        assert not is_legal(spec, ONE + more)


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        (b"", True),
        (b"Let me look. <tool", True),
        ("你好 <b> </tool_call> {".encode(), True),
        (b"Let me look.\n" + ONE, True),
        (ONE + b"\n" + OTHER, True),
        (b"<tool_call>x", False),
        (b"<tool_call>{", False),
        (b"a<tool_call><tool_call>", False),
        (b'<tool_call>\n{"name": "nobody', False),
        (b'<tool_call>\n{"name": "x", "arguments": {}', False),
        (b'<tool_call>\n{"name": "x", "arguments": []', False),
        (b'<tool_call>\n{"name":"x"', False),
        (b"\xff", False),
    ],
)
def test_free_text_until_a_call_begins(text: bytes, legal: bool) -> None:
    assert is_legal(calls(ToolChoice.AUTO), text) == legal


def test_free_text_may_end_anywhere_but_in_a_call() -> None:
    spec = calls(ToolChoice.AUTO)
    for text in (b"", b"a", b"<tool_call", b"a\n" + ONE, "é".encode()):
        assert may_end(spec, text)
    for text in (b"<tool_call>", ONE[:-1], "é".encode()[:1]):
        assert not may_end(spec, text)


@pytest.mark.parametrize("choice", MODES[1:])
def test_a_forced_call_begins_at_once(choice: ToolChoice | str) -> None:
    spec = calls(choice)
    assert not is_legal(spec, b"a")
    assert not may_end(spec, b"")
    assert is_legal(spec, ONE)
    assert is_legal(spec, OTHER) == (choice is ToolChoice.REQUIRED)


def test_a_tool_without_a_schema_takes_any_object() -> None:
    spec = calls(ToolChoice.REQUIRED, tools=(tool("any", "{}"),))
    begin = b'<tool_call>\n{"name": "any", "arguments": '
    assert is_legal(spec, begin + b'{"a": [1, null], "b": {}}}\n</tool_call>')
    assert not is_legal(spec, begin + b"1")


def test_a_token_that_ends_the_marker_goes_on_legally_or_is_not_allowed() -> None:
    spec = calls(ToolChoice.AUTO)
    mask_of = {}
    for done in (b"<tool_call", b"a <tool_call"):
        constraint = compiler().compile(spec).start()
        push_bytes(constraint, done)
        mask_of[done] = constraint.mask()
    for mask in mask_of.values():
        for token_id, data in enumerate(ALL_BYTES):
            if data.startswith(b">"):
                assert mask[token_id] == b'>\n{"name": "'.startswith(data)


@pytest.mark.parametrize("choice", MODES)
def test_what_is_drawn_parses_as_calls(choice: ToolChoice | str) -> None:
    grammar, ended = compiler().compile(calls(choice)), 0
    for seed in range(30):
        text, is_over = drawn(grammar, seed, most=250)
        if not is_over:
            continue
        ended += 1
        parser = ToolCallParser()
        deltas = [*parser.push(text.decode()), *parser.finish()]
        names = [delta.name for delta in deltas if isinstance(delta, CallStart)]
        assert len(names) == parser.num_calls == text.count(b"<tool_call>")
        for index in range(parser.num_calls):
            parts = [d.text for d in deltas if isinstance(d, ArgumentsDelta) and d.index == index]
            arguments = json.loads("".join(parts))
            assert arguments.keys() <= {"city", "days"}
            assert len(arguments["city"]) <= 4
            assert arguments.get("days", 1) in range(1, 15)
        if choice is not ToolChoice.AUTO:
            assert names
            assert not re.match(rb"[^<]", text)
    assert ended > 3


def test_a_call_survives_every_cut_into_tokens() -> None:
    grammar = compiler().compile(calls(ToolChoice.AUTO))
    ids = tokenizer().encode("Hello " + ONE.decode())
    constraint = grammar.start()
    for token_id in ids:
        assert constraint.mask()[token_id]
        constraint.push(token_id)
    assert np.flatnonzero(constraint.mask()).size > 1
