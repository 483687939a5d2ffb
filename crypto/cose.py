"""COSE_Sign1 with SM2 over SM3: the one envelope of everything that this project signs.

The bytes are `d2 84 || bstr(protected) || a0 || bstr(payload) || bstr(signature)`. Behind the tag
byte this is an array of our CBOR subset, and so are header and payload inside it: an object has one
encoding, and what was signed is what was read. The type of an object stands in its protected
header, and a reader accepts only the type that it expects.

Source: RFC 9052 sections 4.2 and 4.4, RFC 9596 (typ), engine/vqf/FORMAT.md section 7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from crypto.cbor import MAX_BYTES, decode, encode
from crypto.cbor_map import CborMap
from crypto.errors import FormatError, InvalidSignatureError, SelfTestError
from crypto.signer import Signer, checked_sign
from crypto.sm2 import PublicKey
from crypto.sm2 import verify as verify_sm2
from crypto.sm3 import DIGEST_BYTES

SM2_WITH_SM3: Final = -70001
SIGNATURE_BYTES: Final = 64
MAX_TYPE_CHARACTERS: Final = 64
TYPE: Final = re.compile(r"[a-z][a-z-]*(?:/[a-z][a-z-]*)+;v=[1-9][0-9]*")

_TAG: Final = b"\xd2"  # tag 18
_CONTEXT: Final = "Signature1"
_ALGORITHM: Final = 1
_KEY_ID: Final = 4
_TYPE: Final = 16
_HEADERS: Final = frozenset({_ALGORITHM, _KEY_ID, _TYPE})
_MAX_PROTECTED_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class Sign1:
    """A signed object that is well formed; whether it was signed is for `verify` to say.

    Attributes:
        key_id: 32 bytes that name the key which, it says, signed it.
        typ: the type of the object, as it says.
        payload: what is signed.
        signature: 64 bytes, r || s.
        protected: the encoded header, which is signed too.
    """

    key_id: bytes
    typ: str
    payload: bytes
    signature: bytes
    protected: bytes

    def verify(self, public_key: PublicKey, *, typ: str) -> None:
        """Check that `public_key` signed this payload as an object of type `typ`.

        Raises:
            FormatError: rule `type`: it is an object of another type.
            InvalidSignatureError: another key is named, or the signature did not verify.
        """
        if self.typ != typ:
            raise FormatError(0, "type")
        if self.key_id != public_key.key_id:
            raise InvalidSignatureError("the signature did not verify")
        verify_sm2(public_key, _to_be_signed(self.protected, self.payload), self.signature)


def sign1(payload: bytes, *, typ: str, signer: Signer) -> bytes:
    """Return the signed object that holds `payload`, one item of the CBOR subset.

    Before the key is used, everything that it will sign is read by the strict decoder and compared
    with what was meant; `checked_sign` verifies the signature before it leaves.

    Raises:
        ValueError: the payload is not in the CBOR subset, the object would be longer than
            `crypto.cbor.MAX_BYTES`, or `typ` is no type.
        SelfTestError: what was encoded does not read as what was meant, or the signer's key id is
            not that of its public key.
        CryptoError: as the signer and the check of its signature raise it.
    """
    key_id = signer.public_key.key_id
    if signer.key_id != key_id:
        raise SelfTestError("the signer's key id is not that of its public key")
    protected = encode({_ALGORITHM: SM2_WITH_SM3, _KEY_ID: key_id, _TYPE: typ})
    message = _to_be_signed(protected, payload)
    unsigned = bytes(SIGNATURE_BYTES)
    meant = Sign1(key_id, typ, payload, unsigned, protected)
    try:
        decode(payload)
        written = decode_sign1(_encode_sign1(protected, payload, unsigned), max_bytes=MAX_BYTES)
    except FormatError as error:
        raise ValueError(f"no object that can be signed: {error}") from None
    if written != meant or decode(message) != [_CONTEXT, protected, b"", payload]:
        raise SelfTestError("the encoding of an object does not read as the object")
    return _encode_sign1(protected, payload, checked_sign(signer, message))


def decode_sign1(unverified_data: bytes | bytearray | memoryview, *, max_bytes: int) -> Sign1:
    """Return the parts of a signed object; nothing in them is verified.

    Raises:
        FormatError: a rule of the CBOR subset, of objects or of COSE_Sign1 (crypto/README.md).
    """
    if memoryview(unverified_data).nbytes > max_bytes:
        raise FormatError(max_bytes, "max-bytes")
    data = bytes(unverified_data)
    if data[:1] != _TAG:
        raise FormatError(0, "sign1-tag")
    try:
        parts = decode(data[1:], max_bytes=max_bytes)
    except FormatError as error:
        raise FormatError(1 + error.offset, error.rule) from None
    match parts:
        case [bytes(protected), dict(unprotected), bytes(payload), bytes(signature)]:
            pass
        case _:
            raise FormatError(1, "sign1-structure")
    after_protected = 2 + len(encode(protected))
    if unprotected:
        raise FormatError(after_protected, "sign1-unprotected")
    if len(signature) != SIGNATURE_BYTES:
        raise FormatError(after_protected + 1 + len(encode(payload)), "sign1-signature")
    key_id, typ = _read_header(protected, after_protected - len(protected))
    return Sign1(key_id, typ, payload, signature, protected)


def _read_header(protected: bytes, start: int) -> tuple[bytes, str]:
    """Return key id and type from a protected header that begins at offset `start`."""
    header = CborMap(protected, _HEADERS, max_bytes=_MAX_PROTECTED_BYTES, start=start)
    if header.integer(_ALGORITHM, -(1 << 63), (1 << 64) - 1) != SM2_WITH_SM3:
        raise header.refusal(_ALGORITHM, "sign1-algorithm")
    key_id = header.octets(_KEY_ID, DIGEST_BYTES, DIGEST_BYTES)
    return key_id, header.text(_TYPE, TYPE, MAX_TYPE_CHARACTERS)


def _encode_sign1(protected: bytes, payload: bytes, signature: bytes) -> bytes:
    """Return the object from its parts."""
    return _TAG + encode([protected, {}, payload, signature])


def _to_be_signed(protected: bytes, payload: bytes) -> bytes:
    """Return the Sig_structure: the message that the signature is over."""
    return encode([_CONTEXT, protected, b"", payload])
