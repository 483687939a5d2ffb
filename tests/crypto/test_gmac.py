"""SM4-GMAC: GHASH spelled out gives the same tags, and a library without it or in error is told."""

from __future__ import annotations

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import SM4
from cryptography.hazmat.primitives.ciphers.modes import ECB
from hypothesis import given
from hypothesis import strategies as st

from crypto import gmac
from crypto.errors import SelfTestError, UnavailableError
from crypto.gmac import Sm4Gmac

# x^128 + x^7 + x^2 + x + 1, the highest power last: NIST SP 800-38D section 6.3.
REDUCTION = 0xE1 << 120


def product(x: int, y: int) -> int:
    """Multiply in the field, bit by bit."""
    total = 0
    for bit in range(128):
        if x >> (127 - bit) & 1:
            total ^= y
        y = y >> 1 ^ (REDUCTION if y & 1 else 0)
    return total


def slow_tag(key: bytes, number: int, data: bytes) -> bytes:
    """NIST SP 800-38D section 7.1 with no plain text."""
    encrypt = Cipher(SM4(key), ECB()).encryptor().update  # noqa: S305 - one block
    subkey = int.from_bytes(encrypt(bytes(16)))
    total = 0
    padded = data + bytes(-len(data) % 16) + (8 * len(data)).to_bytes(8) + bytes(8)
    for start in range(0, len(padded), 16):
        total = product(total ^ int.from_bytes(padded[start : start + 16]), subkey)
    mask = int.from_bytes(encrypt(number.to_bytes(12) + (1).to_bytes(4)))
    return (total ^ mask).to_bytes(16)


@given(st.integers(0, 2**96 - 1), st.binary(max_size=100))
def test_a_tag_is_that_of_the_standard(number: int, data: bytes) -> None:
    made = Sm4Gmac()
    assert made.tag(number, data) == slow_tag(bytes(made._key), number, data)


def test_the_tag_of_another_place_key_or_content_is_another() -> None:
    made = Sm4Gmac()
    data = bytearray(range(200))
    tag = made.tag(7, data)
    assert made.tag(7, memoryview(data)) == tag
    assert made.tag(8, data) != tag
    assert Sm4Gmac().tag(7, data) != tag
    data[199] ^= 1
    assert made.tag(7, data) != tag
    data[199] ^= 1
    made.wipe()
    assert made.tag(7, data) == slow_tag(bytes(16), 7, bytes(data)) != tag


def test_a_library_that_computes_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gmac, "_KNOWN_TAG", bytes(16))
    with pytest.raises(SelfTestError):
        Sm4Gmac()


def test_a_library_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_key: bytes, _nonce: bytes) -> None:
        raise UnsupportedAlgorithm("sm4-gcm")

    monkeypatch.setattr(gmac, "_start", refuse)
    with pytest.raises(UnavailableError, match="no SM4-GCM"):
        Sm4Gmac()
