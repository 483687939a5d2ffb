"""Project Wycheproof's vectors for the SM algorithms.

There are three files of them. The one for HMAC is used as it is. GCM and CCM are no modes of this
project: here they are built from counter mode, so that cipher texts and tags check the cipher under
many counters, some of which wrap.
"""

from __future__ import annotations

import pytest

from crypto.errors import InvalidTagError
from crypto.kdf import check_tag, hmac_sm3
from crypto.sm4 import ctr


def encrypt_block(key, block):
    """Return the encryption of one block: the key stream where the counter is that block."""
    return ctr(key, int.from_bytes(block, "big"), bytes(16))


def xor(left, right):
    return bytes(a ^ b for a, b in zip(left, right, strict=False))


def padded(data):
    return data + bytes(-len(data) % 16)


def ctr_with_counter_of(key, block, counter_bytes, data):
    """Counter mode whose counter is only the last bytes of the block, as in GCM and CCM."""
    fixed, counter = block[:-counter_bytes], int.from_bytes(block[-counter_bytes:], "big")
    out = b""
    for number, start in enumerate(range(0, len(data), 16)):
        low = (counter + number) % (1 << 8 * counter_bytes)
        first = int.from_bytes(fixed + low.to_bytes(counter_bytes, "big"), "big")
        out += ctr(key, first, data[start : start + 16])
    return out


def ghash(subkey, data):
    """NIST SP 800-38D section 6.4."""
    h, y = int.from_bytes(subkey, "big"), 0
    for start in range(0, len(data), 16):
        y ^= int.from_bytes(data[start : start + 16], "big")
        z, v = 0, h
        for bit in range(127, -1, -1):
            if y >> bit & 1:
                z ^= v
            v = v >> 1 ^ (0xE1 << 120 if v & 1 else 0)
        y = z
    return y.to_bytes(16, "big")


def lengths(left, right):
    return (8 * left).to_bytes(8, "big") + (8 * right).to_bytes(8, "big")


def gcm(key, iv, aad, message):
    """NIST SP 800-38D section 7.1."""
    subkey = encrypt_block(key, bytes(16))
    if len(iv) == 12:
        first = iv + b"\0\0\0\1"
    else:
        first = ghash(subkey, padded(iv) + lengths(0, len(iv)))
    # The key stream for the tag is that of the first counter, the message's begins behind it.
    text = ctr_with_counter_of(key, first, 4, bytes(16) + message)
    mask, cipher_text = text[:16], text[16:]
    hashed = padded(aad) + padded(cipher_text) + lengths(len(aad), len(cipher_text))
    return cipher_text, xor(ghash(subkey, hashed), mask)


def ccm(key, nonce, aad, message):
    """NIST SP 800-38C section 6.1, tags of 16 bytes."""
    width = 15 - len(nonce)
    flags = (64 if aad else 0) | 7 << 3 | width - 1
    blocks = bytes([flags]) + nonce + len(message).to_bytes(width, "big")
    if aad:
        blocks += padded(len(aad).to_bytes(2, "big") + aad)
    blocks += padded(message)
    tag = bytes(16)
    for start in range(0, len(blocks), 16):
        tag = encrypt_block(key, xor(tag, blocks[start : start + 16]))
    first = bytes([width - 1]) + nonce + bytes(width)
    text = ctr_with_counter_of(key, first, width, tag + message)
    return text[16:], text[:16]


def test_hmac_sm3(load_vectors):
    vectors = load_vectors("wycheproof_hmac_sm3.json")["tests"]
    results = {"valid": 0, "invalid": 0}
    for vector in vectors:
        key, message, tag = (bytes.fromhex(vector[name]) for name in ("key", "msg", "tag"))
        computed = hmac_sm3(key, message)[: len(tag)]
        if vector["result"] == "valid":
            check_tag(computed, tag)
        else:
            with pytest.raises(InvalidTagError):
                check_tag(computed, tag)
        results[vector["result"]] += 1
    assert results == {"valid": 66, "invalid": 108}


@pytest.mark.parametrize(("name", "mode", "count"), [("gcm", gcm, 39), ("ccm", ccm, 21)])
def test_sm4_inside_an_authenticated_mode(load_vectors, name, mode, count):
    vectors = load_vectors("wycheproof_sm4.json")[name]
    assert len(vectors) == count
    for vector in vectors:
        inputs = (bytes.fromhex(vector[field]) for field in ("key", "iv", "aad", "msg"))
        cipher_text, tag = mode(*inputs)
        assert (cipher_text.hex(), tag.hex()) == (vector["ct"], vector["tag"]), vector["tcId"]
