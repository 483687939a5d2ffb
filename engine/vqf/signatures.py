"""The section of signatures (FORMAT.md section 7, rules S1 to S6).

Here it is read and written; whether a signature verifies and counts is for `crypto.policy` to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from crypto.cbor import decode, encode
from crypto.cose import Sign1, decode_sign1
from crypto.errors import FormatError as EncodingError
from crypto.release import RELEASE_TYPE, Release, decode_release
from engine.errors import FormatError
from engine.vqf.format import MAX_SIGNATURES_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_SIGNATURES: Final = 16
MAX_SIGNATURE_BYTES: Final = 4096


class SignedRelease(NamedTuple):
    """One signature, well formed and not verified."""

    sign1: Sign1
    release: Release
    encoded: bytes


def encode_signatures(encoded: Iterable[bytes]) -> bytes:
    """Return the section that holds these COSE_Sign1 objects.

    Raises:
        ValueError: there are none or too many, or one is too long.
    """
    entries = sorted(set(encoded))
    if not 1 <= len(entries) <= MAX_SIGNATURES:
        raise ValueError(f"a file has 1 to {MAX_SIGNATURES} signatures, not {len(entries)}")
    section = encode(entries)
    if len(section) > MAX_SIGNATURES_BYTES or max(map(len, entries)) > MAX_SIGNATURE_BYTES:
        raise ValueError("a signature is too long")
    return section


def parse_signatures(
    unverified_section: bytes, offset: int, model_digest: bytes
) -> tuple[SignedRelease, ...]:
    """Return the signatures of a file.

    Args:
        unverified_section: the section, at most 65,536 bytes.
        offset: where it stands in the file (in a sealed one: where its cipher text does).
        model_digest: the identity of this file.

    Raises:
        FormatError: one of S1 to S6 is broken.
    """

    def fail(rule: str, at: int, message: str) -> NoReturn:
        raise FormatError(rule, offset + at, message)

    try:
        entries = decode(unverified_section, max_bytes=MAX_SIGNATURES_BYTES)
    except EncodingError as error:
        fail("S1", error.offset, f"signatures: {error.rule}")
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_SIGNATURES:
        fail("S1", 0, f"signatures are an array of 1 to {MAX_SIGNATURES}")
    found: list[SignedRelease] = []
    position = 1
    for entry in entries:
        if not isinstance(entry, bytes) or len(entry) > MAX_SIGNATURE_BYTES:
            fail("S1", position, f"a signature is a string of at most {MAX_SIGNATURE_BYTES} bytes")
        start = position + len(encode(entry)) - len(entry)
        position = start + len(entry)
        if found and entry <= found[-1].encoded:
            fail("S2", start, "signatures do not ascend")
        try:
            sign1 = decode_sign1(entry, max_bytes=MAX_SIGNATURE_BYTES)
        except EncodingError as error:
            fail("S3", start + error.offset, f"signature: {error.rule}")
        if sign1.typ != RELEASE_TYPE:
            fail("S3", start, "a signature is of another type")
        try:
            release = decode_release(sign1.payload)
        except EncodingError as error:
            fail("S4", start, f"release: {error.rule}")
        if release.model_digest != model_digest:
            fail("S5", start, "a signature is for another model")
        if any(s.sign1.key_id == sign1.key_id and s.release == release for s in found):
            fail("S6", start, "a key has signed the same release twice")
        found.append(SignedRelease(sign1, release, entry))
    return tuple(found)
