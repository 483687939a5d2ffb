"""The vectors of the loader's policy, where a verifier asks the same question."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crypto import cbor
from tests.verifier.bundle_case import Made, key_table, sm3
from verifier.cose import decode_sign1

DOCUMENT = json.loads(
    (Path(__file__).parents[1] / "data" / "crypto" / "policy.json").read_text(encoding="utf-8")
)
REASONS = {
    "bad-signature": "release-signature",
    "revocations-missing": "no-revocations",
    "revocations-unknown-signer": "revocations-key",
    "revocations-bad-signature": "revocations-signature",
    "revocations-self-revoked": "revocations-key",
    "revocations-key-not-yet-valid": "revocations-key",
    "revocations-key-expired": "revocations-key",
    "revocations-not-yet-valid": "revocations-not-yet-valid",
    "revocations-old": "revocations-old",
    "revocations-stale": "revocations-stale",
    "model-revoked": "model-revoked",
    "unknown-signer": "release-unknown-signer",
    "unknown-line": "release-unknown-line",
    "wrong-line": "release-signer",
    "key-revoked": "release-key-revoked",
    "key-expired": "release-key-expired",
    "key-not-yet-valid": "release-key-not-yet-valid",
    "threshold": "release-threshold",
    "not-yet-valid": "release-not-yet-valid",
    "expired": "release-expired",
    "release-too-old": "release-too-old",
    None: None,
}


def signatures(vector):
    return [bytes.fromhex(DOCUMENT["signatures"][name]) for name in vector["signatures"]]


def payloads(vector):
    return {decode_sign1(data, 4096).payload for data in signatures(vector)}


def applies(vector):
    """Return whether it has one release, and nothing that a verifier does not know of."""
    no_floors = vector["floors"] == {"releases": {}, "revocation_sequence": 0}
    return vector.get("reason") in REASONS and len(payloads(vector)) == 1 and no_floors


VECTORS = [vector for vector in DOCUMENT["tests"] if applies(vector)]


def test_most_reasons_are_reached():
    reached = {REASONS[vector.get("reason")] for vector in VECTORS}
    assert len(VECTORS) > 40
    assert set(REASONS.values()) - reached <= {"no-revocations"}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_steps_22_to_25(vector):
    made = Made()
    (payload,) = payloads(vector)
    release = cbor.decode(payload)
    now = 1000 * vector["now"]
    made.statement |= {-70205: now, -70206: now, -70101: bytes.fromhex(vector["model_digest"])}
    made.statement |= {key: release[key] for key in (-70102, -70103)}
    made.statement[-70211] = sm3(b"windhover/release-payload;v=1\0", payload)
    made.parts["releases"] = signatures(vector)
    if vector["revocations"]:
        made.parts["revocations"] = bytes.fromhex(DOCUMENT["revocations"][vector["revocations"]])
    made.trust = DOCUMENT["trust"][vector["trust"]] + "\n" + key_table("attest", "attest")
    report = made.verify(at=now)
    found = {step.reason for step in report.steps if step.rung == "A3" and step.reason}
    expected = REASONS[vector.get("reason")]
    assert expected in found if expected else not found
