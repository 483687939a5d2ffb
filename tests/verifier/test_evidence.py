"""What the appliance's side writes and refuses, this side reads and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crypto import cbor
from crypto.admission import decode_admission
from crypto.checkpoint import decode_checkpoint
from crypto.commitment import commitment, seed_of_nonce
from crypto.errors import FormatError
from crypto.statement import decode_statement
from crypto.transcript import decode_transcript
from tests.verifier.bundle_case import NONCE, Made, commit, sm3
from tests.verifier.step_cases import BROKEN, CASES
from verifier import objects, transcript
from verifier.cose import decode_sign1
from verifier.errors import MalformedError

DATA = Path(__file__).parents[1] / "data" / "crypto"
MADE = Made()
PARTS = MADE.objects()


def payload(name):
    return decode_sign1(PARTS[name], objects.MAX_OBJECT_BYTES).payload


@pytest.mark.parametrize(
    ("name", "decode", "read"),
    [
        ("statement", decode_statement, objects.read_statement),
        ("admission", decode_admission, objects.read_admission),
        ("checkpoint", decode_checkpoint, objects.read_checkpoint),
    ],
)
def test_objects_are_read_alike(name, decode, read):
    assert decode(payload(name)).encode() == payload(name)
    assert cbor.encode(read(payload(name))) == payload(name)


def test_statements_are_refused_alike():
    base = cbor.decode(payload("statement"))
    for key, values in BROKEN.items():
        for value in values:
            claims = {k: v for k, v in (base | {key: value}).items() if v is not ...}
            with pytest.raises(FormatError):
                decode_statement(cbor.encode(claims))


def test_transcripts_are_read_and_refused_alike():
    data = MADE.texts["transcript"]
    assert decode_transcript(data).encode() == transcript.encode(transcript.decode(data)) == data
    broken = [param.values[3] for param in CASES if param.values[1] == "transcript-format"]
    assert len(broken) > 15
    for change in broken:
        made = Made()
        change(made)
        with pytest.raises(FormatError):
            decode_transcript(made.texts["transcript"])


def test_commitments_and_seeds_are_the_same():
    for name, text in MADE.texts.items():
        assert commitment(name, MADE.salts[name], text) == commit(name, MADE.salts[name], text)
    digest = sm3(b"windhover/seed;v=1\0", NONCE)
    assert seed_of_nonce(NONCE) == int.from_bytes(digest[:8], "little")


READERS = {
    "statement": objects.read_statement,
    "admission": objects.read_admission,
    "checkpoint": objects.read_checkpoint,
    "cosignature": objects.read_cosignature,
}


def vectors(name):
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def test_the_vectors_of_objects():
    document = vectors("evidence")
    valid = [vector for vector in document["valid"] if vector["type"] in READERS]
    invalid = [test for test in vectors("evidence_invalid")["tests"] if test["type"] in READERS]
    assert len(valid) > 5
    assert len(invalid) > 100
    for vector in valid:
        data = bytes.fromhex(vector["data"])
        claims = READERS[vector["type"]](data)
        for name, value in vector["fields"].items():
            held = claims.get(document["numbers"][name])
            assert shown(held) == (shown(value)), (vector["id"], name)
    for vector in invalid:
        with pytest.raises(MalformedError):
            READERS[vector["type"]](bytes.fromhex(vector["data"]))


def shown(value):
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, list | tuple):
        return [shown(part) for part in value]
    if isinstance(value, dict):
        return {name: shown(part) for name, part in value.items()}
    return value


def test_the_vectors_of_transcripts():
    document = vectors("transcript")
    for vector in document["valid"]:
        data = bytes.fromhex(vector["data"])
        entries = transcript.decode(data)
        assert transcript.encode(entries) == data
        assert [[p[3], p[0], p[2], text.hex()] for p, text in entries.items()] == vector["entries"]
    assert len(document["invalid"]) > 20
    for vector in document["invalid"]:
        with pytest.raises(MalformedError):
            transcript.decode(bytes.fromhex(vector["data"]))
