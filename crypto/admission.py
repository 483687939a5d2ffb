"""What is logged before an answer begins, so that it cannot be left out afterwards.

Source: verifier/SPEC.md section 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from crypto import evidence as claim
from crypto.evidence import Claims, encode_checked

ADMISSION_TYPE: Final = "windhover/admission;v=1"

_OPTIONAL: Final = frozenset({claim.NONCE})
_REQUIRED: Final = frozenset(
    {
        claim.MODEL_DIGEST,
        claim.ISSUER,
        claim.LOG_ID,
        claim.SEQUENCE,
        claim.STARTED,
        claim.PROFILE,
        claim.PRINCIPAL,
        claim.PARAMETERS,
        claim.SEED,
        claim.SEED_SOURCE,
        claim.REQUEST_ID,
        claim.REQUEST_COMMITMENT,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """One request that was let in.

    Attributes:
        issuer: 1 .. 64 characters of printable ASCII.
        log_id: 32 bytes.
        sequence: index of this entry in the log.
        admitted_ms: milliseconds since 1970-01-01 UTC.
        nonce: 16 .. 64 bytes of the client's, None if there were none.
        profile: `windhover/generate;v=1`.
        model_digest: 32 bytes.
        principal: 16 bytes.
        parameters: integers by name, in the unit that the name says.
        seed: 0 .. 2^64 - 1.
        seed_source: `request`, `nonce` or `server`.
        request_id: 16 random bytes.
        request_commitment: 32 bytes, the same as in the statement that closes it.
    """

    issuer: str
    log_id: bytes
    sequence: int
    admitted_ms: int
    nonce: bytes | None
    profile: str
    model_digest: bytes
    principal: bytes
    parameters: Mapping[str, int]
    seed: int
    seed_source: str
    request_id: bytes
    request_commitment: bytes

    def encode(self) -> bytes:
        """Return the payload that is signed; ValueError, TypeError as of `encode_checked`."""
        return encode_checked(
            {
                claim.MODEL_DIGEST: self.model_digest,
                claim.ISSUER: self.issuer,
                claim.LOG_ID: self.log_id,
                claim.SEQUENCE: self.sequence,
                claim.STARTED: self.admitted_ms,
                claim.NONCE: self.nonce,
                claim.PROFILE: self.profile,
                claim.PRINCIPAL: self.principal,
                claim.PARAMETERS: self.parameters,
                claim.SEED: self.seed,
                claim.SEED_SOURCE: self.seed_source,
                claim.REQUEST_ID: self.request_id,
                claim.REQUEST_COMMITMENT: self.request_commitment,
            },
            decode_admission,
        )


def decode_admission(unverified_data: bytes | bytearray | memoryview) -> Admission:
    """Return what the payload of an admission says.

    Raises:
        FormatError: a rule of the CBOR subset, of objects or of evidence (crypto/README.md).
    """
    claims = Claims(unverified_data, _REQUIRED, _OPTIONAL)
    return Admission(
        issuer=claims.name(claim.ISSUER),
        log_id=claims.digest(claim.LOG_ID),
        sequence=claims.number(claim.SEQUENCE),
        admitted_ms=claims.number(claim.STARTED),
        nonce=claims.nonce(),
        profile=claims.choice(claim.PROFILE, (claim.PROFILE_GENERATE,)),
        model_digest=claims.digest(claim.MODEL_DIGEST),
        principal=claims.octets(claim.PRINCIPAL, claim.ID_BYTES, claim.ID_BYTES),
        parameters=claims.parameters(),
        seed=claims.integer(claim.SEED, 0, claim.MAX_SEED),
        seed_source=claims.choice(claim.SEED_SOURCE, claim.SEED_SOURCES),
        request_id=claims.octets(claim.REQUEST_ID, claim.ID_BYTES, claim.ID_BYTES),
        request_commitment=claims.digest(claim.REQUEST_COMMITMENT),
    )
