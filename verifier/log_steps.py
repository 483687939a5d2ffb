"""Steps 10 to 17, rung A1: the log, the admission, and heads of the log."""

from __future__ import annotations

from verifier import objects
from verifier.case import FAILED, OPEN, Case, StepError, read_object
from verifier.cose import Sign1
from verifier.merkle import extends, includes, leaf_hash
from verifier.objects import LOG_ID, ROOT, SEQUENCE, SIZE, STARTED

AGREED = (
    *(LOG_ID, objects.NONCE, objects.PROFILE, objects.MODEL, objects.PRINCIPAL),
    *(objects.PARAMETERS, objects.SEED, objects.SEED_SOURCE),
)


def step_10(case: Case) -> None:
    """There is a checkpoint of the log."""
    data = case.bundle.get("checkpoint")
    if data is None:
        raise StepError(OPEN, "no-checkpoint")
    case.checkpoint, case.head = read_object(
        data, "checkpoint", objects.read_checkpoint, objects.MAX_OBJECT_BYTES
    )


def step_11(case: Case) -> None:
    """The checkpoint is of this log and signed by a key that counts."""
    if case.head[LOG_ID] != case.claims[LOG_ID]:
        raise StepError(FAILED, "checkpoint-log")
    _check_signer(case, case.checkpoint, "checkpoint", case.head[objects.TIME])


def step_12(case: Case) -> None:
    """The trust file names this log."""
    if case.claims[LOG_ID] not in case.trust.logs:
        raise StepError(OPEN, "log-not-pinned")


def step_13(case: Case) -> None:
    """The statement is in the log, at its place."""
    _check_inclusion(case, case.statement, case.claims[SEQUENCE], "inclusion")


def step_14(case: Case) -> None:
    """The request was admitted to the log before the answer began, as the statement says."""
    data = case.bundle.get("admission")
    if data is None:
        raise StepError(OPEN, "no-admission")
    case.admission, case.admitted = read_object(
        data, "admission", objects.read_admission, objects.MAX_OBJECT_BYTES
    )
    admitted, claims = case.admitted, case.claims
    lapse = None
    try:
        _check_signer(case, case.admission, "admission", admitted[STARTED])
    except StepError as found:
        if found.result == FAILED:
            raise
        lapse = found
    if (
        any(admitted.get(key) != claims.get(key) for key in AGREED)
        or admitted[SEQUENCE] != claims[objects.ADMISSION]
        or admitted[objects.REQUEST_COMMITMENT] != claims[objects.COMMITMENTS]["request"]
        or admitted[STARTED] > claims[STARTED]
    ):
        raise StepError(FAILED, "admission-differs")
    if lapse:
        raise lapse


def step_15(case: Case) -> None:
    """The admission is in the log, at its place."""
    place = case.admitted[SEQUENCE]
    _check_inclusion(case, case.admission, place, "admission_inclusion")


def step_16(case: Case) -> None:
    """The log still begins with what it was when the statement was made."""
    old_size, old_root = case.claims[objects.HEAD]
    size = case.head[SIZE]
    proof = case.bundle.get("consistency")
    if proof is None and 0 < old_size < size:
        raise StepError(OPEN, "no-consistency")
    if not extends(old_size, old_root, size, case.head[ROOT], proof or []):
        raise StepError(FAILED, "consistency")


def step_17(case: Case) -> None:
    """The log is the one whose head the auditor holds."""
    head = case.expected.head
    if head is None:
        return
    same_size = head.size == case.head[SIZE]
    if head.log_id not in {None, case.head[LOG_ID]}:
        raise StepError(FAILED, "expected-head")
    if same_size and head.root != case.head[ROOT]:
        raise StepError(FAILED, "expected-head")
    if not same_size:
        raise StepError(OPEN, "head-differs")


def admission_can_be_looked_up(case: Case) -> bool:
    """Return whether only the admission's key is in question."""
    return case.results[14] == (OPEN, "admission-key")


def _check_signer(case: Case, sign1: Sign1, kind: str, at: int) -> None:
    key = case.trust.keys.get(sign1.key_id)
    if key is None:
        raise StepError(OPEN, f"{kind}-key")
    if key.role != "attest":
        raise StepError(FAILED, f"{kind}-role")
    if not case.verifies(sign1, key):
        raise StepError(FAILED, f"{kind}-signature")
    if case.lapses(key, at, at):
        raise StepError(OPEN, f"{kind}-key")


def _check_inclusion(case: Case, sign1: Sign1, index: int, name: str) -> None:
    reason = name.replace("_", "-")
    size, root = case.head[SIZE], case.head[ROOT]
    if index >= size:
        raise StepError(FAILED, reason)
    proof = case.bundle.get(name)
    if proof is None:
        raise StepError(OPEN, f"no-{reason}")
    if not includes(root, size, index, leaf_hash(sign1.data), proof):
        raise StepError(FAILED, reason)
