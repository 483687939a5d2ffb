"""Private keys as PrivateKeyInfo around ECPrivateKey.

Source: RFC 5958 section 2 (version 0, no attributes), RFC 5915 section 3.
"""

from __future__ import annotations

import hmac
from typing import Final

from crypto.der import (
    CONTEXT,
    OCTET_STRING,
    SEQUENCE,
    DerReader,
    encode,
    encode_bit_string,
    encode_integer,
)
from crypto.errors import FormatError, KeyFileError
from crypto.sm2 import PrivateKey, private_key
from crypto.sm2_curve import FIELD_BYTES
from crypto.spki import ALGORITHM, SM2_CURVE, read_algorithm

_INFO_VERSION: Final = 0
_EC_VERSION: Final = 1
_PARAMETERS: Final = CONTEXT + 0
_PUBLIC: Final = CONTEXT + 1


def encode_pkcs8(key: PrivateKey) -> bytes:
    """Return the PrivateKeyInfo of a key, with its public key, as OpenSSL writes it.

    Raises:
        ValueError: the key was wiped.
    """
    public = encode(_PUBLIC, encode_bit_string(key.public_key.to_bytes()))
    with key.secret() as secret:
        number = encode(OCTET_STRING, bytes(secret))
    inner = encode(SEQUENCE, encode_integer(_EC_VERSION), number, public)
    return encode(SEQUENCE, encode_integer(_INFO_VERSION), ALGORITHM, encode(OCTET_STRING, inner))


def decode_pkcs8(data: bytes) -> PrivateKey:
    """Return the key in a PrivateKeyInfo; the public key is computed, and compared if it is there.

    Raises:
        FormatError: the encoding breaks a DER rule.
        KeyFileError: `format`: no SM2 key, or its halves do not belong together; `range`: the
            number is not in 1 .. n - 2.
    """
    outer = DerReader(data)
    info = outer.sequence()
    outer.finish()
    _read_version(info, _INFO_VERSION)
    read_algorithm(info)
    inner = info.octet_string()
    info.finish()
    return _decode_ec(inner)


def _decode_ec(data: bytes) -> PrivateKey:
    """Return the key in an ECPrivateKey."""
    outer = DerReader(data)
    ec = outer.sequence()
    outer.finish()
    _read_version(ec, _EC_VERSION)
    at = ec.offset
    secret = ec.octet_string()
    if len(secret) != FIELD_BYTES:
        raise FormatError(at, "der-integer-size")
    if ec.next_tag() == _PARAMETERS:
        parameters = ec.constructed(_PARAMETERS)
        if parameters.object_identifier() != SM2_CURVE:
            raise KeyFileError("format", "the key names two different curves")
        parameters.finish()
    public: bytes | None = None
    if ec.next_tag() == _PUBLIC:
        wrapped = ec.constructed(_PUBLIC)
        public = wrapped.bit_string()
        wrapped.finish()
    ec.finish()
    key = private_key(secret)
    if public is not None and not hmac.compare_digest(public, key.public_key.to_bytes()):
        key.wipe()
        raise KeyFileError("format", "the public key in it is not the one of the private key")
    return key


def _read_version(reader: DerReader, version: int) -> None:
    """Take the version of a structure."""
    at = reader.offset
    if reader.integer(1) != version:
        raise FormatError(at, "key-version")
