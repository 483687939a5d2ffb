from __future__ import annotations

from dataclasses import replace
from functools import partial

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.admission import Admission, decode_admission
from crypto.checkpoint import (
    CHECKPOINT_TYPE,
    Checkpoint,
    Cosignature,
    checkpoint_digest,
    decode_checkpoint,
    decode_cosignature,
)
from crypto.cose import decode_sign1, sign1
from crypto.errors import FormatError
from crypto.event import Event, ReplacedLog, decode_event
from crypto.evidence import MAX_INTEGER, MAX_OBJECT_BYTES, MAX_SEED, SEED_SOURCES
from crypto.signer import SoftwareSigner
from crypto.sm2 import generate
from crypto.sm3 import sm3
from crypto.statement import (
    COVERS_ALL,
    FINISH_REASONS,
    OUTCOMES,
    RESIDENCIES,
    Statement,
    decode_statement,
)

DECODE = {
    "statement": decode_statement,
    "admission": decode_admission,
    "checkpoint": decode_checkpoint,
    "cosignature": decode_cosignature,
    "event": decode_event,
}
CLASSES = {
    "statement": Statement,
    "admission": Admission,
    "checkpoint": Checkpoint,
    "cosignature": Cosignature,
    "event": Event,
}


def unpacked(value):
    """Return a value of a vector with its byte strings."""
    if isinstance(value, str) and value.startswith("0x"):
        return bytes.fromhex(value[2:])
    if isinstance(value, list):
        return [unpacked(element) for element in value]
    if isinstance(value, dict):
        return {name: unpacked(member) for name, member in value.items()}
    return value


def built(vector):
    """Return the object that a vector describes."""
    fields = unpacked(vector["fields"])
    if vector["type"] == "statement":
        fields["prompt_tokens"], fields["output_tokens"] = fields.pop("tokens")
        fields["earlier_size"], fields["earlier_root"] = fields.pop("earlier")
        fields["trace_shape"] = tuple(fields["trace_shape"])
        optional = ("nonce", "line", "release", "release_payload", "template_root")
        fields = dict.fromkeys(optional) | fields
    if vector["type"] == "admission":
        fields = {"nonce": None} | fields
    if "replaces" in fields:
        log_id, size, root = fields["replaces"]
        fields["replaces"] = ReplacedLog(log_id=log_id, size=size, root=root)
    return CLASSES[vector["type"]](**fields)


def test_valid_vectors(load_vectors):
    vectors = load_vectors("evidence.json")["valid"]
    assert {vector["type"] for vector in vectors} == set(DECODE)
    for vector in vectors:
        data = bytes.fromhex(vector["data"])
        assert DECODE[vector["type"]](data) == built(vector), vector["id"]
        assert built(vector).encode() == data, vector["id"]


def test_cbor2_writes_the_same_bytes(load_vectors):
    file = load_vectors("evidence.json")
    for vector in file["valid"]:
        entries = {file["numbers"][n]: v for n, v in unpacked(vector["fields"]).items()}
        assert cbor2.dumps(entries, canonical=True).hex() == vector["data"], vector["id"]


def test_invalid_vectors(load_vectors):
    vectors = load_vectors("evidence_invalid.json")["tests"]
    assert len({vector["id"] for vector in vectors}) == len(vectors) > 150
    for vector in vectors:
        with pytest.raises(FormatError) as caught:
            DECODE[vector["type"]](bytes.fromhex(vector["data"]))
        found = (caught.value.rule, caught.value.offset)
        assert found == (vector["rule"], vector["offset"]), vector["id"]


def test_each_rule_of_the_specification_has_a_vector(load_vectors):
    from tests.crypto.test_crypto_readme import table_after

    found = {vector["rule"] for vector in load_vectors("evidence_invalid.json")["tests"]}
    assert {row[0] for row in table_after("evidence rule")} <= found


digests = partial(st.binary, min_size=32, max_size=32)
ids = partial(st.binary, min_size=16, max_size=16)
numbers = partial(st.integers, 0, MAX_INTEGER)
names = partial(st.text, st.characters(min_codepoint=32, max_codepoint=126), min_size=1)
parameters = st.dictionaries(
    st.from_regex("[a-z0-9_]{1,40}", fullmatch=True),
    st.integers(-MAX_INTEGER, MAX_INTEGER),
    max_size=32,
)


