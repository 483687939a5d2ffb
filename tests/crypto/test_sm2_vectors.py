from __future__ import annotations

import pytest

from crypto.errors import FormatError, InvalidSignatureError
from crypto.sm2 import (
    PublicKey,
    decrypt,
    encrypt_with,
    private_key,
    sign,
    signature_from_der,
    signature_to_der,
    verify,
)
from crypto.sm2_curve import N
from crypto.sm2_digest import DEFAULT_ID, identity_digest, message_digest
from crypto.sm2_hedged import multiply, sign_digest
from crypto.sm2_points import add_multiples, multiply_generator
from crypto.sm2_verify import verify_digest
from tests.crypto.sm2_case import HEDGED, both_providers


@pytest.fixture(scope="module")
def vectors(load_vectors):
    return load_vectors("sm2.json")


@pytest.fixture(scope="module")
def standard(vectors):
    """The example of the standard, its byte strings as bytes."""
    return {name: bytes.fromhex(value) for name, value in vectors["standard"].items()}


def unhex(vector):
    return {
        name: bytes.fromhex(value) for name, value in vector.items() if name not in ("id", "rule")
    }


def test_digests_of_the_standard(standard):
    point = PublicKey.from_bytes(standard["public_key"]).point
    assert identity_digest(point, DEFAULT_ID) == standard["identity_digest"]
    assert message_digest(point, standard["message"], DEFAULT_ID) == standard["message_digest"]


@both_providers
def test_the_standard(standard, provider):
    key = private_key(standard["private_key"], use=provider)
    assert key.public_key.to_bytes() == standard["public_key"]
    verify(key.public_key, standard["message"], standard["signature"])
    assert decrypt(key, standard["ciphertext"], use=provider) == standard["plaintext"]
    verify(key.public_key, b"other", sign(key, b"other", use=provider))


def test_with_the_nonce_of_the_standard(standard):
    nonces = iter([int.from_bytes(standard["k"], "big")])
    signed = sign_digest(standard["private_key"], standard["message_digest"], nonces)
    assert signed == standard["signature"]
    key = PublicKey.from_bytes(standard["public_key"])
    numbers = iter([int.from_bytes(standard["k"], "big")])
    assert encrypt_with(key, standard["plaintext"], numbers) == standard["ciphertext"]


@both_providers
def test_leading_zeros(vectors, provider):
    for vector in vectors["leading_zeros"]:
        v = unhex(vector)
        key = private_key(v["private_key"], use=provider)
        assert key.public_key.to_bytes() == v["public_key"], vector["id"]
        verify(key.public_key, v["message"], v["signature"])
        assert signature_from_der(signature_to_der(v["signature"])) == v["signature"]
        digest = message_digest(key.public_key.point, v["message"], DEFAULT_ID)
        nonces = iter([int.from_bytes(v["k"], "big")])
        assert sign_digest(v["private_key"], digest, nonces) == v["signature"], vector["id"]
        verify(key.public_key, b"again", sign(key, b"again", use=provider))


def test_the_leading_zeros_are_there(vectors):
    found = {vector["id"]: unhex(vector) for vector in vectors["leading_zeros"]}
    assert found["private key with 31"]["private_key"][:31] == bytes(31)
    assert found["private key with 1"]["private_key"][0] == 0
    assert found["x of the public key with 1"]["public_key"][1] == 0
    assert found["y of the public key with 1"]["public_key"][33] == 0
    assert found["r with 1"]["signature"][0] == 0
    assert found["s with 1"]["signature"][32] == 0


@both_providers
def test_ciphertexts_with_leading_zeros(vectors, standard, provider):
    key = private_key(standard["private_key"], use=provider)
    for vector in vectors["ciphertexts_leading_zeros"]:
        v = unhex(vector)
        assert 0 in (v["ciphertext"][1], v["ciphertext"][33], v["ciphertext"][65])
        assert decrypt(key, v["ciphertext"], use=provider) == v["plaintext"], vector["id"]
        numbers = iter([int.from_bytes(v["k"], "big")])
        assert encrypt_with(key.public_key, v["plaintext"], numbers) == v["ciphertext"]


