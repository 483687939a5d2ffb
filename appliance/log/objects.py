"""The objects that a log makes itself: checkpoints, which are its heads, and events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crypto.checkpoint import (
    CHECKPOINT_TYPE,
    Checkpoint,
    checkpoint_digest,
    decode_checkpoint,
)
from crypto.cose import decode_sign1, sign1
from crypto.errors import FormatError, InvalidSignatureError
from crypto.event import EVENT_TYPE, Event
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.signer import Signer
from crypto.sm2 import PublicKey


@dataclass(frozen=True, slots=True)
class Head:
    """A signed checkpoint and what it says.

    Attributes:
        log_id: 32 bytes.
        size: number of entries.
        root: 32 bytes.
        time_ms: milliseconds since 1970-01-01 UTC.
        previous: 32 bytes, digest of the checkpoint before.
        checkpoint: the object.
    """

    log_id: bytes
    size: int
    root: bytes
    time_ms: int
    previous: bytes
    checkpoint: bytes

    @property
    def digest(self) -> bytes:
        """The 32 bytes by which the next checkpoint names this one."""
        return checkpoint_digest(self.checkpoint)


def sign_head(
    signer: Signer,
    issuer: str,
    *,
    log_id: bytes,
    size: int,
    root: bytes,
    time_ms: int,
    previous: bytes,
) -> Head:
    """Sign a checkpoint; it has been verified before it is returned.

    Raises:
        ValueError: a value that a checkpoint cannot have.
        CryptoError: as `sign1`.
    """
    said = Checkpoint(
        issuer=issuer, log_id=log_id, size=size, root=root, time_ms=time_ms, previous=previous
    )
    signed = sign1(said.encode(), typ=CHECKPOINT_TYPE, signer=signer)
    return Head(log_id, size, root, time_ms, previous, signed)


def read_head(unverified_checkpoint: bytes) -> Head:
    """Return what a checkpoint says; its signature is not looked at.

    Raises:
        FormatError: it is no checkpoint.
    """
    signed = decode_sign1(unverified_checkpoint, max_bytes=MAX_OBJECT_BYTES)
    if signed.typ != CHECKPOINT_TYPE:
        raise FormatError(0, "type")
    said = decode_checkpoint(signed.payload)
    return Head(
        said.log_id, said.size, said.root, said.time_ms, said.previous, unverified_checkpoint
    )


def verify_object(unverified_object: bytes, keys: Mapping[bytes, PublicKey]) -> bool:
    """Verify the signature of an object; False where its key is not among `keys`, by key id.

    Raises:
        FormatError: it is no signed object.
        InvalidSignatureError: its key is there, and did not sign it.
    """
    signed = decode_sign1(unverified_object, max_bytes=MAX_OBJECT_BYTES)
    key = keys.get(signed.key_id)
    if key is None:
        return False
    if key.key_id != signed.key_id:
        raise InvalidSignatureError("the signature did not verify")
    signed.verify(key, typ=signed.typ)
    return True


def sign_event(signer: Signer, event: Event) -> bytes:
    """Return an event as a signed object, verified.

    Raises:
        ValueError: a value that an event cannot have.
        CryptoError: as `sign1`.
    """
    return sign1(event.encode(), typ=EVENT_TYPE, signer=signer)
