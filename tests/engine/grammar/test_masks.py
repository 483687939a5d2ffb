"""Masks: exactly the tokens that go on legally, whatever the tokens are, everywhere the same."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ConfigError, GrammarError, SamplingError
from engine.grammar.compile import GrammarCompiler
from engine.grammar.grammar import Grammar
from engine.grammar.spec import GrammarSpec, JsonObject, JsonSchema, ToolChoice
from tests.engine.grammar.support import (
    ALL_BYTES,
    CONTROL,
    EOS_IDS,
    VOCAB_SIZE,
    bytes_of,
    calls,
    compiler,
    drawn,
    of_schema,
    push_bytes,
)
from tests.engine.text.support import tokenizer

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "b", None, 1.5]}, "maxItems": 3},
    },
    "required": ["name"],
    "additionalProperties": {"type": "boolean"},
}
SPECS: dict[str, GrammarSpec] = {
    "object": JsonObject(),
    "schema": JsonSchema(json.dumps(PERSON)),
    "auto": calls(ToolChoice.AUTO),
    "required": calls(ToolChoice.REQUIRED),
    "named": calls("x", parallel=False),
}


def can_follow(grammar: Grammar, done: bytes) -> np.ndarray:
    """Which ids may follow some bytes, found byte by byte with the 256 tokens of one byte."""
    allowed = np.zeros(VOCAB_SIZE, np.bool_)
    first = set[int]()
    # Tokens by their length: what does not begin legally by one byte does not by more.
    for token_id in sorted(range(VOCAB_SIZE), key=lambda i: len(ALL_BYTES[i])):
        data = ALL_BYTES[token_id]
        if not data or (len(data) > 1 and data[0] not in first):
            continue
        constraint = grammar.start()
        push_bytes(constraint, done)
        try:
            push_bytes(constraint, data)
        except SamplingError:
            continue
        allowed[token_id] = True
        first.add(data[0])
    return allowed


def texts(name: str) -> Iterator[bytes]:
    """Beginnings of answers at which tokens of several bytes matter."""
    yield b""
    if name == "object":
        yield from (b"{", b'{"', b'{"a', b'{"a":', b'{"a": [', b'{"a":1', b'{"a":\xf0\x9f'[:5])
    elif name == "schema":
        yield from (
            b'{"',
            b'{"name": "',
            b'{"name":"x"',
            b'{"name":"x", "age": 1',
            b'{"name":"\xe4',
        )
    else:
        begin = b"Hi <to" if name == "auto" else b"<to"
        head = begin + b'ol_call>\n{"name": "'
        yield from (begin, begin + b"ol_call", begin + b"ol_call>", begin + b"ol_call>\n", head)
        yield from (
            head + b'x", "arguments": {"city": "a"',
            head + b'x", "arguments": {"city": "a"}',
        )
        yield head + b'x", "arguments": {"city": "a"}}\n</tool_call>'[:-1]


@pytest.mark.parametrize("name", SPECS)
def test_a_mask_is_every_token_whose_bytes_go_on_legally(name: str) -> None:
    grammar = compiler().compile(SPECS[name])
    for done in texts(name):
        constraint = grammar.start()
        push_bytes(constraint, done)
        mask = constraint.mask()
        mask[list(EOS_IDS)] = False
        assert np.array_equal(mask, can_follow(grammar, done)), done


@pytest.mark.parametrize("name", SPECS)
def test_ids_without_text_are_never_allowed(name: str) -> None:
    grammar = compiler().compile(SPECS[name])
    silent = [i for i in range(VOCAB_SIZE) if not ALL_BYTES[i] and i not in EOS_IDS]
    assert set(silent) >= {*range(419, VOCAB_SIZE), *(CONTROL - {*EOS_IDS})}
    for seed in range(5):
        random = np.random.default_rng(seed)
        constraint = grammar.start()
        for _ in range(40):
            mask = constraint.mask()
            assert mask.shape == (VOCAB_SIZE,)
            assert not mask[silent].any()
            assert mask[EOS_IDS[0]] == mask[EOS_IDS[1]]
            constraint.push(int(random.choice(np.flatnonzero(mask))))
            if constraint.is_complete:
                break


@pytest.mark.parametrize(
    ("schema", "text", "may_end", "must_end"),
    [
        ({}, b"1", True, False),
        ({"type": "integer"}, b"-", False, False),
        ({"type": "string"}, b'"a', False, False),
        ({"type": "string"}, b'"a"', True, True),
        ({"type": "object"}, b"{", False, False),
        ({"type": "object"}, b"{}", True, True),
        ({"enum": ["a", "b"]}, b'"b"', True, True),
        ({"type": "integer", "maximum": 12, "minimum": 1}, b"12", True, True),
        ({"type": "integer", "maximum": 12, "minimum": 1}, b"1", True, False),
        (PERSON, b'{"name":"', False, False),
        (PERSON, b'{"name":""', False, False),
    ],
)
def test_an_answer_ends_exactly_where_it_may(
    schema: object, text: bytes, may_end: bool, must_end: bool
) -> None:
    constraint = of_schema(schema).start()
    push_bytes(constraint, text)
    assert constraint.is_complete == must_end
    assert constraint.mask()[list(EOS_IDS)].all() == may_end
    if may_end:
        constraint.push(EOS_IDS[1])
        assert constraint.is_complete
    else:
        with pytest.raises(SamplingError):
            constraint.push(EOS_IDS[0])


def test_nothing_begins_with_the_end_or_with_space() -> None:
    for name in ("object", "schema", "required", "named"):
        mask = compiler().compile(SPECS[name]).start().mask()
        first = {ALL_BYTES[i][:1] for i in np.flatnonzero(mask)}
        assert first == ({b"{"} if name in ("object", "schema") else {b"<"})


def test_white_space_is_one_space_after_comma_and_colon() -> None:
    grammar = of_schema({"type": "object", "additionalProperties": {"type": "array"}})
    push_bytes(grammar.start(), b'{"a": [1, 2],"b":[3,[], {"c": 1}]}')
    for text in (
        b" {",
        b"{ ",
        b'{"a" ',
        b'{"a":  ',
        b'{"a":\n',
        b'{"a":[ ',
        b'{"a":[1 ',
        b'{"a":[1,  ',
    ):
        with pytest.raises(SamplingError):
            push_bytes(grammar.start(), text)


def test_members_come_in_the_order_of_the_schema() -> None:
    schema = {"properties": {"b": {"const": 1}, "a": {"const": 2}}, "type": "object"}
    grammar = of_schema({**schema, "additionalProperties": False})
    push_bytes(grammar.start(), b'{"b":1,"a":2}')
    push_bytes(grammar.start(), b'{"a":2}')
    with pytest.raises(SamplingError):
        push_bytes(grammar.start(), b'{"a":2,')


def test_a_name_cannot_be_spelt_in_another_way() -> None:
    grammar = of_schema({"type": "object", "properties": {"a": {"type": "null"}}})
    for text in (b'{"a":1', b'{"\\u0061":1', b'{"\\u0061":null'):
        with pytest.raises(SamplingError):
            push_bytes(grammar.start(), text)
    push_bytes(grammar.start(), b'{"a":null,"b\\n":1')


def test_constraints_of_one_grammar_do_not_meet() -> None:
    grammar = compiler().compile(JsonObject())
    one, other = grammar.start(), grammar.start()
    before = other.mask()
    push_bytes(one, b'{"a')
    assert np.array_equal(other.mask(), before)


def test_ids_that_end_an_answer_must_be_there() -> None:
    for eos_ids in ((), (VOCAB_SIZE,), (-1,)):
        with pytest.raises(ConfigError):
            GrammarCompiler(tokenizer(), VOCAB_SIZE, eos_ids)


def fingerprints() -> dict[str, str]:
    """Return a digest of all masks along some answers of each specification."""
    found = {}
    for name, spec in SPECS.items():
        digest = hashlib.sha256()
        random = np.random.default_rng(7)
        for _ in range(4):
            constraint = compiler().compile(spec).start()
            for _ in range(30):
                mask = constraint.mask()
                digest.update(np.packbits(mask).tobytes())
                constraint.push(int(random.choice(np.flatnonzero(mask))))
                if constraint.is_complete:
                    break
        found[name] = digest.hexdigest()
    return found


def test_masks_are_the_same_again_and_in_another_process() -> None:
    mine = fingerprints()
    assert fingerprints() == mine
    program = (
        "import json, tests.engine.grammar.test_masks as t; print(json.dumps(t.fingerprints()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == mine


names = st.sampled_from(["a", "b", "the quick", "é", 'q"', "x\n"])
scalars: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.sampled_from([{"type": "null"}, {"type": "boolean"}, {"type": ["integer", "null"]}]),
    st.builds(
        lambda low, size: {"type": "integer", "minimum": low, "maximum": low + size},
        st.integers(-50, 50),
        st.integers(0, 900),
    ),
    st.builds(
        lambda low, size: {"type": "number", "minimum": low, "exclusiveMaximum": low + size},
        st.integers(-9, 9),
        st.integers(1, 30),
    ),
    st.builds(lambda n: {"type": "integer", "multipleOf": n, "maximum": 500}, st.integers(1, 40)),
    st.builds(
        lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
        st.integers(0, 3),
        st.integers(0, 4),
    ),
    st.sampled_from(
        [
            {"type": "string", "pattern": "^[a-z]{2,4}$"},
            {"type": "string", "pattern": "o"},
            {"type": "string", "format": "date"},
            {"type": "string", "format": "uuid"},
        ]
    ),
    st.builds(
        lambda values: {"enum": values},
        st.lists(st.sampled_from([1, -2.5, "a", "é\n", None, True, [1], {"k": "v"}]), min_size=1),
    ),
)


def compound(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    objects = st.builds(
        lambda members, required, more: {
            "type": "object",
            "properties": members,
            "required": sorted(required & members.keys()),
            "additionalProperties": more,
        },
        st.dictionaries(names, inner, max_size=3),
        st.sets(names),
        st.one_of(st.booleans(), inner),
    )
    arrays = st.builds(
        lambda items, first, low, more: {
            "type": "array",
            "items": items,
            "prefixItems": [first],
            "minItems": low,
            "maxItems": low + more,
        },
        inner,
        inner,
        st.integers(0, 2),
        st.integers(0, 2),
    )
    options = st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=3))
    both = st.builds(lambda one, other: {"allOf": [one, other]}, inner, inner)
    referred = st.builds(lambda schema: {"allOf": [schema]}, inner)
    return st.one_of(objects, arrays, options, both, referred)


@settings(deadline=None, max_examples=100)
@given(schema=st.recursive(scalars, compound, max_leaves=6), seed=st.integers(0, 2**32 - 1))
def test_what_is_drawn_under_a_mask_is_valid(schema: dict[str, Any], seed: int) -> None:
    try:
        grammar = of_schema(schema)
    except GrammarError:
        return
    valid = jsonschema_rs.validator_for(schema, validate_formats=False)
    for turn in range(3):
        try:
            text, ended = drawn(grammar, seed + turn)
        except SamplingError:
            continue
        if ended:
            assert valid.is_valid(json.loads(text)), (text, schema)


def test_random_answers_of_a_common_schema_end_and_are_valid() -> None:
    valid = jsonschema_rs.validator_for(PERSON)
    grammar, ended = of_schema(PERSON), 0
    for seed in range(40):
        text, is_over = drawn(grammar, seed)
        if is_over:
            ended += 1
            assert valid.is_valid(json.loads(text)), text
    assert ended > 10


def test_any_json_is_json() -> None:
    grammar, ended = of_schema({}), 0
    for seed in range(60):
        text, is_over = drawn(grammar, seed)
        if is_over:
            ended += 1
            json.loads(text)
    assert ended > 10


def test_bytes_of_special_marks_are_plain_bytes() -> None:
    # llguidance writes special tokens as 0xFF and a name; a token of that byte is none.
    byte = ALL_BYTES.index(b"\xff")
    for name in SPECS:
        assert not compiler().compile(SPECS[name]).start().mask()[byte]
    assert bytes_of(byte) == b"\xff"
