"""What an audit found, step by step, and the verdict that follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

T = TypeVar("T")

PASS, FAIL, INCOMPLETE = "PASS", "FAIL", "INCOMPLETE"
EXIT_CODES: Final = {PASS: 0, FAIL: 1, INCOMPLETE: 3}
OK: Final = "ok"

TEXT, A4, A5 = "text", "A4", "A5"
"""Rungs: the half of A5 that reads no layer, sampled units, the whole replay."""


class Result(Enum):
    """How a step ended."""

    PASSED = "passed"
    FAILED = "failed"
    OPEN = "open"
    NOT_MADE = "not made"


class FailedError(Exception):
    """What a step checked is not so."""

    def __init__(self, reason: str, position: int | None = None) -> None:
        """Keep the reason's code, and the first position that differs."""
        super().__init__(reason)
        self.reason = reason
        self.position = position


class OpenError(Exception):
    """What a step needs is absent."""

    def __init__(self, reason: str) -> None:
        """Keep the reason's code."""
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Step:
    """One step.

    rung: `TEXT`, `A4` or `A5`. name: what is looked at. words: the same for people.
    reason: a code where it failed or is open. position: the first one that differs, in tokens.
    """

    rung: str
    name: str
    words: str
    result: Result
    reason: str | None = None
    position: int | None = None

    def as_json(self) -> dict[str, object]:
        """Return the step for a report."""
        return {
            "rung": self.rung,
            "step": self.name,
            "result": self.result.value,
            "reason": self.reason,
            "position": self.position,
        }


@dataclass(slots=True)
class Findings:
    """The steps of one audit in their order."""

    steps: list[Step] = field(default_factory=list)

    def __iter__(self) -> Iterator[Step]:
        """Go through the steps."""
        return iter(self.steps)

    def make(self, rung: str, name: str, words: str, check: Callable[[], T]) -> T | None:
        """Make a step and return what it gives; `FailedError` and `OpenError` are its result."""
        made, result, reason, position = None, Result.PASSED, None, None
        try:
            made = check()
        except FailedError as failed:
            result, reason, position = Result.FAILED, failed.reason, failed.position
        except OpenError as unsettled:
            result, reason = Result.OPEN, unsettled.reason
        self.steps.append(Step(rung, name, words, result, reason, position))
        return made

    def skip(self, rung: str, name: str, words: str) -> None:
        """Say that a step was not made, because of one that failed or is open."""
        self.steps.append(Step(rung, name, words, Result.NOT_MADE))

    def passed(self, *names: str) -> bool:
        """Return whether steps of these names were made, and all of them passed."""
        made = {step.name for step in self.steps if step.result is Result.PASSED}
        others = {step.name for step in self.steps if step.result is not Result.PASSED}
        return made >= set(names) and not others & set(names)

    def after(
        self, needs: tuple[str, ...], rung: str, name: str, words: str, check: Callable[[], None]
    ) -> None:
        """Make a step if those that it needs have passed, else say that it was not made."""
        if not self.passed(*needs):
            self.skip(rung, name, words)
            return
        self.make(rung, name, words, check)

    @property
    def verdict(self) -> tuple[str, str]:
        """Verdict and reason: of the first failed step, else of the first that is not settled."""
        for step in self.steps:
            if step.result is Result.FAILED:
                return FAIL, step.reason or step.name
        for step in self.steps:
            if step.result is not Result.PASSED:
                return INCOMPLETE, step.reason or step.name
        return PASS, OK
