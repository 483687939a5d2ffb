"""Verifies one bundle: the steps of SPEC.md section 6 in an order that serves their needs."""

from __future__ import annotations

from verifier import log_steps, objects, release_steps, software, statement_steps, text_steps
from verifier.case import FAILED, NOT_MADE, OPEN, Case, StepError, read_object
from verifier.errors import MalformedError, UsageError
from verifier.expectations import Expectations
from verifier.report import FAIL, INCOMPLETE, PASS, Report, Step, Witness
from verifier.trust import Trust

STEPS = {
    number: (rung, getattr(module, f"step_{number}"))
    for rung, module, numbers in (
        ("A0", statement_steps, range(1, 10)),
        ("A1", log_steps, range(10, 18)),
        ("A2", text_steps, range(18, 22)),
        ("A3", release_steps, range(22, 26)),
    )
    for number in numbers
}
NEEDS = {1: (), 2: (1,), 3: (2,), 5: (4,), 6: (4,), 11: (10,), 13: (10,), 16: (10,)} | {
    **{22: (1,), 24: (23,)},
}
# the list in force first, then what a pinned head needs, before the first key is judged
ORDER = (1, 22, 2, 3, 4, 5, 10, 13, 17, 6, 7, 8, 9, 11, 12, 14, 15, 16, *range(18, 22), 23, 24, 25)


def read_trust(data: bytes) -> Trust:
    """Read a trust file (UsageError)."""
    try:
        return Trust(data)
    except MalformedError as error:
        raise UsageError(f"the trust file is refused: {error}") from None


def verify(
    bundle: bytes,
    trust: bytes | Trust,
    expectations: Expectations | None = None,
    cache: dict[bytes, bool] | None = None,
) -> Report:
    """Return what the bundle shows; raise UsageError, and nothing else, for the other inputs.

    `cache` keeps results of signatures among bundles that are verified under one trust file.
    """
    if isinstance(trust, bytes):
        trust = read_trust(trust)
    expected = Expectations() if expectations is None else expectations
    case = Case(bundle, trust, expected, {} if cache is None else cache)
    try:
        for number in ORDER:
            case.step(number, _needs(case, number), STEPS[number][1])
        return _report(case)
    except Exception:  # the last guard: whatever is wrong with this program is no pass
        return Report(FAIL, "internal", [])


def _needs(case: Case, number: int) -> tuple[int, ...]:
    if number == 15:
        return (10,) if log_steps.admission_can_be_looked_up(case) else (10, 14)
    if number == 17:
        return (10,) if case.expected.head is not None else (3,)
    return NEEDS.get(number, (3,))


def _report(case: Case) -> Report:
    steps = [
        Step(number, rung, check.__doc__, *case.results[number])
        for number, (rung, check) in STEPS.items()
    ]
    expected = case.expected
    wanted = {17} if expected.head is not None else set()
    if expected.request is not None or expected.response is not None:
        wanted.add(21)
    verdict, reason = PASS, "ok"
    if failed := [step for step in steps if step.result == FAILED]:
        verdict, reason = FAIL, failed[0].reason or ""
    elif missing := [
        step
        for step in steps
        if step.result in {OPEN, NOT_MADE} and (step.rung in expected.need or step.number in wanted)
    ]:
        verdict, reason = INCOMPLETE, missing[0].reason or ""
    report = Report(verdict, reason, steps)
    if case.passed(3):
        report.statement = case.claims
        report.signer = case.statement.key_id
        report.object_bytes = case.statement.data
        report.is_signed = case.passed(5)
    if case.passed(11):
        report.head = case.head
        report.witnesses = _witnesses(case)
    report.opened = sorted(case.opened)
    report.software = [software.judge(case, data) for data in expected.software]
    return report


def _witnesses(case: Case) -> list[Witness]:
    """Return who else signed the checkpoint's head; it has no influence on the verdict."""
    found = []
    for data in case.bundle.get("cosignatures", []):
        try:
            sign1, claims = read_object(data, "cosignature")
        except StepError:
            continue
        key, at = case.key(sign1.key_id, "witness"), claims[objects.TIME]
        same = all(
            claims[part] == case.head[part] for part in (objects.LOG_ID, objects.SIZE, objects.ROOT)
        )
        if key and same and not case.lapses(key, at, at) and case.verifies(sign1, key):
            found.append(Witness(key.name, at))
    return found
