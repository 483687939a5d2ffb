"""Steps 22 to 25, rung A3: the model's release, its signers, and what was revoked."""

from __future__ import annotations

from verifier import objects
from verifier.case import FAILED, NOT_MADE, OPEN, Case, StepError, read_object
from verifier.cose import Sign1
from verifier.objects import Claims
from verifier.sm3 import labelled

MS_PER_DAY = 86_400_000
LAPSES = ("revoked", "expired", "not-yet-valid")


def step_22(case: Case) -> None:
    """The list of revocations is there where it must be, signed and fresh."""
    data = case.bundle.get("revocations")
    if data is None:
        if case.trust.revocations_required:
            raise StepError(OPEN, "no-revocations")
        return
    try:
        sign1, listed = read_object(
            data,
            "revocations",
            objects.read_revocations,
            objects.MAX_OBJECT_BYTES,
        )
    except StepError:
        raise StepError(FAILED, "revocations-format") from None
    key = case.key(sign1.key_id, "revoke")
    if key is not None and not case.verifies(sign1, key):
        raise StepError(FAILED, "revocations-signature")
    at, issued = case.expected.at, 1000 * listed[objects.ISSUED]
    if (
        key is None
        or key.public.key_id in listed[objects.KEY_IDS]
        or (key.not_before is not None and at < 1000 * key.not_before)
        or (key.not_after is not None and at >= 1000 * key.not_after)
    ):
        raise StepError(OPEN, "revocations-key")
    if at < issued:
        raise StepError(OPEN, "revocations-not-yet-valid")
    if listed[objects.LIST_SEQUENCE] < case.trust.minimum_sequence:
        raise StepError(OPEN, "revocations-old")
    days = case.trust.maximum_age_days
    if days and at - issued >= days * MS_PER_DAY:
        raise StepError(OPEN, "revocations-stale")
    case.revocations = listed


def step_23(case: Case) -> None:
    """The release that the appliance loaded is there and names this model."""
    read: list[tuple[Sign1, Claims]] = []
    for data in case.bundle.get("releases", []):
        try:
            read.append(
                read_object(data, "release", objects.read_release, objects.MAX_RELEASE_BYTES)
            )
        except StepError:
            raise StepError(FAILED, "release-format") from None
    for sign1, release in read:
        digest = labelled("windhover/release-payload;v=1", sign1.payload)
        if digest == case.claims.get(objects.PAYLOAD_DIGEST):
            case.released.append(sign1)
            case.release = release
    if not case.released:
        raise StepError(OPEN, "no-release")
    if any(
        case.release.get(key) != case.claims.get(key)
        for key in (objects.LINE, objects.RELEASE, objects.MODEL)
    ):
        raise StepError(FAILED, "release-differs")


def step_24(case: Case) -> None:
    """Enough keys that may sign the model's line signed the release."""
    known = {}
    for sign1 in case.released:
        key = case.key(sign1.key_id, "weights")
        if key is None:
            continue
        if not case.verifies(sign1, key):
            raise StepError(FAILED, "release-signature")
        known[key.public.key_id] = key
    line = case.trust.lines.get(case.release[objects.LINE])
    able = [key for key_id, key in known.items() if line and key_id in line.signer_ids]
    if known and line and not able:
        raise StepError(FAILED, "release-signer")
    if not known:
        raise StepError(OPEN, "release-unknown-signer")
    if line is None:
        raise StepError(OPEN, "release-unknown-line")
    started = case.claims[objects.STARTED]
    lapses = []
    for key in able:
        found = set(case.lapses(key, started, started))
        lapses.append(found | {"revoked"} if case.is_revoked(key) else found)
    if lapses.count(set()) < line.threshold:
        every = set().union(*lapses)
        for lapse in LAPSES:
            if lapse in every:
                raise StepError(OPEN, f"release-key-{lapse}")
        raise StepError(OPEN, "release-threshold")


def step_25(case: Case) -> None:
    """The model is not revoked, and its release was valid when the answer began."""
    listed = case.revocations
    if listed and case.claims[objects.MODEL] in listed[objects.MODEL_DIGESTS]:
        raise StepError(FAILED, "model-revoked")
    result, reason = case.results[23]
    if result == OPEN:
        raise StepError(OPEN, reason or "")
    if not case.passed(23):
        raise StepError(NOT_MADE, None)
    release, started = case.release, case.claims[objects.STARTED]
    if started < 1000 * release[objects.NOT_BEFORE]:
        raise StepError(FAILED, "release-not-yet-valid")
    expires = release.get(objects.EXPIRES)
    if isinstance(expires, int) and started >= 1000 * expires:
        raise StepError(FAILED, "release-expired")
    line = case.trust.lines.get(release[objects.LINE])
    if line is not None and release[objects.RELEASE] < line.minimum_release:
        raise StepError(FAILED, "release-too-old")
