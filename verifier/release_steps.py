"""Steps 22 to 25, rung A3: the model's release, its signers, and what was revoked."""

from __future__ import annotations

from verifier import objects
from verifier.case import NOT_MADE, OPEN, Case, StepError, fail_if, open_if, read_object
from verifier.sm3 import labelled

MS_PER_DAY = 86_400_000
LAPSES = ("revoked", "expired", "not-yet-valid")


def step_22(case: Case) -> None:
    """The list of revocations is there where it must be, signed and fresh."""
    if "revocations" not in case.bundle:
        open_if(case.trust.revocations_required, "no-revocations")
        return
    sign1, listed = read_object(case.bundle["revocations"], "revocations")
    key = case.key(sign1.key_id, "revoke")
    fail_if(key is not None and not case.verifies(sign1, key), "revocations-signature")
    at, issued = case.expected.at, 1000 * listed[objects.ISSUED]
    if (
        key is None
        or key.public.key_id in listed[objects.KEY_IDS]
        or (key.not_before is not None and at < 1000 * key.not_before)
        or (key.not_after is not None and at >= 1000 * key.not_after)
    ):
        raise StepError(OPEN, "revocations-key")
    open_if(at < issued, "revocations-not-yet-valid")
    open_if(listed[objects.LIST_SEQUENCE] < case.trust.minimum_sequence, "revocations-old")
    days = case.trust.maximum_age_days
    open_if(days > 0 and at - issued >= days * MS_PER_DAY, "revocations-stale")
    case.revocations = listed


def step_23(case: Case) -> None:
    """The release that the appliance loaded is there and names this model."""
    claims = case.claims
    for sign1, release in [read_object(d, "release") for d in case.bundle.get("releases", [])]:
        digest = labelled("windhover/release-payload;v=1", sign1.payload)
        if digest == claims.get(objects.PAYLOAD_DIGEST):
            case.released.append(sign1)
            case.release = release
    open_if(not case.released, "no-release")
    named = (objects.LINE, objects.RELEASE, objects.MODEL)
    fail_if(any(case.release.get(key) != claims.get(key) for key in named), "release-differs")


def step_24(case: Case) -> None:
    """Enough keys that may sign the model's line signed the release."""
    known = {}
    for sign1 in case.released:
        key = case.key(sign1.key_id, "weights")
        if key is not None:
            fail_if(not case.verifies(sign1, key), "release-signature")
            known[key.public.key_id] = key
    open_if(not known, "release-unknown-signer")
    line = case.trust.lines.get(case.release[objects.LINE])
    if line is None:
        raise StepError(OPEN, "release-unknown-line")
    able = [key for key_id, key in known.items() if key_id in line.signer_ids]
    fail_if(not able, "release-signer")
    started = case.claims[objects.STARTED]
    lapses = [
        {*case.lapses(key, started, started), *(["revoked"] if case.is_revoked(key) else [])}
        for key in able
    ]
    if lapses.count(set()) < line.threshold:
        for lapse in LAPSES:
            open_if(any(lapse in found for found in lapses), f"release-key-{lapse}")
        raise StepError(OPEN, "release-threshold")


def step_25(case: Case) -> None:
    """The model is not revoked, and its release was valid when the answer began."""
    listed = case.revocations
    revoked = listed is not None and case.claims[objects.MODEL] in listed[objects.MODEL_DIGESTS]
    fail_if(revoked, "model-revoked")
    result, reason = case.results[23]
    open_if(result == OPEN, reason or "")
    if not case.passed(23):
        raise StepError(NOT_MADE, None)
    release, started = case.release, case.claims[objects.STARTED]
    fail_if(started < 1000 * release[objects.NOT_BEFORE], "release-not-yet-valid")
    expires = release.get(objects.EXPIRES)
    fail_if(expires is not None and started >= 1000 * expires, "release-expired")
    line = case.trust.lines.get(release[objects.LINE])
    old = line is not None and release[objects.RELEASE] < line.minimum_release
    fail_if(old, "release-too-old")
