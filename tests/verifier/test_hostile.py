"""No input raises or reaches the last guard, and no alteration passes."""

from __future__ import annotations

import json
import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto import cbor
from tests.verifier.bundle_case import NOW, Made, trust_text
from verifier.errors import MalformedError, UsageError
from verifier.expectations import Expectations
from verifier.json_text import parse
from verifier.trust import Trust
from verifier.verify import verify

MADE = Made()
PARTS = MADE.objects()
BUNDLE = cbor.encode(PARTS)
TRUST = trust_text().encode()
READ = Trust(TRUST)
EXPECTED = Expectations(at=NOW)
CACHE: dict = {}
HEADS = [0x00, 0x18, 0x1B, 0x3A, 0x40, 0x5B, 0x60, 0x7B, 0x80, 0x9B, 0xA0, 0xBB, 0xC0, 0xF6, 0xFF]


def judged(data, expected=EXPECTED):
    report = verify(data, READ, expected, CACHE)
    assert report.reason != "internal"
    assert report.verdict in {"PASS", "FAIL", "INCOMPLETE"}
    json.loads(report.as_json())
    assert report.as_text().isascii()
    return report


def test_the_bundle_passes():
    assert judged(BUNDLE).verdict == "PASS"


@settings(max_examples=300)
@given(st.integers(0, len(BUNDLE) - 1), st.integers(1, 255))
def test_no_altered_byte_passes(at, by):
    data = bytearray(BUNDLE)
    data[at] ^= by
    assert judged(bytes(data)).verdict != "PASS"


@settings(max_examples=150)
@given(st.integers(0, len(BUNDLE) - 1), st.sampled_from(HEADS), st.binary(max_size=9))
def test_no_spliced_bytes_pass(at, head, rest):
    for end in (at, at + 1, at + 1 + len(rest)):
        data = BUNDLE[:at] + bytes([head]) + rest + BUNDLE[end:]
        assert data == BUNDLE or judged(data).verdict != "PASS"


def test_no_cut_passes():
    for at in range(0, len(BUNDLE), 7):
        assert judged(BUNDLE[:at]).reason == "bundle-format"
    assert judged(BUNDLE + b"\0").reason == "bundle-format"


VALUES = st.recursive(
    st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=40) | st.text(max_size=8) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.integers(-5, 5) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from(sorted(PARTS)), VALUES)
def test_any_value_in_a_part(name, value):
    report = judged(cbor.encode(PARTS | {name: value}))
    assert report.verdict != "PASS" or value == PARTS[name] or (name == "releases" and value == [])


@given(st.sampled_from(sorted(MADE.statement)), VALUES)
def test_any_value_of_a_claim(key, value):
    made = MADE.copy()
    made.statement[key] = value
    report = verify(made.bundle(), READ, EXPECTED)
    assert report.reason != "internal"


@given(st.binary(max_size=300))
def test_any_bytes(data):
    assert judged(data).reason == "bundle-format"
    for expected in (
        Expectations(at=NOW, response=data),
        Expectations(at=NOW, request=data),
        Expectations(at=NOW, response=data, prefix=True),
    ):
        judged(BUNDLE, expected)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "index", "delta", "message", "tool_calls", "function"])
            | st.sampled_from(["name", "arguments", "content", "finish_reason", "text", "data"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150)
@given(JSON, st.booleans(), st.booleans())
def test_any_response(value, streamed, prefix):
    text = json.dumps({"choices": value, "data": value}).encode()
    response = b"data: " + text + b"\n\ndata: [DONE]\n\n" if streamed else text
    judged(BUNDLE, Expectations(at=NOW, response=response, prefix=prefix))


@given(st.binary(max_size=80))
def test_json_agrees_with_the_standard_library_or_refuses(data):
    try:
        value = parse(data)
    except MalformedError:
        return
    assert value == json.loads(data.decode(), parse_int=float)


@given(st.integers(0, len(TRUST) - 1), st.integers(0, 255))
def test_any_trust_file(at, byte):
    data = TRUST[:at] + bytes([byte]) + TRUST[at + 1 :]
    try:
        report = verify(BUNDLE, data, EXPECTED)
    except UsageError:
        return
    assert report.reason != "internal"


def test_lengths_are_compared_before_anything_is_allocated():
    bombs = [
        bytes.fromhex(head) for head in ("5b00ffffffffffffff", "9b00ffffffffffffff", "bbffffff")
    ]
    tracemalloc.start()
    for bomb in bombs:
        assert judged(bomb + bytes(100)).reason == "bundle-format"
        judged(b"\xa1\x67version" + bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000


@pytest.mark.parametrize("head", [b"\x81", b"\xa1\x00"])
def test_depth_is_bounded(head):
    assert judged(head * 200_000).reason == "bundle-format"


def test_the_last_guard_is_no_pass(monkeypatch):
    def broken(case):
        raise ZeroDivisionError

    monkeypatch.setitem(sys.modules["verifier.verify"].STEPS, 20, broken)
    report = verify(BUNDLE, READ, EXPECTED)
    assert (report.verdict, report.reason, report.exit_code) == ("FAIL", "internal", 1)
