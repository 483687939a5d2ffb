"""Lists of revocations: vectors, signing, and what is refused when one is opened."""

from __future__ import annotations

import pytest

from crypto.errors import FormatError, PolicyError
from crypto.floors import Floors
from crypto.revocations import (
    MAX_REVOKED,
    Revocations,
    check_revocations,
    make_revocations,
    open_revocations,
)
from crypto.signer import SoftwareSigner
from crypto.sm2 import private_key
from crypto.trust import TrustFile

NOW = 1_800_000_000
A, B = b"\x01" * 32, b"\x02" * 32


@pytest.fixture(scope="module")
def vectors(load_vectors):
    return load_vectors("revocations.json")


@pytest.fixture(scope="module")
def trust(vectors):
    return TrustFile.parse(vectors["trust"].encode())


@pytest.fixture(scope="module")
def signer(load_vectors):
    return SoftwareSigner(
        private_key(bytes.fromhex(load_vectors("policy.json")["keys"]["r1"]["private"]))
    )


def make(signer, **changed):
    values = {"sequence": 5, "issued": NOW, "key_ids": [], "model_digests": [], "signer": signer}
    return make_revocations(**{**values, **changed})


def test_vectors(vectors, trust):
    assert len(vectors["tests"]) > 25
    for vector in vectors["tests"]:
        data = bytes.fromhex(vector["hex"]) + bytes(vector.get("zeros", 0))
        if "value" in vector:
            found = open_revocations(data, trust, floors=Floors(), now=vectors["now"])
            assert {
                "sequence": found.sequence,
                "issued": found.issued,
                "key_ids": sorted(key_id.hex() for key_id in found.key_ids),
                "model_digests": sorted(digest.hex() for digest in found.model_digests),
            } == vector["value"]
        else:
            with pytest.raises(FormatError) as caught:
                open_revocations(data, trust, floors=Floors(), now=vectors["now"])
            assert (caught.value.rule, caught.value.offset) == (vector["rule"], vector["offset"]), (
                vector["id"]
            )


def test_a_list_opens_as_it_was_made(trust, signer):
    data = make(signer, key_ids=[B, A, A], model_digests=(B,))
    assert open_revocations(data, trust, floors=Floors(), now=NOW) == Revocations(
        5, NOW, frozenset({A, B}), frozenset({B}), signer.key_id
    )


def test_a_full_list_fits(trust, signer):
    ids = [number.to_bytes(32, "big") for number in range(MAX_REVOKED)]
    data = make(signer, key_ids=ids, model_digests=ids)
    assert len(data) <= 65_536
    assert open_revocations(data, trust, floors=Floors(), now=NOW).key_ids == frozenset(ids)


@pytest.mark.parametrize(
    "changed",
    [
        {"sequence": 0},
        {"sequence": 2**53},
        {"issued": -1},
        {"key_ids": [A[:31]]},
        {"model_digests": [b""]},
        {"key_ids": [n.to_bytes(32, "big") for n in range(MAX_REVOKED + 1)]},
    ],
)
def test_what_cannot_be_read_is_not_signed(signer, changed):
    with pytest.raises(ValueError, match="cannot have"):
        make(signer, **changed)


def test_a_list_does_not_revoke_its_signer(signer):
    with pytest.raises(ValueError, match="key that signs"):
        make(signer, key_ids=[signer.key_id])


def test_every_bit_of_a_list_counts(trust, signer):
    data = make(signer, key_ids=[A])
    for position in range(len(data)):
        altered = bytearray(data)
        altered[position] ^= 1 << position % 8
        with pytest.raises((FormatError, PolicyError)) as caught:
            open_revocations(bytes(altered), trust, floors=Floors(), now=NOW)
        if isinstance(caught.value, PolicyError):
            assert caught.value.reason in (
                "revocations-bad-signature",
                "revocations-unknown-signer",
            )


def test_an_older_list_does_not_come_back(trust, signer):
    old, new = make(signer, sequence=4), make(signer, sequence=5, key_ids=[A])
    seen = open_revocations(new, trust, floors=Floors(revocation_sequence=4), now=NOW).sequence
    with pytest.raises(PolicyError) as caught:
        open_revocations(old, trust, floors=Floors(revocation_sequence=seen), now=NOW)
    assert caught.value.reason == "revocations-old"


def test_a_list_in_use_is_checked_again(trust, signer):
    found = open_revocations(make(signer), trust, floors=Floors(), now=NOW)
    check_revocations(trust, found, floors=Floors(revocation_sequence=5), now=NOW)
    without = TrustFile.parse(b"version = 1\n")
    for policy, floors, now, reason in [
        (trust, Floors(revocation_sequence=6), NOW, "revocations-old"),
        (trust, Floors(), NOW - 1, "revocations-not-yet-valid"),
        (without, Floors(), NOW, "revocations-unknown-signer"),
    ]:
        with pytest.raises(PolicyError) as caught:
            check_revocations(policy, found, floors=floors, now=now)
        assert caught.value.reason == reason


def test_no_list_is_enough_only_where_there_never_was_one(trust):
    check_revocations(trust, None, floors=Floors(), now=NOW)
    with pytest.raises(PolicyError) as caught:
        check_revocations(trust, None, floors=Floors(revocation_sequence=1), now=NOW)
    assert caught.value.reason == "revocations-missing"
