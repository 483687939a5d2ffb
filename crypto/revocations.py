"""The list of what is withdrawn: keys and models, under a sequence number, signed by one key.

A list holds everything that is revoked when it is issued: the newest one counts alone. Its number
only rises, and a reader keeps the highest that it has seen (`crypto.floors`), so that an older list
cannot come back. Bytes and reason codes stand in crypto/README.md, section "Trust policy".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from crypto.cbor import encode
from crypto.cbor_map import CborMap
from crypto.cose import Sign1, decode_sign1, sign1
from crypto.errors import FormatError, InvalidSignatureError, PolicyError
from crypto.floors import Floors
from crypto.signer import Signer
from crypto.sm3 import DIGEST_BYTES
from crypto.trust import TrustFile

REVOCATIONS_TYPE: Final = "windhover/revocations;v=1"
MAX_REVOCATIONS_BYTES: Final = 64 * 1024
MAX_REVOKED: Final = 900
MAX_INTEGER: Final = 2**53 - 1

_SEQUENCE: Final = -70121
_ISSUED: Final = -70122
_KEY_IDS: Final = -70123
_MODEL_DIGESTS: Final = -70124


@dataclass(frozen=True, slots=True)
class Revocations:
    """A list whose signature was verified.

    Attributes:
        sequence: its number, 1 .. 2^53 - 1.
        issued: when it was made, seconds since 1970-01-01 UTC.
        key_ids: keys whose signatures count no more, of 32 bytes each.
        model_digests: models that are not loaded any more, of 32 bytes each.
        signer_id: key id of the `revoke` key that signed.
    """

    sequence: int
    issued: int
    key_ids: frozenset[bytes]
    model_digests: frozenset[bytes]
    signer_id: bytes


class _RevocationMap(CborMap):
    """The payload's map, which also has arrays of digests."""

    __slots__ = ()

    def digests(self, key: int) -> frozenset[bytes]:
        """Return 0..900 strings of 32 bytes that ascend."""
        value = self._entries[key]
        if not isinstance(value, list):
            raise self.refusal(key, "value-type")
        if len(value) > MAX_REVOKED:
            raise self.refusal(key, "value-range")
        previous = b""
        for digest in value:
            if not isinstance(digest, bytes):
                raise self.refusal(key, "value-type")
            if len(digest) != DIGEST_BYTES:
                raise self.refusal(key, "value-range")
            if digest <= previous:
                raise self.refusal(key, "digest-order")
            previous = digest
        return frozenset(value)  # type: ignore[arg-type]  # each was looked at above


def make_revocations(
    *,
    sequence: int,
    issued: int,
    key_ids: Iterable[bytes],
    model_digests: Iterable[bytes],
    signer: Signer,
) -> bytes:
    """Return a signed list.

    Args:
        sequence: 1 .. 2^53 - 1, above that of every list issued before.
        issued: seconds since 1970-01-01 UTC.
        key_ids: at most 900 of 32 bytes each, in any order.
        model_digests: at most 900 of 32 bytes each, in any order; at most about 1,900 of both kinds
            fit.
        signer: a `revoke` key, itself not in the list.

    Raises:
        ValueError: a value out of range, an element of another length, or the signer in the list.
    """
    payload = encode(
        {
            _SEQUENCE: sequence,
            _ISSUED: issued,
            _KEY_IDS: sorted(set(key_ids)),
            _MODEL_DIGESTS: sorted(set(model_digests)),
        }
    )
    try:
        meant = _decode_payload(payload, signer.key_id)
    except FormatError as error:
        raise ValueError(f"a value that a list of revocations cannot have: {error.rule}") from None
    if signer.key_id in meant.key_ids:
        raise ValueError("a list of revocations cannot revoke the key that signs it")
    return sign1(payload, typ=REVOCATIONS_TYPE, signer=signer)


