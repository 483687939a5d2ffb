"""What an appliance says about an answer: the closing entry of a request in the log.

Source: verifier/SPEC.md section 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from crypto import evidence as claim
from crypto.commitment import NAMES
from crypto.evidence import Claims, encode_checked

STATEMENT_TYPE: Final = "windhover/statement;v=1"
OUTCOMES: Final = ("answered", "error", "refused", "cancelled", "disconnected", "lost")
LOAD_VERDICTS: Final = ("signed", "unsigned")
MODES: Final = ("production", "dev")
NUMERICS_PROFILES: Final = ("wh1",)
RESIDENCIES: Final = ("full", "stream", "verified-stream")
WRITE_XOR_EXECUTE: Final = ("locked", "open")
FINISH_REASONS: Final = (
    "stop",
    "length",
    "tool_calls",
    "content_filter",
    "error",
    "cancelled",
    "none",
)
COVERS: Final = {name: 1 << bit for bit, name in enumerate(NAMES)}
"""The bit of the coverage that each commitment has."""

COVERS_ALL: Final = 31

_OPTIONAL: Final = frozenset(
    {claim.NONCE, claim.LINE, claim.RELEASE, claim.RELEASE_PAYLOAD, claim.TEMPLATE}
)
_OF_A_RELEASE: Final = (claim.LINE, claim.RELEASE, claim.RELEASE_PAYLOAD)
_REQUIRED: Final = frozenset(
    {
        claim.MODEL_DIGEST,
        claim.ISSUER,
        claim.LOG_ID,
        claim.SEQUENCE,
        claim.ADMISSION,
        claim.STARTED,
        claim.ENDED,
        claim.PROFILE,
        claim.OUTCOME,
        claim.LOAD_VERDICT,
        claim.MODE,
        claim.SOFTWARE,
        claim.NUMERICS,
        claim.KERNEL_PATH,
        claim.RESIDENCY,
        claim.WRITE_XOR_EXECUTE,
        claim.PRINCIPAL,
        claim.TOKENIZER,
        claim.PARAMETERS,
        claim.SEED,
        claim.SEED_SOURCE,
        claim.COMMITMENTS,
        claim.TOKENS,
        claim.FINISH_REASON,
        claim.TRACE_SHAPE,
        claim.TRUST,
        claim.REVOCATIONS,
        claim.EARLIER_HEAD,
        claim.COVERAGE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One closed request, as the appliance saw it.

    Attributes:
        issuer: 1 .. 64 characters of printable ASCII.
        log_id: 32 bytes.
        sequence: index of this entry in the log.
        admission: index of the entry that admitted the request, below the sequence.
        started_ms: milliseconds since 1970-01-01 UTC.
        ended_ms: same unit, not below started_ms.
        nonce: 16 .. 64 bytes of the client's, None if there were none.
        profile: `windhover/generate;v=1`.
        outcome: one of `OUTCOMES`.
        model_digest: 32 bytes.
        line: of the release that the policy accepted; with the next two, or all None.
        release: its number.
        release_payload: 32 bytes, digest of its payload.
        load_verdict: one of `LOAD_VERDICTS`.
        mode: one of `MODES`.
        software_digest: 32 bytes.
        numerics: one of `NUMERICS_PROFILES`.
        kernel_path: 1 .. 64 characters of printable ASCII.
        residency: one of `RESIDENCIES`.
        write_xor_execute: one of `WRITE_XOR_EXECUTE`.
        principal: 16 bytes.
        tokenizer_root: 32 bytes, root of the extent.
        template_root: 32 bytes, None without a template.
        parameters: integers by name, in the unit that the name says.
        seed: 0 .. 2^64 - 1.
        seed_source: `request`, `nonce` or `server`.
        commitments: 32 bytes under each of `crypto.commitment.NAMES`.
        prompt_tokens: number of tokens of the prompt.
        output_tokens: number of tokens drawn.
        finish_reason: one of `FINISH_REASONS`.
        trace_shape: positions, layers, width; zeros where there is no trace.
        trust_digest: 32 bytes, of the trust file in force; zeros without one.
        revocation_sequence: of the list in force, 0 without one.
        earlier_size: size of an earlier head of the log, at most the sequence.
        earlier_root: 32 bytes, its root.
        coverage: sum of the bits in `COVERS` of what the commitments really cover.
    """

    issuer: str
    log_id: bytes
    sequence: int
    admission: int
    started_ms: int
    ended_ms: int
    nonce: bytes | None
    profile: str
    outcome: str
    model_digest: bytes
    line: str | None
    release: int | None
    release_payload: bytes | None
    load_verdict: str
    mode: str
    software_digest: bytes
    numerics: str
    kernel_path: str
    residency: str
    write_xor_execute: str
    principal: bytes
    tokenizer_root: bytes
    template_root: bytes | None
    parameters: Mapping[str, int]
    seed: int
    seed_source: str
    commitments: Mapping[str, bytes]
    prompt_tokens: int
    output_tokens: int
    finish_reason: str
    trace_shape: tuple[int, int, int]
    trust_digest: bytes
    revocation_sequence: int
    earlier_size: int
    earlier_root: bytes
    coverage: int

    def encode(self) -> bytes:
        """Return the payload that is signed; ValueError, TypeError as of `encode_checked`."""
        return encode_checked(
            {
                claim.MODEL_DIGEST: self.model_digest,
                claim.LINE: self.line,
                claim.RELEASE: self.release,
                claim.ISSUER: self.issuer,
                claim.LOG_ID: self.log_id,
                claim.SEQUENCE: self.sequence,
                claim.ADMISSION: self.admission,
                claim.STARTED: self.started_ms,
                claim.ENDED: self.ended_ms,
                claim.NONCE: self.nonce,
                claim.PROFILE: self.profile,
                claim.OUTCOME: self.outcome,
                claim.RELEASE_PAYLOAD: self.release_payload,
                claim.LOAD_VERDICT: self.load_verdict,
                claim.MODE: self.mode,
                claim.SOFTWARE: self.software_digest,
                claim.NUMERICS: self.numerics,
                claim.KERNEL_PATH: self.kernel_path,
                claim.RESIDENCY: self.residency,
                claim.WRITE_XOR_EXECUTE: self.write_xor_execute,
                claim.PRINCIPAL: self.principal,
                claim.TOKENIZER: self.tokenizer_root,
                claim.TEMPLATE: self.template_root,
                claim.PARAMETERS: self.parameters,
                claim.SEED: self.seed,
                claim.SEED_SOURCE: self.seed_source,
                claim.COMMITMENTS: self.commitments,
                claim.TOKENS: (self.prompt_tokens, self.output_tokens),
                claim.FINISH_REASON: self.finish_reason,
                claim.TRACE_SHAPE: self.trace_shape,
                claim.TRUST: self.trust_digest,
                claim.REVOCATIONS: self.revocation_sequence,
                claim.EARLIER_HEAD: (self.earlier_size, self.earlier_root),
                claim.COVERAGE: self.coverage,
            },
            decode_statement,
        )


