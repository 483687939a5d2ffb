"""Heads of an attestation log: the operator's checkpoint, and a witness's signature over one.

Source: verifier/SPEC.md section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from crypto import evidence as claim
from crypto.evidence import Claims, encode_checked
from crypto.labels import CHECKPOINT_OBJECT
from crypto.sm3 import DIGEST_BYTES, sm3

CHECKPOINT_TYPE: Final = "windhover/checkpoint;v=1"
COSIGNATURE_TYPE: Final = "windhover/cosignature;v=1"
NO_CHECKPOINT: Final = bytes(DIGEST_BYTES)
"""What stands for the checkpoint before the first."""

_OF_A_COSIGNATURE: Final = frozenset({claim.LOG_ID, claim.TREE_SIZE, claim.TREE_ROOT, claim.TIME})
_OF_A_CHECKPOINT: Final = _OF_A_COSIGNATURE | {claim.ISSUER, claim.PREVIOUS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A head of a log, as its operator signs it.

    Attributes:
        issuer: 1 .. 64 characters of printable ASCII.
        log_id: 32 bytes.
        size: number of entries, at least 1.
        root: 32 bytes, root of the tree over them.
        time_ms: milliseconds since 1970-01-01 UTC.
        previous: 32 bytes, `checkpoint_digest` of the checkpoint before; `NO_CHECKPOINT` for the
            first.
    """

    issuer: str
    log_id: bytes
    size: int
    root: bytes
    time_ms: int
    previous: bytes

    def encode(self) -> bytes:
        """Return the payload that is signed; ValueError, TypeError as of `encode_checked`."""
        return encode_checked(
            {
                claim.ISSUER: self.issuer,
                claim.LOG_ID: self.log_id,
                claim.TREE_SIZE: self.size,
                claim.TREE_ROOT: self.root,
                claim.TIME: self.time_ms,
                claim.PREVIOUS: self.previous,
            },
            decode_checkpoint,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosignature:
    """A head of a log, as a witness saw it.

    Attributes:
        log_id: 32 bytes.
        size: number of entries, at least 1.
        root: 32 bytes, root of the tree over them.
        time_ms: milliseconds since 1970-01-01 UTC, by the witness's clock.
    """

    log_id: bytes
    size: int
    root: bytes
    time_ms: int

    def encode(self) -> bytes:
        """Return the payload that is signed; ValueError, TypeError as of `encode_checked`."""
        return encode_checked(
            {
                claim.LOG_ID: self.log_id,
                claim.TREE_SIZE: self.size,
                claim.TREE_ROOT: self.root,
                claim.TIME: self.time_ms,
            },
            decode_cosignature,
        )


def decode_checkpoint(unverified_data: bytes | bytearray | memoryview) -> Checkpoint:
    """Return what the payload of a checkpoint says.

    Raises:
        FormatError: a rule of the CBOR subset or of objects (crypto/README.md).
    """
    claims = Claims(unverified_data, _OF_A_CHECKPOINT)
    return Checkpoint(
        issuer=claims.name(claim.ISSUER),
        log_id=claims.digest(claim.LOG_ID),
        size=claims.positive(claim.TREE_SIZE),
        root=claims.digest(claim.TREE_ROOT),
        time_ms=claims.number(claim.TIME),
        previous=claims.digest(claim.PREVIOUS),
    )


def decode_cosignature(unverified_data: bytes | bytearray | memoryview) -> Cosignature:
    """Return what the payload of a cosignature says.

    Raises:
        FormatError: a rule of the CBOR subset or of objects (crypto/README.md).
    """
    claims = Claims(unverified_data, _OF_A_COSIGNATURE)
    return Cosignature(
        log_id=claims.digest(claim.LOG_ID),
        size=claims.positive(claim.TREE_SIZE),
        root=claims.digest(claim.TREE_ROOT),
        time_ms=claims.number(claim.TIME),
    )


def checkpoint_digest(signed: bytes) -> bytes:
    """Return the 32 bytes by which the next checkpoint names this one, a signed object."""
    return sm3(CHECKPOINT_OBJECT + signed)
