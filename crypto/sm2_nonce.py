"""Nonces for SM2 signatures that nobody can guess even where the machine's randomness fails.

The generator is HMAC-DRBG with SM3, seeded with the private key, the digest that is signed and 32
fresh random bytes. Two messages never share a nonce, whatever the random bytes are; with good ones
two signatures of one message differ as well.

Source: RFC 6979 sections 3.2 and 3.6, with a label before the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from crypto.kdf import hmac_sm3
from crypto.labels import SM2_NONCE
from crypto.sm2_curve import N
from crypto.sm3 import DIGEST_BYTES

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

FRESH_BYTES: Final = 32


def nonces(secret: ReadableBuffer, digest: bytes, fresh: bytes) -> Iterator[int]:
    """Yield numbers in 1 .. n - 1 without end; the first that serves is the nonce.

    Args:
        secret: the private key, 32 bytes.
        digest: e = SM3(Z_A || message), 32 bytes.
        fresh: 32 random bytes.
    """
    key = bytes(DIGEST_BYTES)
    value = b"\x01" * DIGEST_BYTES
    for step in (b"\x00", b"\x01"):
        key = hmac_sm3(key, value, step, SM2_NONCE, secret, digest, fresh)
        value = hmac_sm3(key, value)
    while True:
        value = hmac_sm3(key, value)
        candidate = int.from_bytes(value, "big")
        if 1 <= candidate < N:
            yield candidate
        key = hmac_sm3(key, value, b"\x00")
        value = hmac_sm3(key, value)
