from __future__ import annotations

import hashlib
import hmac
import shutil
import subprocess
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.errors import InvalidTagError
from crypto.kdf import (
    MAX_HKDF_BYTES,
    HmacSm3,
    check_tag,
    hkdf_sm3,
    hmac_sm3,
    pbkdf2_hmac_sm3,
)

OPENSSL = shutil.which("openssl")


def slow_hmac(hash_function, key, message):
    """RFC 2104 written out."""
    if len(key) > 64:
        key = hash_function(key)
    key = key.ljust(64, b"\0")
    inner = hash_function(bytes(b ^ 0x36 for b in key) + message)
    return hash_function(bytes(b ^ 0x5C for b in key) + inner)


def slow_hkdf(hash_function, secret, salt, info, length):
    """RFC 5869 written out."""
    extracted = slow_hmac(hash_function, salt or bytes(32), secret)
    block, out = b"", b""
    for counter in range(1, -(-length // 32) + 1):
        block = slow_hmac(hash_function, extracted, block + info + bytes([counter]))
        out += block
    return out[:length]


def slow_pbkdf2(hash_function, passphrase, salt, iterations, length):
    """RFC 8018 section 5.2 written out."""
    out = b""
    for counter in range(1, -(-length // 32) + 1):
        u = slow_hmac(hash_function, passphrase, salt + counter.to_bytes(4, "big"))
        total = int.from_bytes(u, "big")
        for _ in range(iterations - 1):
            u = slow_hmac(hash_function, passphrase, u)
            total ^= int.from_bytes(u, "big")
        out += total.to_bytes(32, "big")
    return out[:length]


def from_hex(vector, *names):
    return [bytes.fromhex(vector[name]) for name in names]


def test_hmac_vectors(load_vectors, slow_sm3):
    vectors = load_vectors("kdf.json")["hmac"]
    assert len(vectors) >= 11
    for vector in vectors:
        key, message = from_hex(vector, "key", "message")
        assert hmac_sm3(key, message).hex() == vector["tag"], vector["id"]
        assert slow_hmac(slow_sm3, key, message).hex() == vector["tag"], vector["id"]


def test_hkdf_vectors(load_vectors, slow_sm3):
    vectors = load_vectors("kdf.json")["hkdf"]
    assert len(vectors) >= 7
    for vector in vectors:
        arguments = (*from_hex(vector, "secret", "salt", "info"), vector["length"])
        assert hkdf_sm3(*arguments).hex() == vector["output"], vector["id"]
        assert slow_hkdf(slow_sm3, *arguments).hex() == vector["output"], vector["id"]


def test_pbkdf2_vectors(load_vectors, slow_sm3):
    vectors = load_vectors("kdf.json")["pbkdf2"]
    assert len(vectors) >= 5
    for vector in vectors:
        passphrase, salt = from_hex(vector, "passphrase", "salt")
        arguments = (passphrase, salt, vector["iterations"], vector["length"])
        assert pbkdf2_hmac_sm3(*arguments).hex() == vector["output"], vector["id"]
        if vector["iterations"] <= 5:
            assert slow_pbkdf2(slow_sm3, *arguments).hex() == vector["output"], vector["id"]


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=200), st.lists(st.binary(max_size=100), max_size=5))
def test_hmac_equals_the_standard_library_under_any_split(key, parts):
    expected = hmac.digest(key, b"".join(parts), "sm3")
    state = HmacSm3(key)
    for part in parts:
        state.update(part)
    assert hmac_sm3(key, *parts) == state.digest() == expected


@settings(deadline=None, max_examples=40)
@given(
    st.binary(min_size=1, max_size=80),
    st.binary(max_size=80),
    st.binary(max_size=80),
    st.integers(1, 100),
)
def test_hkdf_equals_a_written_out_one_over_the_standard_library(secret, salt, info, length):
    def sm3(data):
        return hashlib.new("sm3", data).digest()

    assert hkdf_sm3(secret, salt, info, length) == slow_hkdf(sm3, secret, salt, info, length)


@settings(deadline=None, max_examples=30)
@given(
    st.binary(min_size=1, max_size=80),
    st.binary(max_size=80),
    st.integers(1, 40),
    st.integers(1, 70),
)
def test_pbkdf2_equals_the_standard_library(passphrase, salt, iterations, length):
    expected = hashlib.pbkdf2_hmac("sm3", passphrase, salt, iterations, length)
    assert pbkdf2_hmac_sm3(passphrase, salt, iterations, length) == expected


@pytest.mark.skipif(OPENSSL is None, reason="no openssl command on this machine")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hkdf", lambda v: ["HKDF", f"hexkey:{v['secret']}", f"hexinfo:{v['info']}"]),
        ("pbkdf2", lambda v: ["PBKDF2", f"hexpass:{v['passphrase']}", f"iter:{v['iterations']}"]),
    ],
)
def test_the_openssl_command_agrees(load_vectors, name, options):
    compared = 0
    for vector in load_vectors("kdf.json")[name]:
        if not vector["salt"] or not vector.get("info", "00"):
            continue  # the command takes no empty values
        algorithm, *values = options(vector)
        command = [OPENSSL, "kdf", "-binary", "-keylen", str(vector["length"])]
        for value in ("digest:SM3", f"hexsalt:{vector['salt']}", *values):
            command += ["-kdfopt", value]
        run = subprocess.run([*command, algorithm], capture_output=True, check=True)
        assert run.stdout.hex() == vector["output"], vector["id"]
        compared += 1
    assert compared >= 4


