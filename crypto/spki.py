"""How SM2 keys name their algorithm, and SubjectPublicKeyInfo.

Two forms are about: id-ecPublicKey with the curve as its parameter, which is written here, and the
curve's identifier in the place of the algorithm, which GM/T 0015-2023 allows and devices (and some
versions of OpenSSL) write. Both mean the same key.

Source: RFC 5280 section 4.1, RFC 5480 section 2, GM/T 0015-2023.
"""

from __future__ import annotations

from typing import Final

from crypto.der import (
    NULL,
    OBJECT_IDENTIFIER,
    SEQUENCE,
    DerReader,
    encode,
    encode_bit_string,
    object_identifier,
)
from crypto.errors import KeyFileError
from crypto.sm2_curve import Point, decode_point

SM2_CURVE: Final = object_identifier("1.2.156.10197.1.301")
_EC_PUBLIC_KEY: Final = object_identifier("1.2.840.10045.2.1")

ALGORITHM: Final = encode(SEQUENCE, _EC_PUBLIC_KEY, SM2_CURVE)
"""The AlgorithmIdentifier that is written."""

_OTHER_ALGORITHMS: Final = {
    object_identifier("1.2.840.113549.1.1.1"): "RSA",
    object_identifier("1.2.840.113549.1.1.10"): "RSA-PSS",
    object_identifier("1.2.840.10040.4.1"): "DSA",
    object_identifier("1.3.101.110"): "X25519",
    object_identifier("1.3.101.112"): "Ed25519",
    object_identifier("1.3.101.113"): "Ed448",
}
_OTHER_CURVES: Final = {
    object_identifier("1.2.840.10045.3.1.7"): "P-256",
    object_identifier("1.3.132.0.34"): "P-384",
    object_identifier("1.3.132.0.35"): "P-521",
    object_identifier("1.3.132.0.10"): "secp256k1",
}


def read_algorithm(reader: DerReader) -> None:
    """Take an AlgorithmIdentifier that must name SM2 in one of the two forms.

    Raises:
        FormatError: the encoding breaks a DER rule.
        KeyFileError: `format`: it names something else.
    """
    algorithm = reader.sequence()
    identifier = algorithm.object_identifier()
    if identifier == SM2_CURVE:
        _skip_same_curve(algorithm)
    elif identifier == _EC_PUBLIC_KEY:
        _read_curve(algorithm)
    else:
        _refuse(_OTHER_ALGORITHMS.get(identifier))
    algorithm.finish()


def encode_spki(point: Point) -> bytes:
    """Return the 91 bytes of the SubjectPublicKeyInfo of a public key, in the first form."""
    return encode(SEQUENCE, ALGORITHM, encode_bit_string(point.encode()))


def decode_spki(data: bytes) -> Point:
    """Return the public key in a SubjectPublicKeyInfo of either form.

    Raises:
        FormatError: the encoding breaks a DER rule.
        KeyFileError: `format`: the key is not one of SM2, or its point is not on the curve.
    """
    outer = DerReader(data)
    info = outer.sequence()
    outer.finish()
    read_algorithm(info)
    encoded = info.bit_string()
    info.finish()
    point = decode_point(encoded)
    if point is None:
        raise KeyFileError("format", "the public key is no point of the SM2 curve (04 || x || y)")
    return point


def _skip_same_curve(algorithm: DerReader) -> None:
    """Take the parameters of the second form: none, NULL, or the curve once more."""
    if algorithm.next_tag() == NULL:
        algorithm.null()
    elif algorithm.next_tag() is not None and algorithm.object_identifier() != SM2_CURVE:
        raise KeyFileError("format", "the key names two different curves")


def _read_curve(algorithm: DerReader) -> None:
    """Take the curve of the first form."""
    if algorithm.next_tag() != OBJECT_IDENTIFIER:
        raise KeyFileError(
            "format", "the key spells its curve out or names none; only the named SM2 curve is read"
        )
    curve = algorithm.object_identifier()
    if curve != SM2_CURVE:
        _refuse(_OTHER_CURVES.get(curve))


def _refuse(name: str | None) -> None:
    """Say which key this is instead of one of SM2."""
    article = "a key of another algorithm" if name is None else f"a key of {name}"
    raise KeyFileError("format", f"this is {article}; an SM2 key is needed")
