from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.cbor import decode, encode
from he_chain.errors import CheckpointError
from he_chain.records.record import (
    COUNTS,
    KINDS,
    Blob,
    Record,
    Seen,
    blob_digest,
    decode_begin,
    decode_record,
    record_digest,
)
from tests.he_chain.report_runs import begin

DIGESTS = st.binary(min_size=32, max_size=32)
NUMBERS = st.integers(0, 1 << 40)
SECONDS = st.floats(0, 1e6, allow_subnormal=False)
BLOBS = st.builds(
    Blob,
    st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True),
    DIGESTS,
    st.integers(1, 1 << 28),
    st.integers(0, 30),
    st.floats(1, 1e30).map(float.hex),
    st.integers(0, 4096),
)
SEEN = st.builds(Seen, st.text("abcxyz_1 ", min_size=1, max_size=10), NUMBERS, st.integers(0, 53))
RECORDS = st.builds(
    Record,
    kind=st.sampled_from(KINDS[:-1]),
    number=st.integers(0, 99_999),
    position=st.integers(0, 5000),
    layer=st.integers(0, 100),
    inputs=st.lists(BLOBS, max_size=2).map(tuple),
    outputs=st.lists(BLOBS, max_size=2).map(tuple),
    counts=st.dictionaries(st.sampled_from(COUNTS), NUMBERS),
    exchanges=NUMBERS,
    bytes_up=NUMBERS,
    bytes_down=NUMBERS,
    cpu_s=SECONDS,
    wall_s=SECONDS,
    peak_rss_bytes=NUMBERS,
    op_seconds=st.dictionaries(st.sampled_from(COUNTS), SECONDS),
    levels=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 99)), max_size=3).map(tuple),
    seen_by_holder=st.lists(SEEN, max_size=2).map(tuple),
    seen_by_evaluator=st.lists(SEEN, max_size=2).map(tuple),
    previous=DIGESTS,
)


def a_record(**changes):
    blob = Blob("00000.x", bytes(32), 10, 1, (2.0**40).hex(), 8)
    settings = {"kind": "lay", "number": 0, "position": 0, "layer": 0, "inputs": ()}
    return Record(**{**settings, "outputs": (blob,), "previous": bytes(32), **changes})


@settings(max_examples=25, deadline=None)
@given(RECORDS)
def test_a_record_reads_as_it_was_written(record):
    assert decode_record(record.encode()) == record
    assert record.digest() == record_digest(record.encode())


def test_a_begin_record_reads_as_it_was_written():
    one = begin(settings={"blind_bits": 18})
    assert decode_begin(one.encode()) == one
    assert begin(gate_bits=14).digest() != one.digest()


def test_fin_has_no_layer():
    record = a_record(kind="fin", layer=None)
    assert decode_record(record.encode()).layer is None
    with pytest.raises(ValueError, match="layer"):
        a_record(kind="fin", layer=3)
    with pytest.raises(ValueError, match="layer"):
        a_record(layer=None)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "jump"},
        {"number": -1},
        {"number": 100_000},
        {"position": -1},
        {"exchanges": -1},
        {"counts": {"rotations": -1}},
        {"counts": {"rotation": 1}},
        {"counts": {"rotations": True}},
        {"op_seconds": {"nap": 1.0}},
        {"cpu_s": float("nan")},
        {"wall_s": -0.5},
        {"levels": ((1, 0),)},
        {"levels": ((65, 1),)},
        {"previous": bytes(31)},
    ],
)
def test_what_is_no_record_is_refused(changes):
    with pytest.raises(ValueError, match="is none"):
        a_record(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "../secret"},
        {"name": ""},
        {"name": ".x"},
        {"digest": b""},
        {"size_bytes": 0},
        {"size_bytes": (1 << 28) + 1},
        {"level": -1},
        {"scale": "inf"},
        {"scale": "-0x1.0000000000000p+1"},
        {"scale": "1.5"},
        {"values": -1},
    ],
)
def test_what_names_no_ciphertext_is_refused(changes):
    with pytest.raises(ValueError, match="is none"):
        replace(Blob("a", bytes(32), 10, 1, (2.0**40).hex()), **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": "none"},
        {"run_id": bytes(15)},
        {"plan_digest": bytes(33)},
        {"gate_bits": 0},
        {"num_layers": 0},
        {"claims": ("two\nlines",)},
        {"libraries": {"numpy": ""}},
        {"settings": {"blind_bits": -1}},
        {"settings": {"blind_bits": True}},
        {"settings": {"": 1}},
    ],
)
def test_what_begins_no_run_is_refused(changes):
    with pytest.raises(ValueError, match="is none"):
        begin(**changes)


def damaged(change):
    value = decode(a_record().encode())
    change(value)
    return encode(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        a_record().encode() + b"\x00",
        a_record().encode()[:-1],
        begin().encode(),
        damaged(lambda v: v.pop("previous")),
        damaged(lambda v: v.update(extra=1)),
        damaged(lambda v: v.update(layer="0")),
        damaged(lambda v: v.update(cpu_s="0x1p-1")),
        damaged(lambda v: v.update(cpu_s="nan")),
        damaged(lambda v: v.update(outputs=[[1, 2, 3]])),
        damaged(lambda v: v.update(outputs=7)),
        damaged(lambda v: v.update(counts=[])),
        damaged(lambda v: v.update(levels=[[1]])),
        bytes(70_000),
    ],
    ids=str,
)
def test_damaged_records_are_refused(data):
    with pytest.raises(CheckpointError):
        decode_record(data)


def test_a_record_that_is_too_long_is_not_written():
    seen = tuple(Seen(f"tensor-{i}", i, 53) for i in range(8000))
    with pytest.raises(ValueError, match="at most"):
        a_record(seen_by_holder=seen).encode()


def test_digests_of_records_and_ciphertexts_never_meet():
    assert record_digest(b"same") != blob_digest(b"same")
