from __future__ import annotations

import copy
import hmac
import pickle  # noqa: TID251  # to show that it refuses a private key
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.errors import InvalidTagError, KeyFileError, SelfTestError, UnavailableError
from crypto.labels import SM2_NONCE
from crypto.sm2 import DEFAULT_ID, PublicKey, encrypt, generate, private_key, sign, verify
from crypto.sm2_curve import G, N
from crypto.sm2_digest import MAX_ID_BYTES
from crypto.sm2_hedged import multiply, sign_digest
from crypto.sm2_keys import check_secret
from crypto.sm2_nonce import nonces
from crypto.sm2_points import multiply_generator
from crypto.sm2_provider import check_provider
from crypto.sm2_verify import verify_digest
from tests.crypto.sm2_case import HEDGED, MESSAGES, both_providers, key_of


def b32(number):
    return number.to_bytes(32, "big")


@both_providers
@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
@pytest.mark.parametrize("identifier", [DEFAULT_ID, b"", b"TLSv1.3+GM+Cipher+Suite", b"\0"])
def test_round_trip(provider, message, identifier):
    key = key_of(77)
    signature = sign(key, message, identifier=identifier, use=provider)
    assert len(signature) == 64
    verify(key.public_key, message, signature, identifier=identifier)


@both_providers
def test_the_longest_identity(provider):
    key = key_of(77)
    longest = b"i" * MAX_ID_BYTES
    verify(
        key.public_key, b"m", sign(key, b"m", identifier=longest, use=provider), identifier=longest
    )
    with pytest.raises(ValueError, match="8190"):
        sign(key, b"m", identifier=longest + b"i", use=provider)
    with pytest.raises(ValueError, match="8190"):
        verify(key.public_key, b"m", bytes(64), identifier=longest + b"i")


@both_providers
def test_two_signatures_of_one_message_differ(provider):
    key = key_of(77)
    assert len({sign(key, b"m", use=provider)[:32] for _ in range(4)}) == 4


def test_generated_keys_are_in_range_and_differ():
    keys = [generate() for _ in range(4)]
    assert len({key.key_id for key in keys}) == 4
    for key in keys:
        with key.secret() as secret:
            check_secret(secret)
            assert PublicKey(*multiply_generator(int.from_bytes(secret, "big"))) == key.public_key


@pytest.mark.parametrize("number", [0, N - 1, N, N + 1, 2**256 - 1])
def test_numbers_that_are_no_private_keys(number):
    with pytest.raises(KeyFileError) as caught:
        private_key(b32(number))
    assert caught.value.reason == "range"


@pytest.mark.parametrize("length", [0, 31, 33])
def test_private_keys_have_32_bytes(length):
    with pytest.raises(KeyFileError):
        private_key(b"\x01" * length)


@both_providers
@pytest.mark.parametrize("number", [1, 2, N - 3, N - 2])
def test_the_first_and_last_private_keys(provider, number):
    key = key_of(number, provider)
    assert key.public_key.point == multiply_generator(number)
    verify(key.public_key, b"m", sign(key, b"m", use=provider))


@pytest.mark.parametrize(("x", "y"), [(0, 0), (G.x, G.y + 1), (G.x, -G.y), (-1, 5)])
def test_points_that_are_no_public_keys(x, y):
    with pytest.raises(KeyFileError) as caught:
        PublicKey(x, y)
    assert caught.value.reason == "format"


def test_infinity_is_no_public_key():
    for data in (b"\x00", bytes(65), b"\x04" + bytes(64)):
        with pytest.raises(KeyFileError):
            PublicKey.from_bytes(data)


def test_a_private_key_hides_its_secret():
    key = key_of(0xABCDEF)
    assert "abcdef" not in repr(key) + str(key)
    assert key.key_id.hex() in repr(key)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            copied(key)


def test_a_wiped_key_is_of_no_use():
    key = key_of(77)
    ciphertext = encrypt(key.public_key, b"m")
    key.wipe()
    with pytest.raises(ValueError, match="wiped"):
        sign(key, b"m")
    assert ciphertext
    assert key.public_key == key_of(77).public_key


def test_a_key_is_wiped_at_the_end_of_its_block():
    with key_of(77) as key:
        verify(key.public_key, b"m", sign(key, b"m"))
        buffer = key._secret
        assert buffer == b32(77)
    assert buffer == bytes(32)
    with pytest.raises(ValueError, match="wiped"):
        sign(key, b"m")


def test_a_forgotten_key_is_wiped():
    key = key_of(77)
    buffer = key._secret
    del key
    assert buffer == bytes(32)


def test_the_callers_secret_is_copied():
    secret = bytearray(b32(77))
    key = private_key(secret)
    secret[:] = bytes(32)
    verify(key.public_key, b"m", sign(key, b"m"))


@pytest.mark.parametrize("fault", ["r is zero", "r + k is n", "s is zero"])
def test_nonces_that_do_not_serve_are_passed_over(fault):
    d, k = 0x1234567890, 0xFEDCBA9876543210
    x = multiply(k, G).x
    r = {"r is zero": 0, "r + k is n": N - k, "s is zero": k * pow(d, -1, N) % N}[fault]
    digest = b32((r - x) % N)
    with pytest.raises(SelfTestError):
        sign_digest(b32(d), digest, iter([k]))
    signature = sign_digest(b32(d), digest, iter([k, k + 1]))
    assert signature == sign_digest(b32(d), digest, iter([k + 1]))
    verify_digest(PublicKey(*multiply_generator(d)), digest, signature)


