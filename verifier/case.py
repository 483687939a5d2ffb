"""One bundle under verification: what was read of it, what the steps found, who counts."""

from __future__ import annotations

import functools
from collections.abc import Callable

from verifier import objects
from verifier.cose import Sign1, decode_sign1
from verifier.errors import MalformedError
from verifier.expectations import Expectations
from verifier.objects import Bundle, Claims
from verifier.sm3 import sm3
from verifier.trust import Key, Trust

PASSED, FAILED, OPEN, NOT_MADE = "passed", "failed", "open", "not made"
RUNG_OF_STEP = {
    number: rung
    for rung, numbers in {
        "A0": range(1, 10),
        "A1": range(10, 18),
        "A2": range(18, 22),
        "A3": range(22, 26),
    }.items()
    for number in numbers
}


class StepError(Exception):
    """A step does not pass: `result` is failed, open or not made, `reason` why."""

    def __init__(self, result: str, reason: str | None) -> None:
        super().__init__(result, reason)
        self.result = result
        self.reason = reason


class Case:
    """The inputs of a verification and what the steps have found so far."""

    def __init__(
        self, data: bytes, trust: Trust, expected: Expectations, cache: dict[bytes, bool]
    ) -> None:
        self.data = data
        self.trust = trust
        self.expected = expected
        self.cache = cache
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

    def step(self, number: int, needs: tuple[int, ...], check: Callable[[], None]) -> None:
        """Make a step, if those that it needs allow it, and keep its result."""
        self.results[number] = PASSED, None
        try:
            for result, _ in (self.results[needed] for needed in needs):
                if result in {FAILED, NOT_MADE}:
                    raise StepError(NOT_MADE, None)
            for result, reason in (self.results[needed] for needed in needs):
                if result == OPEN:
                    raise StepError(OPEN, reason)
            check()
        except StepError as found:
            self.results[number] = found.result, found.reason

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
        if key.not_after is not None:
            over = self.expected.at >= 1000 * key.not_after and not self.pinned
            if end >= 1000 * key.not_after or over:
                found.append("expired")
        if self.is_revoked(key) and not self.pinned:
            found.append("revoked")
        return found


@functools.lru_cache(maxsize=64)  # bundles of one log share checkpoints and releases
def read_object(
    data: bytes, kind: str, read: Callable[[bytes], Claims], max_bytes: int
) -> tuple[Sign1, Claims]:
    """Read an object of the type windhover/KIND;v=1 (StepError with KIND-format and so on)."""
    try:
        sign1 = decode_sign1(data, max_bytes)
    except MalformedError:
        raise StepError(FAILED, f"{kind}-format") from None
    if sign1.typ != f"windhover/{kind};v=1":
        raise StepError(FAILED, f"{kind}-type")
    try:
        return sign1, read(sign1.payload)
    except MalformedError:
        raise StepError(FAILED, f"{kind}-claims") from None
