"""The decision: one vector or more for each reason, and what no order or company may change."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.candidates import Candidate
from crypto.cose import decode_sign1
from crypto.errors import PolicyError
from crypto.floors import Floors
from crypto.policy import REASONS, decide, judge, verify_signatures
from crypto.release import decode_release
from crypto.revocations import Revocations, open_revocations
from crypto.trust import TrustFile

README = Path(__file__).parents[2] / "crypto" / "README.md"
NOW = 1_800_000_000
RUNTIME = (1, 2, 3)


class Case:
    """A vector with what it names."""

    def __init__(self, document, vector):
        self.document = document
        self.vector = vector
        self.trust = TrustFile.parse(document["trust"][vector["trust"]].encode())
        floors = vector["floors"]
        self.floors = Floors(floors["releases"], floors["revocation_sequence"])
        self.signatures = [signed(document, name) for name in vector["signatures"]]
        self.model_digest = bytes.fromhex(vector["model_digest"])

    def judged(self, signatures=None):
        """Open the list and judge, with these signatures or those of the vector."""
        name = self.vector["revocations"]
        revocations = None
        if name is not None:
            data = bytes.fromhex(self.document["revocations"][name])
            revocations = open_revocations(
                data, self.trust, floors=self.floors, now=self.vector["now"]
            )
        return judge(
            self.trust,
            form=self.vector["form"],
            model_digest=self.model_digest,
            signatures=self.signatures if signatures is None else signatures,
            revocations=revocations,
            floors=self.floors,
            runtime_version=tuple(self.vector["runtime"]),
            now=self.vector["now"],
        )

    def outcome(self, signatures=None):
        """Return the verdict or the reason."""
        try:
            return self.judged(signatures)
        except PolicyError as refusal:
            return refusal.reason


def signed(document, name):
    sign1 = decode_sign1(bytes.fromhex(document["signatures"][name]), max_bytes=4096)
    return sign1, decode_release(sign1.payload)


@pytest.fixture(scope="module")
def document(load_vectors):
    return load_vectors("policy.json")


@pytest.fixture(scope="module")
def cases(document):
    return [Case(document, vector) for vector in document["tests"]]


@pytest.fixture(scope="module")
def case_of(cases):
    return {case.vector["id"]: case for case in cases}


def described(verdict):
    """Return a verdict in the form of the vectors."""
    release = verdict.release
    return {
        "line": release.line if release else None,
        "release": release.release if release else None,
        "payload_digest": verdict.payload_digest.hex() if verdict.payload_digest else None,
        "key_ids": [key_id.hex() for key_id in verdict.key_ids],
        "ignored_key_ids": [key_id.hex() for key_id in verdict.ignored_key_ids],
        "revocation_sequence": verdict.revocation_sequence,
    }


def test_vectors(cases):
    assert len(cases) > 80
    for case in cases:
        outcome = case.outcome()
        if "verdict" in case.vector:
            assert not isinstance(outcome, str), (case.vector["id"], outcome)
            assert described(outcome) == case.vector["verdict"], case.vector["id"]
            assert outcome.form == case.vector["form"]
            assert outcome.model_digest == case.model_digest
            assert outcome.trust_digest == case.trust.digest
        else:
            assert outcome == case.vector["reason"], case.vector["id"]


def test_every_reason_has_a_vector_and_the_table_is_in_order(document):
    section = README.read_text(encoding="utf-8").partition("### Decision")[2]
    table = section.partition("| reason | refuses |")[2].partition("\n\n")[0]
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == REASONS
    reasons = {vector["reason"] for vector in document["tests"] if "reason" in vector}
    assert reasons == {*REASONS, "revocations-bad-signature"}


def test_the_order_of_signatures_changes_nothing(cases):
    several = [case for case in cases if len(case.signatures) > 1]
    assert len(several) > 20
    for case in several:
        outcomes = {str(case.outcome(list(order))) for order in permutations(case.signatures)}
        assert len(outcomes) == 1, case.vector["id"]


def test_signatures_of_strangers_change_no_outcome(document, cases):
    strangers = [signed(document, "one-5-stranger-altered"), signed(document, "one-5-stranger2")]
    for case in cases:
        if not case.signatures:
            continue  # without any signature they make the difference between unsigned and unknown
        outcome, beside = case.outcome(), case.outcome([*strangers, *case.signatures])
        if isinstance(outcome, str):
            assert beside == outcome, case.vector["id"]
        else:
            # They are listed, and not otherwise seen.
            assert set(beside.ignored_key_ids) >= set(outcome.ignored_key_ids)
            assert replace(beside, ignored_key_ids=outcome.ignored_key_ids) == outcome


def test_any_altered_signature_of_a_known_key_refuses(cases):
    accepted = [case for case in cases if "verdict" in case.vector and case.signatures]
    for case in accepted:
        for index, (sign1, release) in enumerate(case.signatures):
            if case.trust.key(sign1.key_id, "weights") is None:
                continue
            altered = bytearray(sign1.signature)
            altered[index % 64] ^= 0x10
            others = list(case.signatures)
            others[index] = (replace(sign1, signature=bytes(altered)), release)
            assert case.outcome(others) == "bad-signature"


def test_a_release_that_is_not_that_of_its_payload_is_a_mistake(case_of):
    case = case_of["one-signer"]
    ((sign1, release),) = case.signatures
    with pytest.raises(ValueError, match="its payload"):
        case.judged([(sign1, replace(release, release=99))])


def candidate(case, **changed):
    """Return the candidate of a vector with one signature, its release changed."""
    (found,) = verify_signatures(case.trust, case.model_digest, case.signatures)
    release = replace(found.release, **changed)
    return Candidate(release.encode(), release, found.verified_ids, found.unknown_ids)


def decided(case, found, *, now=NOW, revocations=None, floors=None, runtime=RUNTIME, trust=None):
    try:
        return decide(
            trust or case.trust,
            form="sealed",
            model_digest=case.model_digest,
            candidates=[found],
            revocations=revocations,
            floors=floors or Floors(),
            runtime_version=runtime,
            now=now,
        )
    except PolicyError as refusal:
        return refusal.reason


def test_a_verdict_is_reached_again_without_the_signatures(case_of):
    case = case_of["one-signer"]
    found = candidate(case)
    assert decided(case, found) == case.judged()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"floors": Floors({"one": 6})}, "release-too-old"),
        ({"floors": Floors(revocation_sequence=1)}, "revocations-missing"),
        ({"now": NOW + 50}, "expired"),
        ({"trust": b"version = 1\n"}, "unknown-signer"),
        ({"runtime": (0, 0, 9)}, "runtime-too-old"),
    ],
)
def test_what_has_changed_since_the_load_is_seen(case_of, change, reason):
    case = case_of["one-signer"]
    found = candidate(case, expires=NOW + 50)
    assert not isinstance(decided(case, found), str)
    if "trust" in change:
        change = {"trust": TrustFile.parse(change["trust"])}
    assert decided(case, found, **change) == reason


def test_a_list_that_came_later_is_seen(document, case_of):
    case = case_of["one-signer"]
    found = candidate(case)
    (key_id,) = found.verified_ids
    signer_id = bytes.fromhex(document["keys"]["r1"]["key_id"])
    fresh = Revocations(4, NOW, frozenset(), frozenset(), signer_id)
    assert decided(case, found, revocations=fresh).revocation_sequence == 4
    for changed, reason in [
        ({"key_ids": frozenset({key_id})}, "key-revoked"),
        ({"model_digests": frozenset({case.model_digest})}, "model-revoked"),
        ({"issued": NOW + 1}, "revocations-not-yet-valid"),
        ({"signer_id": key_id}, "revocations-unknown-signer"),
    ]:
        assert decided(case, found, revocations=replace(fresh, **changed)) == reason


@settings(deadline=None, max_examples=100)
@given(
    st.tuples(*[st.integers(0, 3)] * 3),
    st.tuples(*[st.integers(0, 3)] * 3),
    st.integers(-2, 2),
    st.none() | st.integers(-1, 2),
    st.integers(1, 4),
    st.integers(0, 4),
)
def test_a_release_passes_exactly_inside_its_bounds(
    case_of, runtime, least_runtime, not_before, expires, release, floor
):
    case = case_of["one-signer"]
    if expires is not None and expires <= not_before:
        expires = not_before + 1
    found = candidate(
        case,
        release=release,
        not_before=NOW + not_before,
        expires=None if expires is None else NOW + expires,
        least_runtime=least_runtime,
    )
    outcome = decided(case, found, runtime=runtime, floors=Floors({"one": floor} if floor else {}))
    as_number = [major * 16 + minor * 4 + patch for major, minor, patch in (runtime, least_runtime)]
    if not_before > 0:
        assert outcome == "not-yet-valid"
    elif expires is not None and expires <= 0:
        assert outcome == "expired"
    elif as_number[0] < as_number[1]:
        assert outcome == "runtime-too-old"
    elif release < floor:
        assert outcome == "release-too-old"
    else:
        assert outcome.release == found.release