def test_invalid_signatures(vectors, standard):
    key = PublicKey.from_bytes(standard["public_key"])
    assert len(vectors["invalid_signatures"]) > 20
    for vector in vectors["invalid_signatures"]:
        with pytest.raises(InvalidSignatureError):
            verify(key, standard["message"], bytes.fromhex(vector["signature"]))


def test_the_signature_of_something_else(standard):
    key, signature = PublicKey.from_bytes(standard["public_key"]), standard["signature"]
    for message in (b"", b"message diges", b"message digest\0", b"message digest\r\n"):
        with pytest.raises(InvalidSignatureError):
            verify(key, message, signature)
    for identifier in (b"", b"TLSv1.3+GM+Cipher+Suite", DEFAULT_ID + b"\0", DEFAULT_ID[:-1]):
        with pytest.raises(InvalidSignatureError):
            verify(key, standard["message"], signature, identifier=identifier)
    with pytest.raises(InvalidSignatureError):
        verify(PublicKey(*multiply_generator(2)), standard["message"], signature)


def test_every_bit_of_a_signature_counts(standard):
    key = PublicKey.from_bytes(standard["public_key"])
    number = int.from_bytes(standard["signature"], "big")
    for bit in range(512):
        with pytest.raises(InvalidSignatureError):
            verify_digest(key, standard["message_digest"], (number ^ 1 << bit).to_bytes(64, "big"))


def test_a_sum_at_infinity_is_refused():
    # s G + t P is infinity, and a verifier that takes its x for zero would find r = e.
    d, s = 0x1234567, 0x89ABCDEF
    t = -s * pow(d, -1, N) % N
    r = (t - s) % N
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    with pytest.raises(InvalidSignatureError):
        verify_digest(PublicKey(*multiply_generator(d)), r.to_bytes(32, "big"), signature)


def crafted(case):
    """Return r, s and e that fulfil the equation of the standard and break one of its ranges."""
    d, point = 0x1234567, multiply_generator(0x1234567)
    if case == "r is 0":  # s G + s P
        s = 0x89ABCDEF
        return 0, s, -add_multiples(s, s, point).x % N
    if case == "s is 0":  # r P
        r = 0x89ABCDEF
        return r, 0, (r - multiply_generator(r * d % N).x) % N
    s = 0x89ABCDEF  # r + s is n: s G
    return N - s, s, (N - s - multiply_generator(s).x) % N


@pytest.mark.parametrize("case", ["r is 0", "s is 0", "r + s is n"])
def test_ranges_are_checked_where_the_equation_holds(case):
    r, s, e = crafted(case)
    key = PublicKey(*multiply_generator(0x1234567))
    assert (e + add_multiples(s, (r + s) % N, key.point).x) % N == r
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    with pytest.raises(InvalidSignatureError):
        verify_digest(key, e.to_bytes(32, "big"), signature)


def test_a_digest_above_n_is_reduced(standard):
    digest = b"\xff" * 32
    signature = sign_digest(standard["private_key"], digest, iter([12345]))
    verify_digest(PublicKey.from_bytes(standard["public_key"]), digest, signature)


def test_der_signatures(vectors):
    assert len(vectors["invalid_der"]) > 15
    for vector in vectors["invalid_der"]:
        with pytest.raises(FormatError) as caught:
            signature_from_der(bytes.fromhex(vector["der"]))
        found = (caught.value.rule, caught.value.offset)
        assert found == (vector["rule"], vector["offset"]), vector["id"]


def test_zero_is_a_der_number_and_no_signature(standard):
    zero = signature_from_der(bytes.fromhex("3006020100020100"))
    assert zero == bytes(64)
    assert signature_to_der(zero) == bytes.fromhex("3006020100020100")
    with pytest.raises(InvalidSignatureError):
        verify(PublicKey.from_bytes(standard["public_key"]), standard["message"], zero)
    with pytest.raises(ValueError, match="64 bytes"):
        signature_to_der(bytes(63))


def test_both_multiply_alike():
    for k in (1, 2, 3, N - 1, N - 2, 2**255):
        point = multiply_generator(k)
        assert HEDGED.public_point(k.to_bytes(32, "big")) == point
        assert multiply(k, point) == multiply_generator(k * k % N)
