"""What a load test found: figures, and the verdict of each check."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from appliance.bench.machine import load_average, machine_facts
from appliance.bench.pressure.slope import robust_slope, second_half


class State(Enum):
    """How a check ended; what could not be checked is neither good nor bad."""

    PASSED = "passed"
    FAILED = "FAILED"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Check:
    """Something that has to hold, and what was found."""

    name: str
    state: State
    found: str


@dataclass(frozen=True, slots=True)
class Plan:
    """How to press a service.

    Attributes:
        minutes: how long.
        clients: how many at once.
        seed: of everything that is drawn at random.
        max_tokens: longest answer that a client asks for.
        sample_s: how often memory is looked at.
        probe_s: how often `/health` is asked.
        health_ms: what 99 of 100 probes have to stay under.
        growth_mb: MB a minute that are no growth.
    """

    minutes: float = 10
    clients: int = 32
    seed: int = 1
    max_tokens: int = 48
    sample_s: float = 5
    probe_s: float = 0.1
    health_ms: float = 100
    growth_mb: float = 1

    @property
    def seconds(self) -> float:
        """How long."""
        return 60 * self.minutes


@dataclass(slots=True)
class Results:
    """Everything that was found.

    Attributes:
        plan: how it was pressed.
        settings: of the service, as far as the test has set them.
        service: what the service says of itself.
        figures: numbers by name.
        kinds: how often each kind of deed ended how.
        faults: what must not have happened, the first ones in words.
        checks: their verdicts.
        memory: seconds, MB resident, MB that no file backs, threads.
        machine: facts of it.
        load_before: load average at the start.
    """

    plan: Plan
    settings: dict[str, object]
    service: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, float | int | None] = field(default_factory=dict)
    kinds: dict[str, dict[str, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    memory: list[tuple[float, float, float, int]] = field(default_factory=list)
    machine: dict[str, object] = field(default_factory=machine_facts)
    load_before: float = field(default_factory=load_average)

    @property
    def state(self) -> State:
        """The verdict of all checks: failed if one has, else not checked if one was not."""
        states = {check.state for check in self.checks}
        return next(
            (each for each in (State.FAILED, State.UNCHECKED) if each in states), State.PASSED
        )

    def check(self, name: str, passed: bool | None, found: str) -> None:
        """Add a check; None: it could not be made."""
        states = {True: State.PASSED, False: State.FAILED, None: State.UNCHECKED}
        self.checks.append(Check(name, states[passed], found))

    def as_json(self) -> dict[str, object]:
        """Return the evidence: every number beside what it was measured on."""
        plan = {name: getattr(self.plan, name) for name in Plan.__slots__}
        return {
            "schema": "windhover-bench-serve-load/1",
            "machine": self.machine,
            "load_average": {"before": self.load_before, "after": load_average()},
            "plan": plan,
            "settings": {name: _plain(value) for name, value in self.settings.items()},
            "service": self.service,
            "figures": self.figures,
            "deeds": self.kinds,
            "faults": self.faults,
            "checks": [
                {"name": each.name, "verdict": each.state.value, "found": each.found}
                for each in self.checks
            ],
            "memory": {
                "columns": ["seconds", "resident_mb", "anonymous_mb", "threads"],
                "samples": self.memory,
            },
        }


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the value that so many percent do not exceed; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def median(values: Sequence[float]) -> float | None:
    """Return the median; None of nothing."""
    return statistics.median(values) if values else None


def growth(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the slope of the second half of what was sampled; None of too few points."""
    half = second_half(points)
    return robust_slope(half) if len(half) > 1 else None


def _plain(value: object) -> object:
    return value if isinstance(value, int | float | str | dict | None) else str(value)
