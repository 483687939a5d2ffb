"""Steps 1 to 9, rung A0: the statement, its signer, and what is expected of it."""

from __future__ import annotations

from verifier import objects
from verifier.case import OPEN, Case, StepError, fail_if, open_if, read_or_fail
from verifier.cose import decode_sign1

MAX_AHEAD_MS = 300_000
FULL_COVERAGE = 31


def step_1(case: Case) -> None:
    """The bundle is well formed."""
    case.bundle = read_or_fail("bundle-format", objects.read_bundle, case.data)


def step_2(case: Case) -> None:
    """The statement is a signed object of its type."""
    data, most = case.bundle["statement"], objects.MAX_OBJECT_BYTES
    case.statement = read_or_fail("statement-format", decode_sign1, data, most)
    fail_if(case.statement.typ != "windhover/statement;v=1", "statement-type")


def step_3(case: Case) -> None:
    """The statement has the claims that it must have, and no others."""
    payload = case.statement.payload
    case.claims = read_or_fail("statement-claims", objects.read_statement, payload)


def step_4(case: Case) -> None:
    """The trust file lists the statement's key for attestations."""
    open_if(case.statement.key_id not in case.trust.keys, "unknown-key")
    fail_if(case.trust.keys[case.statement.key_id].role != "attest", "key-role")


def step_5(case: Case) -> None:
    """The statement's signature verifies."""
    key = case.trust.keys[case.statement.key_id]
    fail_if(not case.verifies(case.statement, key), "statement-signature")


def step_6(case: Case) -> None:
    """The key counts for the time of the answer."""
    key = case.trust.keys[case.statement.key_id]
    for lapse in case.lapses(key, case.claims[objects.STARTED], case.claims[objects.ENDED]):
        raise StepError(OPEN, f"key-{lapse}")


def step_7(case: Case) -> None:
    """It was made in production, with signed weights, and covers everything."""
    claims = case.claims
    untraced = claims[objects.COUNTS][1] > 0 and claims[objects.TRACE][0] == 0
    open_if(claims[objects.MODE] != "production", "mode-dev")
    open_if(claims[objects.LOAD_VERDICT] != "signed", "load-unsigned")
    open_if(claims[objects.COVERAGE] != FULL_COVERAGE or untraced, "not-covered")


def step_8(case: Case) -> None:
    """It does not come from the future."""
    fail_if(case.claims[objects.ENDED] > case.expected.at + MAX_AHEAD_MS, "from-the-future")


def step_9(case: Case) -> None:
    """Signer, model, nonce and time are those expected."""
    expected, claims = case.expected, case.claims
    fail_if(expected.signer not in {None, case.statement.key_id}, "expected-signer")
    fail_if(expected.model not in {None, claims[objects.MODEL]}, "expected-model")
    fail_if(expected.nonce not in {None, claims.get(objects.NONCE)}, "expected-nonce")
    early = expected.after is not None and claims[objects.STARTED] < expected.after
    late = expected.before is not None and claims[objects.ENDED] > expected.before
    fail_if(early or late, "expected-window")
