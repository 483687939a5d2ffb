"""What SM2 signs: the digest over the signer's identity, his public key and the message.

Source: GB/T 32918.2-2016, 5.5 and 6.1.
"""

from __future__ import annotations

from typing import Final

from crypto.sm2_curve import FIELD_BYTES, A, B, G, Point
from crypto.sm3 import Sm3, sm3

DEFAULT_ID: Final = b"1234567812345678"
"""The identity of a signer who has none of his own (GM/T 0009-2012, clause 10)."""

MAX_ID_BYTES: Final = 8190
"""Its length in bits has to fit into two bytes; libcrypto takes one byte less than that allows."""

_CURVE: Final = A.to_bytes(FIELD_BYTES, "big") + B.to_bytes(FIELD_BYTES, "big") + G.encode()[1:]


def identity_digest(public_point: Point, identifier: bytes) -> bytes:
    """Return Z_A, 32 bytes: the digest of identity, curve and public key.

    Raises:
        ValueError: the identity is longer than 8190 bytes.
    """
    if len(identifier) > MAX_ID_BYTES:
        raise ValueError(f"an identity has at most {MAX_ID_BYTES} bytes")
    bits = (8 * len(identifier)).to_bytes(2, "big")
    return sm3(bits + identifier + _CURVE + public_point.encode()[1:])


def message_digest(public_point: Point, message: bytes, identifier: bytes) -> bytes:
    """Return e = SM3(Z_A || message), the 32 bytes that are signed.

    Raises:
        ValueError: as `identity_digest`.
    """
    state = Sm3(identity_digest(public_point, identifier))
    state.update(message)
    return state.digest()