@pytest.mark.parametrize("k", [0, N, -1])
def test_nonces_out_of_range_are_refused(k):
    with pytest.raises(ValueError, match=r"1 \.\. n - 1"):
        sign_digest(b32(5), bytes(32), iter([k]))


def test_a_wrong_point_of_gmssl_is_seen(monkeypatch):
    import crypto.sm2_hedged as module

    for wrong in (None, "00" * 64, "12" * 64, G.encode()[1:].hex()[:-2]):
        monkeypatch.setattr(module._CURVE, "_kg", lambda k, point, wrong=wrong: wrong)
        with pytest.raises(SelfTestError):
            multiply(5, G)


class Faulty:
    """A provider that computes with one bit wrong."""

    name = "faulty"

    def __init__(self, wrong):
        self.wrong = wrong

    def public_point(self, secret):
        point = HEDGED.public_point(secret)
        return multiply_generator(2) if self.wrong == "public" else point

    def sign(self, *arguments):
        signature = bytearray(HEDGED.sign(*arguments))
        signature[40] ^= self.wrong == "sign"
        return bytes(signature)

    def decrypt(self, *arguments):
        try:
            return HEDGED.decrypt(*arguments) + (b"!" if self.wrong == "decrypt" else b"")
        except InvalidTagError:
            if self.wrong != "refuse":
                raise
            return b"whatever"


def test_a_faulty_signature_never_leaves():
    with pytest.raises(SelfTestError):
        sign(key_of(77), b"m", use=Faulty("sign"))
    verify(key_of(77).public_key, b"m", sign(key_of(77), b"m", use=Faulty("")))


@pytest.mark.parametrize("wrong", ["public", "sign", "decrypt", "refuse"])
def test_a_faulty_provider_is_not_used(wrong):
    check_provider(Faulty(""))
    with pytest.raises(SelfTestError, match="faulty"):
        check_provider(Faulty(wrong))


def test_without_libcrypto_gmssl_serves(monkeypatch):
    import crypto.sm2_provider as chooser
    import crypto.sm2_system as system

    def nothing():
        raise UnavailableError("none")

    assert chooser.provider().name == "libcrypto"
    monkeypatch.setattr(system, "load", nothing)
    assert chooser.provider.__wrapped__().name == "gmssl"


def test_what_is_not_needed_is_not_loaded():
    program = "import sys, crypto.keys, crypto.signer, crypto.sm2 as s; s.generate()"
    run = subprocess.run(
        [sys.executable, "-c", f"{program}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert not loaded & {"gmssl", "Cryptodome", "numpy", "numba"}


def slow_nonces(secret, digest, fresh):
    """RFC 6979, 3.2 steps b to h, with the standard library."""

    def mac(key, data):
        return hmac.new(key, data, "sm3").digest()

    key, value = bytes(32), b"\x01" * 32
    seed = SM2_NONCE + secret + digest + fresh
    key = mac(key, value + b"\x00" + seed)
    value = mac(key, value)
    key = mac(key, value + b"\x01" + seed)
    value = mac(key, value)
    while True:
        value = mac(key, value)
        if 1 <= int.from_bytes(value, "big") < N:
            yield int.from_bytes(value, "big")
        key = mac(key, value + b"\x00")
        value = mac(key, value)


def test_threads_sign_at_once():
    key = key_of(77)
    messages = [bytes([i]) for i in range(32)]
    with ThreadPoolExecutor(4) as pool:
        signatures = list(pool.map(lambda message: sign(key, message), messages))
    for message, signature in zip(messages, signatures, strict=True):
        verify(key.public_key, message, signature)
    assert len({signature[:32] for signature in signatures}) == len(messages)


@settings(max_examples=20)
@given(*[st.binary(min_size=32, max_size=32)] * 3)
def test_nonces_are_those_of_the_generator(secret, digest, fresh):
    found = list(islice(nonces(secret, digest, fresh), 3))
    assert found == list(islice(slow_nonces(secret, digest, fresh), 3))
    assert len(set(found)) == 3


def test_nonces_depend_on_everything():
    base = [b"a" * 32, b"b" * 32, b"c" * 32]
    found = {next(nonces(*base))}
    for i in range(3):
        changed = list(base)
        changed[i] = b"a" * 31 + b"!"
        found.add(next(nonces(*changed)))
    assert len(found) == 4


def test_the_fallback_needs_no_randomness_for_two_messages(monkeypatch):
    monkeypatch.setattr("crypto.sm2_hedged.os.urandom", bytes)
    key = key_of(77)
    signatures = [sign(key, message, use=HEDGED) for message in (b"one", b"two", b"one")]
    r = [int.from_bytes(s[:32], "big") for s in signatures]
    k = [
        (int.from_bytes(s[32:], "big") * 78 + ri * 77) % N
        for s, ri in zip(signatures, r, strict=True)
    ]
    assert k[0] != k[1]
    assert k[0] == k[2]
