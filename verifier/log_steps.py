"""Steps 10 to 17, rung A1: the log, the admission, and heads of the log."""

from __future__ import annotations

from verifier import objects
from verifier.case import FAILED, OPEN, Case, StepError, fail_if, open_if, read_object
from verifier.cose import Sign1
from verifier.merkle import extends, includes, leaf_hash
from verifier.objects import LOG_ID, ROOT, SEQUENCE, SIZE, STARTED

AGREED = (
    *(LOG_ID, objects.NONCE, objects.PROFILE, objects.MODEL, objects.PRINCIPAL),
    *(objects.PARAMETERS, objects.SEED, objects.SEED_SOURCE),
)


def step_10(case: Case) -> None:
    """There is a checkpoint of the log."""
    open_if("checkpoint" not in case.bundle, "no-checkpoint")
    case.checkpoint, case.head = read_object(case.bundle["checkpoint"], "checkpoint")


def step_11(case: Case) -> None:
    """The checkpoint is of this log and signed by a key that counts."""
    fail_if(case.head[LOG_ID] != case.claims[LOG_ID], "checkpoint-log")
    _check_signer(case, case.checkpoint, "checkpoint", case.head[objects.TIME])


def step_12(case: Case) -> None:
    """The trust file names this log."""
    open_if(case.claims[LOG_ID] not in case.trust.logs, "log-not-pinned")


def step_13(case: Case) -> None:
    """The statement is in the log, at its place."""
    _check_inclusion(case, case.statement, case.claims[SEQUENCE], "inclusion")


def step_14(case: Case) -> None:
    """The request was admitted to the log before the answer began, as the statement says."""
    open_if("admission" not in case.bundle, "no-admission")
    case.admission, case.admitted = read_object(case.bundle["admission"], "admission")
    admitted, claims = case.admitted, case.claims
    lapse = None
    try:
        _check_signer(case, case.admission, "admission", admitted[STARTED])
    except StepError as found:
        if found.args[0] == FAILED:
            raise
        lapse = found
    fail_if(
        any(admitted.get(key) != claims.get(key) for key in AGREED)
        or admitted[SEQUENCE] != claims[objects.ADMISSION]
        or admitted[objects.REQUEST_COMMITMENT] != claims[objects.COMMITMENTS]["request"]
        or admitted[STARTED] > claims[STARTED],
        "admission-differs",
    )
    if lapse:
        raise lapse


def step_15(case: Case) -> None:
    """The admission is in the log, at its place."""
    _check_inclusion(case, case.admission, case.admitted[SEQUENCE], "admission_inclusion")


def step_16(case: Case) -> None:
    """The log still begins with what it was when the statement was made."""
    old_size, old_root = case.claims[objects.HEAD]
    size, root = case.head[SIZE], case.head[ROOT]
    open_if("consistency" not in case.bundle and 0 < old_size < size, "no-consistency")
    proof = case.bundle.get("consistency", [])
    fail_if(not extends(old_size, old_root, size, root, proof), "consistency")


def step_17(case: Case) -> None:
    """The log is the one whose head the auditor holds."""
    head = case.expected.head
    if head is None:
        return
    same_size = head.size == case.head[SIZE]
    fail_if(head.log_id not in {None, case.head[LOG_ID]}, "expected-head")
    fail_if(same_size and head.root != case.head[ROOT], "expected-head")
    open_if(not same_size, "head-differs")


def admission_can_be_looked_up(case: Case) -> bool:
    """Return whether only the admission's key is in question."""
    return case.results[14] == (OPEN, "admission-key")


def _check_signer(case: Case, sign1: Sign1, kind: str, at: int) -> None:
    open_if(sign1.key_id not in case.trust.keys, f"{kind}-key")
    key = case.trust.keys[sign1.key_id]
    fail_if(key.role != "attest", f"{kind}-role")
    fail_if(not case.verifies(sign1, key), f"{kind}-signature")
    open_if(bool(case.lapses(key, at, at)), f"{kind}-key")


def _check_inclusion(case: Case, sign1: Sign1, index: int, name: str) -> None:
    reason = name.replace("_", "-")
    size, root = case.head[SIZE], case.head[ROOT]
    fail_if(index >= size, reason)
    open_if(name not in case.bundle, f"no-{reason}")
    leaf = leaf_hash(sign1.data)
    fail_if(not includes(root, size, index, leaf, case.bundle[name]), reason)
