"""SM2: keys, signatures, and encryption of short secrets.

Private keys are computed with by libcrypto, or where that has no SM2 by `crypto.sm2_hedged`;
signatures are checked by `crypto.sm2_verify`, which is neither. A signature that this third
implementation does not accept never leaves.

Source: GB/T 32918.1-2016, .2, .4 and GB/T 32918.5-2017 (the curve).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

from crypto.errors import InvalidSignatureError, InvalidTagError, SelfTestError
from crypto.sm2_ciphertext import MAX_PLAINTEXT_BYTES, Ciphertext, seal
from crypto.sm2_curve import FIELD_BYTES, MAX_SECRET, N, is_on_curve
from crypto.sm2_der import (
    ciphertext_from_der,
    ciphertext_to_der,
    signature_from_der,
    signature_to_der,
)
from crypto.sm2_digest import DEFAULT_ID, message_digest
from crypto.sm2_keys import PrivateKey, PublicKey, check_secret
from crypto.sm2_points import multiply, multiply_generator
from crypto.sm2_provider import Provider, provider
from crypto.sm2_verify import SIGNATURE_BYTES, verify, verify_digest

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "DEFAULT_ID",
    "SIGNATURE_BYTES",
    "PrivateKey",
    "PublicKey",
    "ciphertext_from_der",
    "ciphertext_to_der",
    "decrypt",
    "encrypt",
    "generate",
    "private_key",
    "sign",
    "signature_from_der",
    "signature_to_der",
    "verify",
]


def generate() -> PrivateKey:
    """Return a new key of the system's randomness."""
    secret = bytearray((1 + secrets.randbelow(MAX_SECRET)).to_bytes(FIELD_BYTES, "big"))
    try:
        return private_key(secret)
    finally:
        secret[:] = bytes(FIELD_BYTES)


def private_key(secret: ReadableBuffer, *, use: Provider | None = None) -> PrivateKey:
    """Return the key of 32 secret bytes, big-endian; the public key is computed.

    Args:
        secret: copied; the caller wipes his own copy.
        use: who computes; by default the provider of this process.

    Raises:
        KeyFileError: `range`: the number is not in 1 .. n - 2.
    """
    check_secret(secret)
    point = (use or provider()).public_point(secret)
    return PrivateKey(secret, PublicKey(*point))


def sign(
    key: PrivateKey,
    message: bytes,
    *,
    identifier: bytes = DEFAULT_ID,
    use: Provider | None = None,
) -> bytes:
    """Return the signature r || s, 64 bytes, over a message, verified.

    Args:
        key: the signer's key.
        message: what is signed.
        identifier: the signer's identity, at most 8190 bytes.
        use: who computes; by default the provider of this process.

    Raises:
        SelfTestError: what was computed does not verify, as after a fault of the machine.
        UnavailableError: libcrypto could not sign.
        ValueError: the key was wiped, or the identity is too long.
    """
    digest = message_digest(key.public_key.point, message, identifier)
    with key.secret() as secret:
        signature = (use or provider()).sign(secret, key.public_key, message, identifier, digest)
    try:
        verify_digest(key.public_key, digest, signature)
    except InvalidSignatureError:
        raise SelfTestError("an SM2 signature just made does not verify") from None
    return signature


def encrypt(public_key: PublicKey, plaintext: bytes) -> bytes:
    """Return C1 || C3 || C2 for the holder of the private key, 97 bytes longer than the plain text.

    Raises:
        ValueError: the plain text has not 1 .. 1024 bytes.
    """
    return encrypt_with(public_key, plaintext, _random_numbers())


def encrypt_with(public_key: PublicKey, plaintext: bytes, numbers: Iterator[int]) -> bytes:
    """Encrypt with the first of these numbers in 1 .. n - 1 that serves; each is used up by it.

    Raises:
        ValueError: the plain text has not 1 .. 1024 bytes, or no number serves.

    Source: GB/T 32918.4-2016, 6.1.
    """
    if not 1 <= len(plaintext) <= MAX_PLAINTEXT_BYTES:
        raise ValueError(f"a plain text has 1 .. {MAX_PLAINTEXT_BYTES} bytes")
    for k in numbers:
        c1, shared = multiply_generator(k), multiply(k, public_key.point)
        if c1 is not None and shared is not None:
            ciphertext = seal(c1, shared, plaintext)
            if ciphertext is not None:
                return ciphertext.encode()
    raise ValueError("no number serves")


def decrypt(key: PrivateKey, ciphertext: bytes, *, use: Provider | None = None) -> bytes:
    """Return the plain text of C1 || C3 || C2.

    Args:
        key: the recipient's key.
        ciphertext: 98 .. 1121 bytes.
        use: who computes; by default the provider of this process.

    Raises:
        FormatError: as `Ciphertext.decode`.
        InvalidTagError: it was altered, or is for another key.
        UnavailableError: libcrypto could not compute.
        ValueError: the key was wiped.

    Source: GB/T 32918.4-2016, 7.1.
    """
    parts = Ciphertext.decode(ciphertext)
    if not is_on_curve(*parts.c1):
        raise InvalidTagError
    with key.secret() as secret:
        return (use or provider()).decrypt(secret, key.public_key, parts)


def _random_numbers() -> Iterator[int]:
    """Yield random numbers in 1 .. n - 1."""
    while True:
        candidate = int.from_bytes(os.urandom(FIELD_BYTES), "big")
        if 1 <= candidate < N:
            yield candidate
