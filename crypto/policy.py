"""Whether weights may be loaded: what the trust file says about a model and its signatures.

`judge` answers with a verdict or with the one reason that refuses. The reasons, their order, and
why a signature by an unknown key is passed over while a wrong one by a known key refuses, stand in
crypto/README.md, section "Trust policy".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from crypto.candidates import Candidate, verify_signatures
from crypto.cose import Sign1
from crypto.errors import PolicyError
from crypto.floors import Floors
from crypto.labels import RELEASE_PAYLOAD
from crypto.release import Release
from crypto.revocations import Revocations, check_revocations
from crypto.sm3 import sm3
from crypto.trust import TrustFile
from crypto.trust_values import Line

Form: TypeAlias = Literal["plain", "signed", "sealed"]
"""The three forms of a VQF file."""

REASONS: Final = (
    "wrong-type",
    "wrong-model",
    "bad-signature",
    "not-sealed",
    "not-signed",
    "revocations-missing",
    "revocations-unknown-signer",
    "revocations-self-revoked",
    "revocations-key-not-yet-valid",
    "revocations-key-expired",
    "revocations-not-yet-valid",
    "revocations-old",
    "revocations-stale",
    "model-revoked",
    "unknown-signer",
    "unknown-line",
    "wrong-line",
    "key-revoked",
    "key-expired",
    "key-not-yet-valid",
    "threshold",
    "not-yet-valid",
    "expired",
    "runtime-too-old",
    "release-too-old",
)
"""Every reason of `judge`, in the order in which they are looked for."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Weights that may be loaded, and on what grounds.

    Attributes:
        form: how the file lies on the disk.
        model_digest: 32 bytes, the model.
        release: what the signers said; None where the policy lets unsigned weights pass.
        payload_digest: 32 bytes, SM3 of a label and the payload that was signed; None likewise.
        key_ids: the keys that counted, ascending.
        ignored_key_ids: the keys of all other signatures, ascending.
        revocation_sequence: number of the list of revocations in force, 0 where there is none.
        trust_digest: 32 bytes, the trust file in force.
    """

    form: Form
    model_digest: bytes
    release: Release | None
    payload_digest: bytes | None
    key_ids: tuple[bytes, ...]
    ignored_key_ids: tuple[bytes, ...]
    revocation_sequence: int
    trust_digest: bytes


def judge(
    trust: TrustFile,
    *,
    form: Form,
    model_digest: bytes,
    signatures: Sequence[tuple[Sign1, Release]],
    revocations: Revocations | None,
    floors: Floors,
    runtime_version: tuple[int, int, int],
    now: int,
) -> Verdict:
    """Say whether weights may be loaded.

    Args:
        trust: the policy.
        form: the form of the file.
        model_digest: 32 bytes, computed from the file's manifest.
        signatures: what lies in the file, decoded and not verified, each with its payload decoded.
        revocations: the list in force, as `open_revocations` returned it.
        floors: what this machine has seen.
        runtime_version: major, minor, patch of this software.
        now: seconds since 1970-01-01 UTC.

    Raises:
        PolicyError: it may not; the reason is one of `REASONS`.
        ValueError: a release is not that of its payload.
    """
    return decide(
        trust,
        form=form,
        model_digest=model_digest,
        candidates=verify_signatures(trust, model_digest, signatures),
        revocations=revocations,
        floors=floors,
        runtime_version=runtime_version,
        now=now,
    )


def decide(
    trust: TrustFile,
    *,
    form: Form,
    model_digest: bytes,
    candidates: Sequence[Candidate],
    revocations: Revocations | None,
    floors: Floors,
    runtime_version: tuple[int, int, int],
    now: int,
) -> Verdict:
    """Say whether weights whose signatures were verified may be loaded, or used any longer.

    Raises:
        PolicyError: they may not; the reason is one of `REASONS` behind `bad-signature`.
    """
    if trust.require_sealed and form != "sealed":
        raise PolicyError("not-sealed", "the weights are not sealed")
    if trust.require_signed and not candidates:
        raise PolicyError("not-signed", "the weights are not signed")
    check_revocations(trust, revocations, floors=floors, now=now)
    if revocations is not None and model_digest in revocations.model_digests:
        raise PolicyError("model-revoked", "the model is revoked")
    chosen, key_ids = _choose(trust, candidates, revocations, floors, runtime_version, now)
    all_ids = frozenset[bytes]().union(*(c.verified_ids | c.unknown_ids for c in candidates))
    return Verdict(
        form=form,
        model_digest=model_digest,
        release=chosen.release if chosen else None,
        payload_digest=sm3(RELEASE_PAYLOAD + chosen.payload) if chosen else None,
        key_ids=tuple(sorted(key_ids)),
        ignored_key_ids=tuple(sorted(all_ids - key_ids)),
        revocation_sequence=revocations.sequence if revocations else 0,
        trust_digest=trust.digest,
    )


def _choose(
    trust: TrustFile,
    candidates: Sequence[Candidate],
    revocations: Revocations | None,
    floors: Floors,
    runtime_version: tuple[int, int, int],
    now: int,
) -> tuple[Candidate | None, frozenset[bytes]]:
    """Return the candidate of the highest release that passes, and the keys that counted."""
    passed: list[tuple[Candidate, frozenset[bytes]]] = []
    refusals = []
    for candidate in candidates:
        try:
            key_ids, line = _count(trust, candidate, revocations, now)
            _check_release(candidate.release, line, floors, runtime_version, now)
        except PolicyError as refusal:
            refusals.append(refusal)
        else:
            passed.append((candidate, key_ids))
    if passed:
        # Of equal releases the first: payloads ascend.
        return max(passed, key=lambda entry: entry[0].release.release)
    if refusals:
        # What came nearest to passing says most about what is wrong.
        raise max(refusals, key=lambda refusal: REASONS.index(refusal.reason))
    return None, frozenset()


def _count(
    trust: TrustFile, candidate: Candidate, revocations: Revocations | None, now: int
) -> tuple[frozenset[bytes], Line]:
    """Return the keys that count towards the threshold of the candidate's line, and the line."""
    keys = [trust.key(key_id, "weights") for key_id in sorted(candidate.verified_ids)]
    known = [key for key in keys if key is not None]
    if not known:
        raise PolicyError("unknown-signer", "no key of the trust file signed this")
    name = candidate.release.line
    line = trust.lines.get(name)
    if line is None:
        raise PolicyError("unknown-line", f"the trust file has no line {name}")
    may_sign = [key for key in known if key.key_id in line.signer_ids]
    if not may_sign:
        raise PolicyError("wrong-line", f"no key that signed this may sign line {name}")
    revoked_ids = revocations.key_ids if revocations else frozenset[bytes]()
    counted = set()
    reasons = {}
    for key in may_sign:
        if key.key_id in revoked_ids:
            reasons["key-revoked"] = f"key {key.name} is revoked"
        elif key.is_too_late(now):
            reasons["key-expired"] = f"key {key.name} has expired"
        elif key.is_too_early(now):
            reasons["key-not-yet-valid"] = f"key {key.name} is not valid yet"
        else:
            counted.add(key.key_id)
    if len(counted) >= line.threshold:
        return frozenset(counted), line
    if reasons:
        first = min(reasons, key=REASONS.index)
        raise PolicyError(first, reasons[first])
    raise PolicyError(
        "threshold", f"line {name} needs {line.threshold} signatures, {len(counted)} count"
    )


def _check_release(
    release: Release,
    line: Line,
    floors: Floors,
    runtime_version: tuple[int, int, int],
    now: int,
) -> None:
    """Check dates, runtime and number of a release that enough keys signed."""
    if now < release.not_before:
        raise PolicyError("not-yet-valid", "the release is not valid yet")
    if release.expires is not None and now >= release.expires:
        raise PolicyError("expired", "the release has expired")
    if runtime_version < release.least_runtime:
        wanted = ".".join(map(str, release.least_runtime))
        raise PolicyError("runtime-too-old", f"the release needs version {wanted} of the runtime")
    least = max(line.minimum_release, floors.release(line.name))
    if release.release < least:
        raise PolicyError(
            "release-too-old",
            f"release {release.release} of line {line.name} is below {least}",
        )
