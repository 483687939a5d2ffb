"""Checking an SM2 signature, in integers of our own: the implementation that no signer here uses.

Everything here is public, so nothing needs constant time.

Source: GB/T 32918.2-2016, 7.1.
"""

from __future__ import annotations

from typing import Final

from crypto.errors import InvalidSignatureError
from crypto.sm2_curve import FIELD_BYTES, N
from crypto.sm2_digest import DEFAULT_ID, message_digest
from crypto.sm2_keys import PublicKey
from crypto.sm2_points import add_multiples

SIGNATURE_BYTES: Final = 2 * FIELD_BYTES


def verify(
    public_key: PublicKey,
    message: bytes,
    unverified_signature: bytes,
    *,
    identifier: bytes = DEFAULT_ID,
) -> None:
    """Check the signature r || s, 64 bytes, over `message` by a signer of this identity.

    Raises:
        InvalidSignatureError: it does not verify, whatever is wrong with it.
        ValueError: the identity is longer than 8190 bytes.
    """
    digest = message_digest(public_key.point, message, identifier)
    verify_digest(public_key, digest, unverified_signature)


def verify_digest(public_key: PublicKey, digest: bytes, unverified_signature: bytes) -> None:
    """Check a signature over the 32 bytes e = SM3(Z_A || message).

    Raises:
        InvalidSignatureError: it does not verify.
    """
    if len(unverified_signature) != SIGNATURE_BYTES:
        raise InvalidSignatureError
    r = int.from_bytes(unverified_signature[:FIELD_BYTES], "big")
    s = int.from_bytes(unverified_signature[FIELD_BYTES:], "big")
    if not (1 <= r < N and 1 <= s < N):
        raise InvalidSignatureError
    t = (r + s) % N
    if t == 0:
        raise InvalidSignatureError
    point = add_multiples(s, t, public_key.point)
    if point is None or (int.from_bytes(digest, "big") + point.x) % N != r:
        raise InvalidSignatureError
