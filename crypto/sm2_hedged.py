"""SM2 with private keys where libcrypto has none: gmssl's curve arithmetic, everything else ours.

NOT CONSTANT TIME. How long an operation takes, and which memory it touches, depends on the private
key; whoever can measure that closely on the same machine may learn it. It serves machines whose
libcrypto has no SM2, or an SM2 that leaks more.

Of gmssl nothing is used but the multiplication of a point by a number: its random numbers can be
predicted, its decryption does not compare C3, its verification checks no ranges. Numbers and points
are checked here before and after.

Source: GB/T 32918.2-2016, 6.1 (signing); GB/T 32918.4-2016, 7.1 (decryption).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gmssl.sm2 import CryptSM2  # type: ignore[import-untyped]

from crypto.errors import SelfTestError
from crypto.sm2_ciphertext import Ciphertext, open_shared
from crypto.sm2_curve import FIELD_BYTES, G, N, Point, is_on_curve
from crypto.sm2_keys import PublicKey
from crypto.sm2_nonce import FRESH_BYTES, nonces

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_HEX_DIGITS: Final = 2 * FIELD_BYTES
_CURVE: Final = CryptSM2(private_key="", public_key="")
"""Without keys: its constructor also strips zeros and fours behind the 04 of a public one."""


class HedgedProvider:
    """Private-key operations over gmssl's curve arithmetic, with a hedged nonce."""

    name = "gmssl"

    def public_point(self, secret: ReadableBuffer) -> Point:
        """Return the public key of a secret."""
        return multiply(int.from_bytes(secret, "big"), G)

    def sign(
        self,
        secret: ReadableBuffer,
        public_key: PublicKey,
        message: bytes,
        identifier: bytes,
        digest: bytes,
    ) -> bytes:
        """Return a signature r || s (see `Provider.sign`)."""
        return sign_digest(secret, digest, nonces(secret, digest, os.urandom(FRESH_BYTES)))

    def decrypt(
        self,
        secret: ReadableBuffer,
        public_key: PublicKey,
        ciphertext: Ciphertext,
    ) -> bytes:
        """Return the plain text of a ciphertext whose C1 is on the curve.

        Raises:
            InvalidTagError: C3 is not that of the plain text.
        """
        shared = multiply(int.from_bytes(secret, "big"), ciphertext.c1)
        return open_shared(ciphertext, shared)


def sign_digest(secret: ReadableBuffer, digest: bytes, candidates: Iterator[int]) -> bytes:
    """Return r || s for e = `digest`, with the first candidate for the nonce that serves.

    Args:
        secret: the private key, 32 bytes.
        digest: 32 bytes.
        candidates: numbers in 1 .. n - 1; each is secret, and of use for this digest only.

    Raises:
        SelfTestError: the curve arithmetic gave a wrong point, or no candidate served.
    """
    d = int.from_bytes(secret, "big")
    e = int.from_bytes(digest, "big")
    for k in candidates:
        r = (e + multiply(k, G).x) % N
        if r == 0 or r + k == N:
            continue
        s = pow(1 + d, -1, N) * (k - r * d) % N
        if s == 0:
            continue
        return r.to_bytes(FIELD_BYTES, "big") + s.to_bytes(FIELD_BYTES, "big")
    raise SelfTestError("no nonce served for an SM2 signature")


def multiply(k: int, point: Point) -> Point:
    """Return k times a point of the curve; k is in 1 .. n - 1.

    Raises:
        SelfTestError: the result is no point of the curve.
        ValueError: k is out of range, or the point is not on the curve.
    """
    if not (1 <= k < N and is_on_curve(*point)):
        raise ValueError("a number in 1 .. n - 1 and a point of the curve are needed")
    found = _CURVE._kg(k, point.encode()[1:].hex())  # it has no public name
    if isinstance(found, str) and len(found) == 2 * _HEX_DIGITS:
        result = Point(int(found[:_HEX_DIGITS], 16), int(found[_HEX_DIGITS:], 16))
        if is_on_curve(*result):
            return result
    raise SelfTestError("gmssl's arithmetic left the SM2 curve")