@st.composite
def statements(draw):
    sequence = draw(st.integers(1, MAX_INTEGER))
    started = draw(numbers())
    release = st.tuples(
        st.from_regex("[a-z0-9][a-z0-9._-]{0,63}", fullmatch=True),
        st.integers(1, MAX_INTEGER),
        digests(),
    )
    line, number, payload = draw(st.just((None, None, None)) | release)
    return Statement(
        issuer=draw(names(max_size=64)),
        log_id=draw(digests()),
        sequence=sequence,
        admission=draw(st.integers(0, sequence - 1)),
        started_ms=started,
        ended_ms=draw(st.integers(started, MAX_INTEGER)),
        nonce=draw(st.none() | st.binary(min_size=16, max_size=64)),
        profile="windhover/generate;v=1",
        outcome=draw(st.sampled_from(OUTCOMES)),
        model_digest=draw(digests()),
        line=line,
        release=number,
        release_payload=payload,
        load_verdict=draw(st.sampled_from(("signed", "unsigned"))),
        mode=draw(st.sampled_from(("production", "dev"))),
        software_digest=draw(digests()),
        numerics="wh1",
        kernel_path=draw(names(max_size=64)),
        residency=draw(st.sampled_from(RESIDENCIES)),
        write_xor_execute=draw(st.sampled_from(("locked", "open"))),
        principal=draw(ids()),
        tokenizer_root=draw(digests()),
        template_root=draw(st.none() | digests()),
        parameters=draw(parameters),
        seed=draw(st.integers(0, MAX_SEED)),
        seed_source=draw(st.sampled_from(SEED_SOURCES)),
        commitments={
            name: draw(digests())
            for name in ("request", "prompt_ids", "transcript", "output_ids", "trace")
        },
        prompt_tokens=draw(numbers()),
        output_tokens=draw(numbers()),
        finish_reason=draw(st.sampled_from(FINISH_REASONS)),
        trace_shape=draw(st.just((0, 0, 0)) | st.tuples(*[st.integers(1, MAX_INTEGER)] * 3)),
        trust_digest=draw(digests()),
        revocation_sequence=draw(numbers()),
        earlier_size=draw(st.integers(0, sequence)),
        earlier_root=draw(digests()),
        coverage=draw(st.integers(0, COVERS_ALL)),
    )


@settings(deadline=None, max_examples=60)
@given(statements())
def test_round_trip(statement):
    data = statement.encode()
    assert decode_statement(data) == statement
    assert decode_statement(data).encode() == data


@settings(deadline=None, max_examples=60)
@given(statements(), st.data())
def test_a_changed_byte_gives_another_statement_or_none(statement, data):
    written = bytearray(statement.encode())
    place = data.draw(st.integers(0, len(written) - 1))
    written[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        read = decode_statement(written)
    except FormatError:
        return
    assert read != statement


def test_what_a_reader_would_refuse_is_not_written(load_vectors):
    valid = {v["id"]: built(v) for v in load_vectors("evidence.json")["valid"]}
    for name, change, rule in (
        ("statement-full", {"admission": 12}, "claim-admission"),
        ("statement-full", {"line": None}, "claim-release"),
        ("statement-full", {"commitments": {}}, "missing-key"),
        ("admission", {"seed_source": "luck"}, "claim-choice"),
        ("checkpoint", {"size": 0}, "value-range"),
        ("cosignature", {"root": b""}, "value-range"),
        ("boot", {"next_key": bytes(91)}, "claim-event"),
    ):
        with pytest.raises(ValueError, match=rule):
            replace(valid[name], **change).encode()


def test_a_statement_is_no_admission_and_no_checkpoint(load_vectors):
    for vector in load_vectors("evidence.json")["valid"]:
        data = bytes.fromhex(vector["data"])
        for kind, decode in DECODE.items():
            if kind != vector["type"]:
                with pytest.raises(FormatError):
                    decode(data)


def test_a_checkpoint_is_named_by_its_object():
    said = Checkpoint(
        issuer="a", log_id=bytes(32), size=1, root=bytes(32), time_ms=0, previous=bytes(32)
    )
    signed = sign1(said.encode(), typ=CHECKPOINT_TYPE, signer=SoftwareSigner(generate()))
    read = decode_sign1(signed, max_bytes=MAX_OBJECT_BYTES)
    assert decode_checkpoint(read.payload) == said
    assert checkpoint_digest(signed) == sm3(b"windhover/checkpoint-object;v=1\0" + signed)
