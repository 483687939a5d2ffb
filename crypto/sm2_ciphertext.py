"""The parts of an SM2 ciphertext, and how they follow from the point that both sides compute.

Source: GB/T 32918.4-2016, 5.4.3 (key derivation), 6 (encryption), 7 (decryption).
"""

from __future__ import annotations

import hmac
from typing import Final, NamedTuple, Self

from crypto.errors import FormatError, InvalidTagError
from crypto.sm2_curve import FIELD_BYTES, POINT_BYTES, UNCOMPRESSED, Point
from crypto.sm3 import DIGEST_BYTES, prefixed, sm3

MAX_PLAINTEXT_BYTES: Final = 1024
MIN_BYTES: Final = POINT_BYTES + DIGEST_BYTES + 1
MAX_BYTES: Final = POINT_BYTES + DIGEST_BYTES + MAX_PLAINTEXT_BYTES

__all__ = ["DIGEST_BYTES", "MAX_BYTES", "MAX_PLAINTEXT_BYTES", "MIN_BYTES", "Ciphertext"]


class Ciphertext(NamedTuple):
    """C1 (a point, not yet checked), C3 (32 bytes) and C2 (as long as the plain text)."""

    c1: Point
    c3: bytes
    c2: bytes

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Take C1 || C3 || C2 apart; C1 = 04 || x || y.

        Raises:
            FormatError: `sm2-ciphertext-length` for plain texts outside 1 .. 1024 bytes,
                `sm2-ciphertext-point` if C1 does not begin with 04.
        """
        if not MIN_BYTES <= len(data) <= MAX_BYTES:
            raise FormatError(0, "sm2-ciphertext-length")
        if data[:1] != UNCOMPRESSED:
            raise FormatError(0, "sm2-ciphertext-point")
        x = int.from_bytes(data[1 : 1 + FIELD_BYTES], "big")
        y = int.from_bytes(data[1 + FIELD_BYTES : POINT_BYTES], "big")
        c3_end = POINT_BYTES + DIGEST_BYTES
        return cls(Point(x, y), data[POINT_BYTES:c3_end], data[c3_end:])

    def encode(self) -> bytes:
        """Return C1 || C3 || C2."""
        return self.c1.encode() + self.c3 + self.c2


def seal(c1: Point, shared: Point, plaintext: bytes) -> Ciphertext | None:
    """Encrypt under the shared point; None if its mask is zero and another one has to be drawn."""
    mask = _mask(shared, len(plaintext))
    if not any(mask):
        return None
    return Ciphertext(c1, _c3(shared, plaintext), _xor(plaintext, mask))


def open_shared(ciphertext: Ciphertext, shared: Point) -> bytes:
    """Decrypt under the shared point; nothing is returned before C3 has been compared.

    Raises:
        InvalidTagError: C3 is not that of the plain text, or the mask is zero.
    """
    mask = _mask(shared, len(ciphertext.c2))
    plaintext = _xor(ciphertext.c2, mask)
    if not hmac.compare_digest(_c3(shared, plaintext), ciphertext.c3) or not any(mask):
        raise InvalidTagError
    return plaintext


def _mask(shared: Point, length: int) -> bytes:
    """Return the key stream: SM3(x || y || 1) || SM3(x || y || 2) .. cut to `length` bytes."""
    block = prefixed(shared.encode()[1:])
    count = -(-length // DIGEST_BYTES)
    return b"".join(block(i.to_bytes(4, "big")) for i in range(1, count + 1))[:length]


def _c3(shared: Point, plaintext: bytes) -> bytes:
    """Return SM3(x || plain text || y)."""
    x, y = shared.x.to_bytes(FIELD_BYTES, "big"), shared.y.to_bytes(FIELD_BYTES, "big")
    return sm3(x + plaintext + y)


def _xor(a: bytes, b: bytes) -> bytes:
    """Return the bitwise difference of two byte strings of one length, in constant time."""
    return (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).to_bytes(len(a), "big")
