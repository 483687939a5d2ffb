"""What a trust file holds: keys with a role and a window, lines, revocation rules, pinned logs."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from crypto.errors import FormatError, KeyFileError
from crypto.sm2 import PublicKey

ROLES: Final = ("weights", "software", "attest", "witness", "revoke", "unseal")

_INSTANT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})Z", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key that the file names.

    Attributes:
        name: what the file calls it.
        role: the one purpose that its signatures are accepted for.
        public_key: the key itself.
        not_before: first second in which it is accepted, since 1970-01-01 UTC; None: always was.
        not_after: first second in which it is not accepted any more; None: never.
    """

    name: str
    role: str
    public_key: PublicKey
    not_before: int | None
    not_after: int | None

    @property
    def key_id(self) -> bytes:
        """Return the 32 bytes by which signatures name the key."""
        return self.public_key.key_id

    def is_too_early(self, now: int) -> bool:
        """Say whether the key's window has not begun at `now`."""
        return self.not_before is not None and now < self.not_before

    def is_too_late(self, now: int) -> bool:
        """Say whether the key's window is over at `now`."""
        return self.not_after is not None and now >= self.not_after


@dataclass(frozen=True, slots=True)
class Line:
    """Who may sign the releases of a line.

    Attributes:
        name: the line, as releases name it.
        signer_ids: key ids of the `weights` keys that may sign.
        threshold: how many of them must have signed the same payload, 1 .. len(signer_ids).
        minimum_release: the least release that is accepted.
    """

    name: str
    signer_ids: frozenset[bytes]
    threshold: int
    minimum_release: int


@dataclass(frozen=True, slots=True)
class RevocationRules:
    """What is asked of the list of revocations.

    Attributes:
        required: nothing is accepted without a list.
        minimum_sequence: the least sequence number of a list that is accepted.
        maximum_age_s: how many seconds a list is accepted after its issue; None: for ever.
    """

    required: bool
    minimum_sequence: int
    maximum_age_s: int | None


@dataclass(frozen=True, slots=True)
class PinnedLog:
    """An attestation log that the file names, with its id of 32 bytes."""

    name: str
    log_id: bytes


def parse_instant(text: str) -> int:
    """Return the seconds since 1970-01-01 UTC of `2026-01-31T00:00:00Z`; no other form is one.

    Raises:
        ValueError: another form, a date that the calendar does not have, or a year before 1970.
    """
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError("an instant is written like 2026-01-31T00:00:00Z")
    year, month, day, hour, minute, second = map(int, match.groups())
    seconds = (datetime(year, month, day, hour, minute, second, tzinfo=UTC) - _EPOCH) // timedelta(
        seconds=1
    )
    if seconds < 0:
        raise ValueError("an instant is not before 1970")
    return seconds


def format_instant(seconds: int) -> str:
    """Return the text that `parse_instant` reads as `seconds`.

    Raises:
        ValueError: not in the years 1970 to 9999.
    """
    try:
        instant = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError("an instant is before the year 10000") from None
    if seconds < 0:
        raise ValueError("an instant is not before 1970")
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_public_key(text: str) -> PublicKey:
    """Return the key of the base64 of a SubjectPublicKeyInfo; each key has exactly one such text.

    The only encoding taken is the DER that the key id is made of, so that two texts are two keys.

    Raises:
        ValueError: not base64 in its one form, or not that DER.
    """
    try:
        der = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("not base64") from None
    if base64.b64encode(der).decode("ascii") != text:
        raise ValueError("not base64 in its one form")
    try:
        key = PublicKey.from_spki_der(der)
    except (FormatError, KeyFileError):
        raise ValueError("no SubjectPublicKeyInfo of an SM2 key") from None
    if key.spki_der() != der:
        raise ValueError("another form of the same SubjectPublicKeyInfo")
    return key
