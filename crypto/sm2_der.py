"""The ASN.1 forms of SM2 signatures and ciphertexts, as OpenSSL and GM/T 0009 have them.

Inside this project both are plain bytes of fixed layout. These forms stand only where another
program is at the other end.

Source: GM/T 0009-2012, 7.2 (ciphertext: x, y, C3, C2) and 7.3 (signature: r, s).
"""

from __future__ import annotations

from typing import Final

from crypto.der import OCTET_STRING, SEQUENCE, DerReader, encode, encode_integer
from crypto.errors import FormatError
from crypto.sm2_ciphertext import DIGEST_BYTES, MAX_PLAINTEXT_BYTES, Ciphertext
from crypto.sm2_curve import FIELD_BYTES, Point

_SIGNATURE_BYTES: Final = 2 * FIELD_BYTES


def signature_to_der(signature: bytes) -> bytes:
    """Return SEQUENCE {INTEGER r, INTEGER s} for 64 bytes r || s.

    Raises:
        ValueError: these are not 64 bytes.
    """
    if len(signature) != _SIGNATURE_BYTES:
        raise ValueError("a signature has 64 bytes")
    r, s = signature[:FIELD_BYTES], signature[FIELD_BYTES:]
    numbers = (encode_integer(int.from_bytes(number, "big")) for number in (r, s))
    return encode(SEQUENCE, *numbers)


def signature_from_der(data: bytes) -> bytes:
    """Return r || s, 64 bytes. Whether r and s are in range is for the verification to say.

    Raises:
        FormatError: this is not the one encoding of two numbers below 2^256.
    """
    outer = DerReader(data)
    numbers = outer.sequence()
    outer.finish()
    r = numbers.integer(FIELD_BYTES)
    s = numbers.integer(FIELD_BYTES)
    numbers.finish()
    return r.to_bytes(FIELD_BYTES, "big") + s.to_bytes(FIELD_BYTES, "big")


def ciphertext_to_der(ciphertext: bytes) -> bytes:
    """Return SEQUENCE {INTEGER x, INTEGER y, OCTET STRING C3, OCTET STRING C2}.

    Args:
        ciphertext: C1 || C3 || C2 with C1 = 04 || x || y.

    Raises:
        FormatError: as `Ciphertext.decode`.
    """
    parts = Ciphertext.decode(ciphertext)
    return encode(
        SEQUENCE,
        encode_integer(parts.c1.x),
        encode_integer(parts.c1.y),
        encode(OCTET_STRING, parts.c3),
        encode(OCTET_STRING, parts.c2),
    )


def ciphertext_from_der(data: bytes) -> bytes:
    """Return C1 || C3 || C2. Whether C1 is on the curve is for the decryption to say.

    Raises:
        FormatError: this is not the one encoding of a ciphertext of 1 .. 1024 bytes.
    """
    outer = DerReader(data)
    parts = outer.sequence()
    outer.finish()
    x = parts.integer(FIELD_BYTES)
    y = parts.integer(FIELD_BYTES)
    at = parts.offset
    c3 = parts.octet_string()
    if len(c3) != DIGEST_BYTES:
        raise FormatError(at, "sm2-ciphertext-length")
    at = parts.offset
    c2 = parts.octet_string()
    if not 1 <= len(c2) <= MAX_PLAINTEXT_BYTES:
        raise FormatError(at, "sm2-ciphertext-length")
    parts.finish()
    return Ciphertext(Point(x, y), c3, c2).encode()