def open_revocations(
    unverified_data: bytes, trust: TrustFile, *, floors: Floors, now: int
) -> Revocations:
    """Return the list that these bytes hold, if it is signed by a trusted key and current.

    Args:
        unverified_data: a file from anywhere.
        trust: who may sign lists, and what is asked of them.
        floors: the highest sequence number that was seen here.
        now: seconds since 1970-01-01 UTC.

    Raises:
        FormatError: not a list of revocations (rule `type`: another object).
        PolicyError: `revocations-unknown-signer`, `revocations-bad-signature`, or as
            `check_revocations`.
    """
    signed = decode_sign1(unverified_data, max_bytes=MAX_REVOCATIONS_BYTES)
    if signed.typ != REVOCATIONS_TYPE:
        raise FormatError(0, "type")
    revocations = _decode_payload(signed.payload, signed.key_id)
    _verify(signed, trust)
    check_revocations(trust, revocations, floors=floors, now=now)
    return revocations


def check_revocations(
    trust: TrustFile, revocations: Revocations | None, *, floors: Floors, now: int
) -> None:
    """Check that a list, or none, is enough at `now`.

    A list that was accepted once stays compulsory: the floor of its sequence number asks for one
    even if the trust file does not.

    Raises:
        PolicyError: the first that holds of `revocations-missing`, `revocations-unknown-signer`,
            `revocations-self-revoked`, `revocations-key-not-yet-valid`, `revocations-key-expired`,
            `revocations-not-yet-valid`, `revocations-old`, `revocations-stale`.
    """
    rules = trust.revocations
    if revocations is None:
        if rules.required or floors.revocation_sequence > 0:
            raise PolicyError("revocations-missing", "there is no list of revocations")
        return
    key = trust.key(revocations.signer_id, "revoke")
    if key is None:
        raise _unknown_signer()
    if revocations.signer_id in revocations.key_ids:
        raise PolicyError(
            "revocations-self-revoked", "the list of revocations revokes the key that signed it"
        )
    if key.is_too_early(now):
        raise PolicyError(
            "revocations-key-not-yet-valid",
            f"key {key.name} that signed the revocations is not valid yet",
        )
    if key.is_too_late(now):
        raise PolicyError(
            "revocations-key-expired", f"key {key.name} that signed the revocations has expired"
        )
    if now < revocations.issued:
        raise PolicyError(
            "revocations-not-yet-valid", "the list of revocations is dated in the future"
        )
    least = max(rules.minimum_sequence, floors.revocation_sequence)
    if revocations.sequence < least:
        raise PolicyError(
            "revocations-old",
            f"the list of revocations has number {revocations.sequence}, the least is {least}",
        )
    if rules.maximum_age_s is not None and now - revocations.issued >= rules.maximum_age_s:
        raise PolicyError("revocations-stale", "the list of revocations is older than allowed")


def _verify(signed: Sign1, trust: TrustFile) -> None:
    """Check the signature with the trusted key that it names."""
    key = trust.key(signed.key_id, "revoke")
    if key is None:
        raise _unknown_signer()
    try:
        signed.verify(key.public_key, typ=REVOCATIONS_TYPE)
    except InvalidSignatureError:
        raise PolicyError(
            "revocations-bad-signature", "the signature of the list of revocations did not verify"
        ) from None


def _unknown_signer() -> PolicyError:
    """Return the refusal of a list that no trusted key signed."""
    return PolicyError(
        "revocations-unknown-signer",
        "the list of revocations is not signed by a key that the trust file has for it",
    )


def _decode_payload(payload: bytes, signer_id: bytes) -> Revocations:
    """Return what a payload states."""
    required = frozenset({_SEQUENCE, _ISSUED, _KEY_IDS, _MODEL_DIGESTS})
    entries = _RevocationMap(payload, required, max_bytes=MAX_REVOCATIONS_BYTES)
    return Revocations(
        sequence=entries.integer(_SEQUENCE, 1, MAX_INTEGER),
        issued=entries.integer(_ISSUED, 0, MAX_INTEGER),
        key_ids=entries.digests(_KEY_IDS),
        model_digests=entries.digests(_MODEL_DIGESTS),
        signer_id=signer_id,
    )
