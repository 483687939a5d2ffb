"""COSE_Sign1 with SM2 in the one form of crypto/README.md, section COSE."""

from __future__ import annotations

import re

from verifier import cbor, sm2
from verifier.errors import MalformedError

ALGORITHM = -70001
_TYPE = re.compile(r"[a-z][a-z-]*(/[a-z][a-z-]*)+;v=[1-9][0-9]*")


class Sign1:
    """A signed object as it was read; nothing is verified yet."""

    __slots__ = ("data", "key_id", "payload", "protected", "signature", "typ")

    def __init__(self, data: bytes, protected: bytes, payload: bytes, signature: bytes) -> None:
        self.data = data
        self.protected = protected
        self.payload = payload
        self.signature = signature
        self.key_id, self.typ = _header(protected)

    def verifies(self, key: sm2.PublicKey) -> bool:
        """Return whether the signature is one of this key, which must be the one named."""
        heads = cbor.head(2, len(self.protected)), cbor.head(2, len(self.payload))
        message = (
            b"\x84\x6aSignature1" + heads[0] + self.protected + b"\x40" + heads[1] + self.payload
        )
        return key.key_id == self.key_id and sm2.verifies(key, message, self.signature)


def decode_sign1(data: bytes, max_bytes: int) -> Sign1:
    """Read an object (MalformedError)."""
    if len(data) > max_bytes:
        raise MalformedError("max-bytes", max_bytes)
    if data[:1] != b"\xd2":
        raise MalformedError("sign1-tag")
    try:
        parts = cbor.decode(data[1:], max_bytes=max_bytes)
    except MalformedError as error:
        raise MalformedError(error.rule, error.offset + 1) from None
    if not isinstance(parts, list) or len(parts) != 4:
        raise MalformedError("sign1-structure", 1)
    protected, unprotected, payload, signature = parts
    if not (
        isinstance(protected, bytes)
        and isinstance(unprotected, dict)
        and isinstance(payload, bytes)
        and isinstance(signature, bytes)
    ):
        raise MalformedError("sign1-structure", 1)
    if unprotected:
        raise MalformedError("sign1-unprotected")
    if len(signature) != 64:
        raise MalformedError("sign1-signature")
    return Sign1(data, protected, payload, signature)


def _header(protected: bytes) -> tuple[bytes, str]:
    header = cbor.decode(protected, max_bytes=256)
    if not isinstance(header, dict):
        raise MalformedError("object-map")
    if set(header) != {1, 4, 16}:
        raise MalformedError("missing-key" if {1, 4, 16} - set(header) else "unknown-key")
    algorithm, key_id, typ = header[1], header[4], header[16]
    if type(algorithm) is not int:
        raise MalformedError("value-type")
    if algorithm != ALGORITHM:
        raise MalformedError("sign1-algorithm")
    if not isinstance(key_id, bytes) or not isinstance(typ, str):
        raise MalformedError("value-type")
    if len(key_id) != 32 or not 1 <= len(typ) <= 64:
        raise MalformedError("value-range")
    if not _TYPE.fullmatch(typ):
        raise MalformedError("text-characters")
    return key_id, typ
