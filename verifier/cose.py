"""COSE_Sign1 with SM2 in the one form of crypto/README.md, section COSE."""

from __future__ import annotations

from verifier import cbor, sm2
from verifier.errors import DIGITS, LOWER, MalformedError, require, spelt

ALGORITHM = -70001


class Sign1:
    """A signed object as it was read; nothing is verified yet."""

    __slots__ = ("data", "key_id", "payload", "protected", "signature", "typ")

    def __init__(self, data: bytes, protected: bytes, payload: bytes, signature: bytes) -> None:
        self.data, self.protected = data, protected
        self.payload, self.signature = payload, signature
        self.key_id, self.typ = _header(protected)

    def verifies(self, key: sm2.PublicKey) -> bool:
        """Return whether the signature is one of this key, which must be the one named."""
        heads = cbor.head(2, len(self.protected)), cbor.head(2, len(self.payload))
        message = b"\x84\x6aSignature1" + heads[0] + self.protected + b"\x40"
        message += heads[1] + self.payload
        return key.key_id == self.key_id and sm2.verifies(key, message, self.signature)


def decode_sign1(data: bytes, max_bytes: int) -> Sign1:
    """Read an object (MalformedError)."""
    require(len(data) <= max_bytes, "max-bytes", max_bytes)
    require(data[:1] == b"\xd2", "sign1-tag")
    try:
        parts = cbor.decode(data[1:], max_bytes=max_bytes)
    except MalformedError as error:
        raise MalformedError(error.rule, error.offset + 1) from None
    kinds = [type(part) for part in parts] if isinstance(parts, list) else []
    require(kinds == [bytes, dict, bytes, bytes], "sign1-structure", 1)
    protected, unprotected, payload, signature = parts
    require(not unprotected, "sign1-unprotected")
    require(len(signature) == 64, "sign1-signature")
    return Sign1(data, protected, payload, signature)


def _header(protected: bytes) -> tuple[bytes, str]:
    header = cbor.decode(protected, max_bytes=256)
    require(isinstance(header, dict), "object-map")
    require({1, 4, 16} <= header.keys(), "missing-key")
    require(len(header) == 3, "unknown-key")
    algorithm, key_id, typ = header[1], header[4], header[16]
    require(type(algorithm) is int, "value-type")
    require(algorithm == ALGORITHM, "sign1-algorithm")
    require(type(key_id) is bytes and type(typ) is str, "value-type")
    require(len(key_id) == 32 and 1 <= len(typ) <= 64, "value-range")
    path, _, version = typ.partition(";v=")
    good = "/" in path and spelt(version, DIGITS, first=DIGITS[1:])
    good = good and all(spelt(part, LOWER + "-", first=LOWER) for part in path.split("/"))
    require(good, "text-characters")
    return key_id, typ