def decode_statement(unverified_data: bytes | bytearray | memoryview) -> Statement:
    """Return what the payload of a statement says.

    Raises:
        FormatError: a rule of the CBOR subset, of objects or of evidence (crypto/README.md).
    """
    claims = Claims(unverified_data, _REQUIRED, _OPTIONAL)
    sequence = claims.number(claim.SEQUENCE)
    admission = claims.number(claim.ADMISSION)
    if admission >= sequence:
        raise claims.refusal(claim.ADMISSION, "claim-admission")
    started_ms = claims.number(claim.STARTED)
    ended_ms = claims.number(claim.ENDED)
    if ended_ms < started_ms:
        raise claims.refusal(claim.ENDED, "claim-times")
    line, release, release_payload = _read_release(claims)
    prompt_tokens, output_tokens = _read_numbers(claims, claim.TOKENS, 2)
    positions, layers, width = _read_numbers(claims, claim.TRACE_SHAPE, 3)
    if any((positions, layers, width)) != all((positions, layers, width)):
        raise claims.refusal(claim.TRACE_SHAPE, "claim-trace")
    earlier_size, earlier_root = _read_earlier_head(claims, sequence)
    return Statement(
        issuer=claims.name(claim.ISSUER),
        log_id=claims.digest(claim.LOG_ID),
        sequence=sequence,
        admission=admission,
        started_ms=started_ms,
        ended_ms=ended_ms,
        nonce=claims.nonce(),
        profile=claims.choice(claim.PROFILE, (claim.PROFILE_GENERATE,)),
        outcome=claims.choice(claim.OUTCOME, OUTCOMES),
        model_digest=claims.digest(claim.MODEL_DIGEST),
        line=line,
        release=release,
        release_payload=release_payload,
        load_verdict=claims.choice(claim.LOAD_VERDICT, LOAD_VERDICTS),
        mode=claims.choice(claim.MODE, MODES),
        software_digest=claims.digest(claim.SOFTWARE),
        numerics=claims.choice(claim.NUMERICS, NUMERICS_PROFILES),
        kernel_path=claims.name(claim.KERNEL_PATH),
        residency=claims.choice(claim.RESIDENCY, RESIDENCIES),
        write_xor_execute=claims.choice(claim.WRITE_XOR_EXECUTE, WRITE_XOR_EXECUTE),
        principal=claims.octets(claim.PRINCIPAL, claim.ID_BYTES, claim.ID_BYTES),
        tokenizer_root=claims.digest(claim.TOKENIZER),
        template_root=claims.digest(claim.TEMPLATE) if claim.TEMPLATE in claims else None,
        parameters=claims.parameters(),
        seed=claims.integer(claim.SEED, 0, claim.MAX_SEED),
        seed_source=claims.choice(claim.SEED_SOURCE, claim.SEED_SOURCES),
        commitments=claims.digests(claim.COMMITMENTS, NAMES),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        finish_reason=claims.choice(claim.FINISH_REASON, FINISH_REASONS),
        trace_shape=(positions, layers, width),
        trust_digest=claims.digest(claim.TRUST),
        revocation_sequence=claims.number(claim.REVOCATIONS),
        earlier_size=earlier_size,
        earlier_root=earlier_root,
        coverage=claims.integer(claim.COVERAGE, 0, COVERS_ALL),
    )


def _read_release(claims: Claims) -> tuple[str | None, int | None, bytes | None]:
    """Return line, number and payload digest of the release: all three, or none."""
    there = [key for key in _OF_A_RELEASE if key in claims]
    if not there:
        return None, None, None
    if len(there) != len(_OF_A_RELEASE):
        raise claims.refusal(there[0], "claim-release")
    return (
        claims.line(),
        claims.positive(claim.RELEASE),
        claims.digest(claim.RELEASE_PAYLOAD),
    )


def _read_numbers(claims: Claims, key: int, count: int) -> list[int]:
    """Return an array of `count` numbers."""
    return [claims.element_number(key, element) for element in claims.elements(key, count)]


def _read_earlier_head(claims: Claims, sequence: int) -> tuple[int, bytes]:
    """Return size and root of the earlier head, which cannot be larger than what came before."""
    size, root = claims.elements(claim.EARLIER_HEAD, 2)
    earlier_size = claims.element_number(claim.EARLIER_HEAD, size)
    if earlier_size > sequence:
        raise claims.refusal(claim.EARLIER_HEAD, "claim-head")
    return earlier_size, claims.element_digest(claim.EARLIER_HEAD, root)
