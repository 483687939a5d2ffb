"""Entries of the log that concern no request: its beginning, a start, a new key, a clock.

Source: verifier/SPEC.md section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from crypto import evidence as claim
from crypto.evidence import Claims, encode_checked

EVENT_TYPE: Final = "windhover/event;v=1"
EVENTS: Final = ("genesis", "boot", "key", "clock")
KEY_BYTES: Final = 91
"""Length of the SubjectPublicKeyInfo of a key."""

_REQUIRED: Final = frozenset(
    {claim.ISSUER, claim.LOG_ID, claim.SEQUENCE, claim.TIME, claim.EVENT, claim.REASON}
)
_OPTIONAL: Final = frozenset({claim.REPLACES, claim.NEXT_KEY})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedLog:
    """The last head that is known of a log which another one replaces.

    log_id, root: 32 bytes each. size: number of entries.
    """

    log_id: bytes
    size: int
    root: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to the log or its appliance.

    Attributes:
        issuer: 1 .. 64 characters of printable ASCII.
        log_id: 32 bytes.
        sequence: index of this entry in the log; 0 for a genesis, and for nothing else.
        time_ms: milliseconds since 1970-01-01 UTC.
        event: one of `EVENTS`.
        reason: 0 .. 200 characters of printable ASCII.
        replaces: with a genesis only: the log that this one replaces.
        next_key: with a key only, and always: the SubjectPublicKeyInfo of the key that follows.
    """

    issuer: str
    log_id: bytes
    sequence: int
    time_ms: int
    event: str
    reason: str = ""
    replaces: ReplacedLog | None = None
    next_key: bytes | None = None

    def encode(self) -> bytes:
        """Return the payload that is signed; ValueError, TypeError as of `encode_checked`."""
        old = self.replaces
        return encode_checked(
            {
                claim.ISSUER: self.issuer,
                claim.LOG_ID: self.log_id,
                claim.SEQUENCE: self.sequence,
                claim.TIME: self.time_ms,
                claim.EVENT: self.event,
                claim.REASON: self.reason,
                claim.REPLACES: None if old is None else (old.log_id, old.size, old.root),
                claim.NEXT_KEY: self.next_key,
            },
            decode_event,
        )


def decode_event(unverified_data: bytes | bytearray | memoryview) -> Event:
    """Return what the payload of an event says.

    Raises:
        FormatError: a rule of the CBOR subset, of objects or of evidence (crypto/README.md).
    """
    claims = Claims(unverified_data, _REQUIRED, _OPTIONAL)
    sequence = claims.number(claim.SEQUENCE)
    event = claims.choice(claim.EVENT, EVENTS)
    if (event == "genesis") != (sequence == 0):
        raise claims.refusal(claim.EVENT, "claim-genesis")
    replaces = None
    if claim.REPLACES in claims:
        if event != "genesis":
            raise claims.refusal(claim.REPLACES, "claim-event")
        log_id, size, root = claims.elements(claim.REPLACES, 3)
        replaces = ReplacedLog(
            log_id=claims.element_digest(claim.REPLACES, log_id),
            size=claims.element_number(claim.REPLACES, size),
            root=claims.element_digest(claim.REPLACES, root),
        )
    if (event == "key") != (claim.NEXT_KEY in claims):
        raise claims.refusal(claim.EVENT, "claim-event")
    next_key = None
    if claim.NEXT_KEY in claims:
        next_key = claims.octets(claim.NEXT_KEY, KEY_BYTES, KEY_BYTES)
    return Event(
        issuer=claims.name(claim.ISSUER),
        log_id=claims.digest(claim.LOG_ID),
        sequence=sequence,
        time_ms=claims.number(claim.TIME),
        event=event,
        reason=claims.reason(claim.REASON),
        replaces=replaces,
        next_key=next_key,
    )
