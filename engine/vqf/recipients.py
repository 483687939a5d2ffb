"""Who can open a sealed file: the recipients' area (FORMAT.md section 8, rules E1 to E3)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from crypto.cbor import decode, encode
from crypto.errors import FormatError as EncodingError
from engine.errors import FormatError
from engine.vqf.format import PREAMBLE_BYTES, RECIPIENTS_BYTES, TAG_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEY_ID_BYTES: Final = 32
WRAPPED_FOR_KEY_BYTES: Final = 129
SALT_BYTES: Final = 32
WRAPPED_BY_PASSPHRASE_BYTES: Final = 32
MAX_RECIPIENTS: Final = 64
LEAST_ITERATIONS: Final = 600_000
MOST_ITERATIONS: Final = 10_000_000

_LENGTH: Final = struct.Struct("<I")
_UNCOMPRESSED_POINT: Final = 4


class KeyRecipient(NamedTuple):
    """The holder of an `unseal` key."""

    key_id: bytes
    wrapped: bytes
    """The data key encrypted by SM2: C1 || C3 || C2."""


class PassphraseRecipient(NamedTuple):
    """Everybody who knows a passphrase."""

    salt: bytes
    iterations: int
    wrapped: bytes
    tag: bytes


Recipients: TypeAlias = "tuple[KeyRecipient, ...] | PassphraseRecipient"


def encode_recipients(recipients: Recipients) -> bytes:
    """Return the recipients' area, 16,384 bytes.

    Raises:
        ValueError: `parse_recipients` would refuse the area.
    """
    document: dict[str, Any]
    if isinstance(recipients, PassphraseRecipient):
        document = {"passphrase": recipients._asdict()}
    else:
        document = {"sm2": [recipient._asdict() for recipient in sorted(recipients)]}
    encoded = encode(document)
    area = (_LENGTH.pack(len(encoded)) + encoded).ljust(RECIPIENTS_BYTES, b"\0")
    try:
        parse_recipients(area)
    except FormatError as error:
        raise ValueError(f"these are no recipients of a file: {error}") from None
    return area


def parse_recipients(unverified_area: bytes) -> Recipients:
    """Return the recipients that an area of 16,384 bytes names.

    Raises:
        FormatError: E1, E2 or E3 is broken.

    Security: nothing is derived or decrypted here; the header tag still has to be compared.
    """
    (length,) = _LENGTH.unpack_from(unverified_area)
    end = _LENGTH.size + length
    if end > RECIPIENTS_BYTES:
        raise _broken("E1", 0, f"{length} bytes of recipients do not fit their area")
    if any(unverified_area[end:]):
        raise _broken("E1", end, "filling behind the recipients is not zero")
    try:
        document = decode(unverified_area[_LENGTH.size : end], max_bytes=RECIPIENTS_BYTES)
    except EncodingError as error:
        message = f"recipients: {error.rule}"
        raise _broken("E1", _LENGTH.size + error.offset, message) from None
    match document:
        case {"sm2": list(entries), **others} if not others:
            return _keys(entries)
        case {"passphrase": dict(entry), **others} if not others:
            return _passphrase(entry)
    raise _broken("E2", _LENGTH.size, "recipients are one map with `sm2` or `passphrase`")


def _keys(entries: Sequence[object]) -> tuple[KeyRecipient, ...]:
    """Return the recipients that have keys."""
    if not 1 <= len(entries) <= MAX_RECIPIENTS:
        raise _broken("E2", _LENGTH.size, f"no file has {len(entries)} recipients")
    recipients: list[KeyRecipient] = []
    for entry in entries:
        match entry:
            case {"key_id": bytes(key_id), "wrapped": bytes(wrapped), **others} if not others:
                pass
            case _:
                raise _broken("E2", _LENGTH.size, "a recipient has exactly `key_id` and `wrapped`")
        if len(key_id) != KEY_ID_BYTES or len(wrapped) != WRAPPED_FOR_KEY_BYTES:
            raise _broken("E2", _LENGTH.size, "a key id or a wrapped key has another length")
        if wrapped[0] != _UNCOMPRESSED_POINT:
            raise _broken("E2", _LENGTH.size, "a wrapped key does not begin with 04")
        if recipients and key_id <= recipients[-1].key_id:
            raise _broken("E2", _LENGTH.size, "recipients do not ascend by key id")
        recipients.append(KeyRecipient(key_id, wrapped))
    return tuple(recipients)


def _passphrase(entry: Mapping[Any, object]) -> PassphraseRecipient:
    """Return the recipient of a passphrase."""
    match entry:
        case {
            "salt": bytes(salt),
            "iterations": int(iterations),
            "wrapped": bytes(wrapped),
            "tag": bytes(tag),
            **others,
        } if not others and not isinstance(iterations, bool):
            pass
        case _:
            raise _broken("E2", _LENGTH.size, "a passphrase has salt, iterations, wrapped, tag")
    lengths = (len(salt), len(wrapped), len(tag))
    if lengths != (SALT_BYTES, WRAPPED_BY_PASSPHRASE_BYTES, TAG_BYTES):
        raise _broken("E2", _LENGTH.size, "salt, wrapped key or tag has another length")
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise _broken("E3", _LENGTH.size, f"{iterations} iterations are outside the limits")
    return PassphraseRecipient(salt, iterations, wrapped, tag)


def _broken(rule: str, offset: int, message: str) -> FormatError:
    """Return the refusal of the area because of the byte at `offset` of it."""
    return FormatError(rule, PREAMBLE_BYTES + offset, message)
