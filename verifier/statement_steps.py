"""Steps 1 to 9, rung A0: the statement, its signer, and what is expected of it."""

from __future__ import annotations

from verifier import objects
from verifier.case import FAILED, OPEN, Case, StepError
from verifier.cose import decode_sign1
from verifier.errors import MalformedError

MAX_AHEAD_MS = 300_000
FULL_COVERAGE = 31


def step_1(case: Case) -> None:
    """The bundle is well formed."""
    try:
        case.bundle = objects.read_bundle(case.data)
    except MalformedError:
        raise StepError(FAILED, "bundle-format") from None


def step_2(case: Case) -> None:
    """The statement is a signed object of its type."""
    try:
        case.statement = decode_sign1(case.bundle["statement"], objects.MAX_OBJECT_BYTES)
    except MalformedError:
        raise StepError(FAILED, "statement-format") from None
    if case.statement.typ != "windhover/statement;v=1":
        raise StepError(FAILED, "statement-type")


def step_3(case: Case) -> None:
    """The statement has the claims that it must have, and no others."""
    try:
        case.claims = objects.read_statement(case.statement.payload)
    except MalformedError:
        raise StepError(FAILED, "statement-claims") from None


def step_4(case: Case) -> None:
    """The trust file lists the statement's key for attestations."""
    key = case.trust.keys.get(case.statement.key_id)
    if key is None:
        raise StepError(OPEN, "unknown-key")
    if key.role != "attest":
        raise StepError(FAILED, "key-role")


def step_5(case: Case) -> None:
    """The statement's signature verifies."""
    if not case.verifies(case.statement, case.trust.keys[case.statement.key_id]):
        raise StepError(FAILED, "statement-signature")


def step_6(case: Case) -> None:
    """The key counts for the time of the answer."""
    key = case.trust.keys[case.statement.key_id]
    begin, end = case.claims[objects.STARTED], case.claims[objects.ENDED]
    for lapse in case.lapses(key, begin, end):
        raise StepError(OPEN, f"key-{lapse}")


def step_7(case: Case) -> None:
    """It was made in production, with signed weights, and covers everything."""
    claims = case.claims
    positions = claims[objects.TRACE][0]
    if claims[objects.MODE] != "production":
        raise StepError(OPEN, "mode-dev")
    if claims[objects.LOAD_VERDICT] != "signed":
        raise StepError(OPEN, "load-unsigned")
    covered = claims[objects.COVERAGE] == FULL_COVERAGE
    if not covered or (claims[objects.COUNTS][1] and not positions):
        raise StepError(OPEN, "not-covered")


def step_8(case: Case) -> None:
    """It does not come from the future."""
    if case.claims[objects.ENDED] > case.expected.at + MAX_AHEAD_MS:
        raise StepError(FAILED, "from-the-future")


def step_9(case: Case) -> None:
    """Signer, model, nonce and time are those expected."""
    expected, claims = case.expected, case.claims
    if expected.signer is not None and case.statement.key_id != expected.signer:
        raise StepError(FAILED, "expected-signer")
    if expected.model is not None and claims[objects.MODEL] != expected.model:
        raise StepError(FAILED, "expected-model")
    if expected.nonce is not None and claims.get(objects.NONCE) != expected.nonce:
        raise StepError(FAILED, "expected-nonce")
    begin, end = claims[objects.STARTED], claims[objects.ENDED]
    if expected.after is not None and begin < expected.after:
        raise StepError(FAILED, "expected-window")
    if expected.before is not None and end > expected.before:
        raise StepError(FAILED, "expected-window")
