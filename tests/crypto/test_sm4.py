from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import SM4
from cryptography.hazmat.primitives.ciphers.modes import ECB
from gmssl.sm4 import SM4_ENCRYPT, CryptSM4
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.sm4 import MAX_BLOCK, ctr, ctr_into

KEY = bytes.fromhex("0123456789abcdeffedcba9876543210")


def gmssl_block(key):
    """Return the encryption of one block in pure Python."""
    cipher = CryptSM4()
    cipher.set_key(key, SM4_ENCRYPT)
    return lambda block: bytes(cipher.one_round(cipher.sk, list(block)))


def ecb_block(key):
    """Return the encryption of one block by OpenSSL."""
    return Cipher(SM4(key), ECB()).encryptor().update  # noqa: S305  # one block


def slow_ctr(encrypt_block, initial_block, data):
    """Counter mode block by block."""
    out = bytearray()
    for number, start in enumerate(range(0, len(data), 16)):
        counter = (initial_block + number) % (1 << 128)
        stream = encrypt_block(counter.to_bytes(16, "big"))
        out += bytes(a ^ b for a, b in zip(data[start : start + 16], stream, strict=False))
    return bytes(out)


def ctr_vectors(load_vectors):
    vectors = load_vectors("sm4.json")
    return [*vectors["ctr"], *vectors["own"]]


def test_ctr_vectors(load_vectors):
    vectors = ctr_vectors(load_vectors)
    assert len(vectors) >= 9
    for vector in vectors:
        key, plain = bytes.fromhex(vector["key"]), bytes.fromhex(vector["plaintext"])
        initial_block = int(vector["initial_block"], 16)
        cipher_text = ctr(key, initial_block, plain)
        assert cipher_text.hex() == vector["ciphertext"], vector["id"]
        assert ctr(key, initial_block, cipher_text) == plain, vector["id"]
        assert slow_ctr(gmssl_block(key), initial_block, plain) == cipher_text, vector["id"]


def test_one_block_of_the_standard(load_vectors):
    vector = next(v for v in load_vectors("sm4.json")["block"] if v["rounds"] == 1)
    block = bytes.fromhex(vector["plaintext"])
    # The key stream at a counter is the encryption of the counter.
    assert ctr(KEY, int.from_bytes(block, "big"), bytes(16)).hex() == vector["ciphertext"]
    assert gmssl_block(KEY)(block).hex() == vector["ciphertext"]


def million(load_vectors):
    return next(v for v in load_vectors("sm4.json")["block"] if v["rounds"] == 1_000_000)


def test_a_million_rounds_of_the_standard_by_the_provider(load_vectors):
    vector = million(load_vectors)
    encrypt = ecb_block(bytes.fromhex(vector["key"]))
    block = bytes.fromhex(vector["plaintext"])
    for _ in range(vector["rounds"]):
        block = encrypt(block)
    assert block.hex() == vector["ciphertext"]


@pytest.mark.slow
@pytest.mark.ci
def test_a_million_rounds_of_the_standard(load_vectors):
    vector = million(load_vectors)
    key, block = bytes.fromhex(vector["key"]), bytes.fromhex(vector["plaintext"])
    zeros = bytes(16)
    for _ in range(vector["rounds"]):
        block = ctr(key, int.from_bytes(block, "big"), zeros)
    assert block.hex() == vector["ciphertext"]


NEAR_CARRIES = st.builds(
    lambda bits, distance: ((1 << bits) - distance) % (1 << 128),
    st.sampled_from([8, 16, 32, 64, 96, 128]),
    st.integers(0, 40),
)


@settings(deadline=None, max_examples=120)
@given(
    st.binary(min_size=16, max_size=16),
    st.one_of(NEAR_CARRIES, st.integers(0, MAX_BLOCK)),
    st.binary(max_size=700),
)
def test_equals_counter_mode_block_by_block(key, initial_block, data):
    expected = slow_ctr(ecb_block(key), initial_block, data)
    assert ctr(key, initial_block, data) == expected
    apart = bytearray(len(data))
    ctr_into(key, initial_block, data, apart)
    in_place = bytearray(data)
    ctr_into(key, initial_block, in_place, in_place)
    assert apart == in_place == expected


@pytest.mark.parametrize("bits", [32, 64, 96, 128])
def test_every_carry_and_the_wrap(bits):
    data = bytes(range(256)) * 2
    for before in range(34):
        start = ((1 << bits) - before) % (1 << 128)
        assert ctr(KEY, start, data) == slow_ctr(ecb_block(KEY), start, data), before


@settings(deadline=None, max_examples=30)
@given(st.integers(0, MAX_BLOCK), st.binary(max_size=400), st.integers(0, 25))
def test_a_message_in_two_parts(initial_block, data, blocks):
    split = 16 * blocks
    parts = ctr(KEY, initial_block, data[:split])
    parts += ctr(KEY, (initial_block + blocks) % (1 << 128), data[split:])
    assert parts == ctr(KEY, initial_block, data)


def test_a_whole_chunk_in_place():
    chunk = bytearray((1 << 20) - 5)
    ctr_into(KEY, 65536 * 7, memoryview(chunk), memoryview(chunk))
    assert chunk[:16] == ecb_block(KEY)((65536 * 7).to_bytes(16, "big"))
    assert chunk[-11:] == ecb_block(KEY)((65536 * 8 - 1).to_bytes(16, "big"))[:11]


def test_any_buffer():
    expected = ctr(KEY, 5, bytes(8))
    wide = memoryview(bytearray(8)).cast("I")
    assert ctr(bytearray(KEY), 5, wide) == expected
    ctr_into(memoryview(KEY), 5, wide, wide)
    assert wide.tobytes() == expected
    ctr_into(KEY, 5, b"", bytearray())
    assert ctr(KEY, 5, memoryview(b"")) == b""


def test_what_is_refused():
    for key in (b"", KEY[:-1], KEY + b"\0", bytes(32)):
        with pytest.raises(ValueError, match="16 bytes"):
            ctr(key, 0, b"data")
    for initial_block in (-1, MAX_BLOCK + 1):
        with pytest.raises(ValueError, match="128 bits"):
            ctr(KEY, initial_block, b"data")
    for size in (0, 3, 5):
        out = bytearray(size)
        with pytest.raises(ValueError, match="can be written"):
            ctr_into(KEY, 0, b"data", out)
        assert not any(out)
    with pytest.raises((TypeError, BufferError)):
        ctr_into(KEY, 0, b"data", b"data")
