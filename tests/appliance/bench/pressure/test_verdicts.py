"""Growth is told from noise, and every verdict can be a bad one."""

from __future__ import annotations

import numpy as np
import pytest

from appliance.bench.pressure.references import Drawn
from appliance.bench.pressure.results import Plan, Results, State, growth, percentile
from appliance.bench.pressure.slope import robust_slope, second_half
from appliance.bench.pressure.tally import Tally
from appliance.bench.pressure.verdicts import (
    check_answers,
    check_health,
    check_memory,
    check_references,
)
from appliance.bench.pressure.watch import Memory


@pytest.fixture
def results() -> Results:
    """Nothing found yet."""
    return Results(Plan(), {})


def sampled(per_minute: float, filling: float = 0, count: int = 120) -> Memory:
    """Return ten minutes of samples that grow, after a minute in which a cache fills."""
    draw = np.random.default_rng(3)
    memory = Memory(0, 5)
    for number in range(count):
        minutes = 10 * number / count
        size = 500 + per_minute * minutes + filling * min(1, minutes) + draw.normal(0, 2)
        memory.samples.append((60 * minutes, size + 100, float(size), 9))
    return memory


def test_a_slope_is_not_misled_by_a_quarter_of_the_points() -> None:
    points = [(float(x), 2.0 * x) for x in range(40)]
    assert robust_slope(points) == 2
    spoiled = [(x, y + 1000.0 * (x % 4 == 3)) for x, y in points]
    assert robust_slope(spoiled) == pytest.approx(2, abs=0.2)
    with pytest.raises(ValueError, match="two points"):
        robust_slope(points[:1])


def test_the_second_half_is_one_of_time() -> None:
    points = [(0, 1), (1, 1), (2, 1), (9, 1), (10, 1)]
    assert second_half(points) == [(9, 1), (10, 1)]
    assert second_half([]) == []
    assert growth([(0, 1)]) is None


@pytest.mark.parametrize(
    ("per_minute", "filling", "state"),
    [(0, 0, State.PASSED), (0, 300, State.PASSED), (3, 0, State.FAILED), (2, 300, State.FAILED)],
)
def test_memory(results: Results, per_minute: float, filling: float, state: State) -> None:
    check_memory(results, sampled(per_minute, filling))
    assert results.state is state
    assert results.figures["anonymous_mb_per_min"] == pytest.approx(per_minute, abs=0.7)


def test_memory_that_was_not_seen_is_not_judged(results: Results) -> None:
    check_memory(results, None)
    check_memory(results, sampled(50, count=20))
    assert [check.state for check in results.checks] == [State.UNCHECKED] * 2


def test_references(results: Results) -> None:
    one, other = Drawn(b"\x01", b"r"), Drawn(b"\x01", b"s")
    check_references(results, {"a": one}, {"under load": [("a", one, "att")] * 3})
    assert results.state is State.PASSED
    check_references(results, {"a": one}, {"under load": [("a", one, "x"), ("a", other, "y")]})
    assert results.checks[-1].found == "a, under load"
    check_references(results, {"a": one}, {"under load": []})
    assert [each.state for each in results.checks[1:]] == [State.FAILED] * 2


def test_health(results: Results) -> None:
    check_health(results, [5.0] * 199 + [500.0])
    assert results.state is State.PASSED
    assert results.figures["health_ms_max"] == 500
    for probes in ([5.0, None], [5.0] * 9 + [500.0], []):
        check_health(results, list(probes))
        assert results.checks[-1].state is State.FAILED
    assert percentile([3, 1, 2], 50) == 2


def test_answers(results: Results) -> None:
    tally = Tally()
    tally.outcomes["whole", "answered"] = 5
    tally.outcomes["stream", "told to wait (503)"] = 2
    check_answers(results, tally)
    assert results.state is State.PASSED
    assert results.figures["told_to_wait_503"] == 2
    tally.fault("stream: broken")
    check_answers(results, tally)
    assert results.checks[-1].found == "1 are not: stream: broken"
    assert results.state is State.FAILED
    assert Results(Plan(), {}).state is State.PASSED
    nothing = Results(Plan(), {})
    check_answers(nothing, Tally())
    assert nothing.state is State.FAILED