def test_digest_does_not_end_the_computation_and_copies_are_independent():
    first = HmacSm3(b"key")
    first.update(b"a")
    assert first.digest() == first.digest() == hmac_sm3(b"key", b"a")
    second = first.copy()
    first.update(b"b")
    second.update(b"c")
    assert first.digest() == hmac_sm3(b"key", b"ab")
    assert second.digest() == hmac_sm3(b"key", b"ac")


@pytest.mark.parametrize(
    "buffer", [bytearray(b"abcd"), memoryview(b"abcd").cast("I"), b"", memoryview(b"")]
)
def test_any_buffer(buffer):
    plain = bytes(buffer)
    assert hmac_sm3(buffer, buffer) == hmac_sm3(plain, plain)
    assert hkdf_sm3(buffer, buffer, b"info", 32) == hkdf_sm3(plain, plain, b"info", 32)
    assert pbkdf2_hmac_sm3(buffer, buffer, 2, 32) == pbkdf2_hmac_sm3(plain, plain, 2, 32)


def test_lengths_out_of_range_are_refused():
    assert len(hkdf_sm3(b"secret", b"", b"", MAX_HKDF_BYTES)) == 8160
    for length in (0, -1, MAX_HKDF_BYTES + 1):
        with pytest.raises(ValueError, match="HKDF-SM3 gives"):
            hkdf_sm3(b"secret", b"", b"", length)
    for iterations, length in ((0, 32), (-1, 32), (1, 0), (1, -1)):
        with pytest.raises(ValueError, match="at least one"):
            pbkdf2_hmac_sm3(b"passphrase", b"salt", iterations, length)


def test_check_tag():
    tag = hmac_sm3(b"key", b"message")
    check_tag(tag, tag)
    check_tag(tag, memoryview(bytearray(tag)))
    for bit in range(256):
        wrong = bytearray(tag)
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidTagError):
            check_tag(tag, wrong)
    for wrong in (b"", tag[:16], tag[:-1], tag + b"\0"):
        with pytest.raises(InvalidTagError):
            check_tag(tag, wrong)


def test_threads_share_nothing():
    message = bytes(1 << 20)
    start = HmacSm3(b"key")
    tags = {}

    def work(number):
        state = start.copy()
        state.update(bytes([number]))
        state.update(message)
        tags[number] = state.digest()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tags == {n: hmac.digest(b"key", bytes([n]) + message, "sm3") for n in range(4)}
