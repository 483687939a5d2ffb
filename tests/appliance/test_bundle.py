"""Bundles: what they hold, what is refused, and what is left when one is handed on in part."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.bundle import MAX_REQUEST_BYTES, Bundle, decode_bundle
from crypto.cbor import decode, encode
from crypto.commitment import NAMES
from crypto.errors import FormatError
from verifier.expectations import Expectations
from verifier.verify import verify

FULL = Bundle(
    statement=b"statement",
    checkpoint=b"checkpoint",
    inclusion=(bytes(32), b"\1" * 32),
    admission=b"admission",
    admission_inclusion=(),
    consistency=(b"\2" * 32,) * 128,
    cosignatures=(b"one", b"two"),
    releases=(b"release",),
    revocations=b"revocations",
    salts={name: bytes([n + 7]) * 32 for n, name in enumerate(NAMES)},
    texts={name: b"" if name == "trace" else name.encode() for name in NAMES},
)


def is_read_by_the_verifier(data: bytes) -> bool:
    """Say whether step 1 passes: the bundle is as SPEC.md section 5 has it."""
    report = verify(data, b"version = 1\n", Expectations())
    return report.steps[0].result == "passed"


def test_round_trip_and_the_verifier_reads_it_too():
    for bundle in (FULL, Bundle(statement=b"s"), replace(FULL, texts={"trace": bytes(32)})):
        data = bundle.encode()
        assert decode_bundle(data) == bundle
        assert decode_bundle(data).encode() == data
        assert is_read_by_the_verifier(data)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"version": 2}, "value-range"),
        ({"version": True}, "value-type"),
        ({"statement": b""}, "value-range"),
        ({"statement": "s"}, "value-type"),
        ({"statement": bytes(65_537)}, "value-range"),
        ({"statement": None}, "missing-key"),
        ({"version": None}, "missing-key"),
        ({"comment": b""}, "unknown-key"),
        ({"trace": b""}, "unknown-key"),
        ({"inclusion": [bytes(31)]}, "value-range"),
        ({"inclusion": [bytes(32)] * 65}, "value-range"),
        ({"inclusion": [1]}, "value-type"),
        ({"inclusion": bytes(32)}, "value-type"),
        ({"consistency": [bytes(32)] * 129}, "value-range"),
        ({"releases": [b""]}, "value-range"),
        ({"releases": [b"r"] * 17}, "value-range"),
        ({"cosignatures": {}}, "value-type"),
        ({"salts": []}, "value-type"),
        ({"salts": {"request": bytes(31)}}, "value-range"),
        ({"salts": {"trace_root": bytes(32)}}, "unknown-key"),
        ({"salts": {"request": "s"}}, "value-type"),
        ({"trace_root": bytes(31)}, "value-range"),
        ({"request": bytes(MAX_REQUEST_BYTES + 1)}, "value-range"),
        ({"request": "text"}, "value-type"),
    ],
)
def test_what_is_no_bundle_is_refused(change, rule):
    entries = {"version": 1, "statement": b"s"} | change
    data = encode({name: value for name, value in entries.items() if value is not None})
    with pytest.raises(FormatError) as caught:
        decode_bundle(data)
    assert caught.value.rule == rule


def test_what_a_reader_would_refuse_is_not_written():
    with pytest.raises(ValueError, match="value-range"):
        replace(FULL, inclusion=(b"",)).encode()


@settings(deadline=None, max_examples=40)
@given(st.sets(st.sampled_from(NAMES)))
def test_what_is_not_kept_is_gone_and_all_else_is_as_it_was(keep):
    copy = FULL.strip(keep)
    assert copy.salts.keys() == copy.texts.keys() == keep
    for name in keep:
        assert copy.salts[name] == FULL.salts[name]
        assert copy.texts[name] == FULL.texts[name]
    assert replace(copy, salts=FULL.salts, texts=FULL.texts) == FULL
    data = copy.encode()
    for name in set(NAMES) - keep:
        assert FULL.salts[name] not in data
    assert ("salts" in decode(data)) == bool(keep)


def test_a_name_that_no_commitment_has_is_refused():
    with pytest.raises(ValueError, match="name"):
        FULL.strip(["trace_root"])
