"""One bundle under verification: what was read of it, what the steps found, who counts."""

from __future__ import annotations

import functools
from collections.abc import Callable

from verifier import objects
from verifier.cose import Sign1, decode_sign1
from verifier.errors import Any, MalformedError
from verifier.expectations import Expectations
from verifier.objects import Bundle, Claims
from verifier.sm3 import sm3
from verifier.trust import Key, Trust

PASSED, FAILED, OPEN, NOT_MADE = "passed", "failed", "open", "not made"
READERS = {
    "admission": objects.read_admission,
    "checkpoint": objects.read_checkpoint,
    "cosignature": objects.read_cosignature,
    "release": objects.read_release,
    "revocations": objects.read_revocations,
    "software": objects.read_software,
}
ONE_REASON = (
    "release",
    "revocations",
    "software",
)  # kinds of which no more is said than their format


class StepError(Exception):
    """A step does not pass: its arguments are the result (failed, open, not made) and why."""


def fail_if(found: bool, reason: str) -> None:
    """Let the step fail where this was found (StepError)."""
    if found:
        raise StepError(FAILED, reason)


def open_if(found: bool, reason: str) -> None:
    """Leave the step open where this was found (StepError)."""
    if found:
        raise StepError(OPEN, reason)


def read_or_fail(reason: str, read: Callable[..., Any], *arguments: object) -> Any:
    """Return what is read, or let the step fail with this reason (StepError)."""
    try:
        return read(*arguments)
    except MalformedError:
        raise StepError(FAILED, reason) from None


class Case:
    """The inputs of a verification and what the steps have found so far."""

    def __init__(
        self, data: bytes, trust: Trust, expected: Expectations, cache: dict[bytes, bool]
    ) -> None:
        self.data, self.trust = data, trust
        self.expected, self.cache = expected, cache
        self.results: dict[int, tuple[str, str | None]] = {}
        self.bundle: Bundle
        self.statement: Sign1
        self.claims: Claims
        self.checkpoint: Sign1
        self.head: Claims
        self.admission: Sign1
        self.admitted: Claims
        self.revocations: Claims | None = None
        self.released: list[Sign1] = []
        self.release: Claims
        self.opened: dict[str, bytes] = {}

    def step(self, number: int, needs: tuple[int, ...], check: Callable[[Case], None]) -> None:
        """Make a step, if those that it needs allow it, and keep its result."""
        before = [self.results[needed] for needed in needs]
        if any(result in {FAILED, NOT_MADE} for result, _ in before):
            self.results[number] = NOT_MADE, None
        elif left_open := [found for found in before if found[0] == OPEN]:
            self.results[number] = left_open[0]
        else:
            try:
                check(self)
                self.results[number] = PASSED, None
            except StepError as found:
                self.results[number] = found.args[0], found.args[1]

    def passed(self, number: int) -> bool:
        """Return whether a step was made and passed."""
        return self.results.get(number, (NOT_MADE, None))[0] == PASSED

    @property
    def pinned(self) -> bool:
        """Whether the auditor's own log head covers the statement."""
        return self.expected.head is not None and self.passed(13) and self.passed(17)

    def key(self, key_id: bytes, role: str) -> Key | None:
        """Return the trusted key of this id and role."""
        key = self.trust.keys.get(key_id)
        return key if key is not None and key.role == role else None

    def verifies(self, sign1: Sign1, key: Key) -> bool:
        """Return whether the signature verifies; each object is computed once."""
        digest = sm3(sign1.data)
        if digest not in self.cache:
            self.cache[digest] = sign1.verifies(key.public)
        return self.cache[digest]

    def is_revoked(self, key: Key) -> bool:
        """Return whether the list in force names the key."""
        listed = self.revocations
        return listed is not None and key.public.key_id in listed[objects.KEY_IDS]

    def lapses(self, key: Key, begin: int, end: int) -> list[str]:
        """Return why a key does not count from begin to end (ms): all that hold, in order."""
        found = []
        if key.not_before is not None and begin < 1000 * key.not_before:
            found.append("not-yet-valid")
        last = end if self.pinned else max(end, self.expected.at)
        if key.not_after is not None and last >= 1000 * key.not_after:
            found.append("expired")
        if self.is_revoked(key) and not self.pinned:
            found.append("revoked")
        return found


@functools.lru_cache(maxsize=64)  # bundles of one log share checkpoints and releases
def read_object(data: bytes, kind: str) -> tuple[Sign1, Claims]:
    """Read an object of the type windhover/KIND;v=1 (StepError with KIND-format and so on)."""
    is_short = kind in {"release", "software"}
    most = objects.MAX_RELEASE_BYTES if is_short else objects.MAX_OBJECT_BYTES
    of_format, of_type, of_claims = (
        f"{kind}-{'format' if kind in ONE_REASON else reason}"
        for reason in ("format", "type", "claims")
    )
    sign1 = read_or_fail(of_format, decode_sign1, data, most)
    fail_if(sign1.typ != f"windhover/{kind};v=1", of_type)
    return sign1, read_or_fail(of_claims, READERS[kind], sign1.payload)
