"""The verdicts over what was seen while the clients were there."""

from __future__ import annotations

from typing import Final

from appliance.bench.pressure.references import Drawn
from appliance.bench.pressure.results import Results, growth, median, percentile
from appliance.bench.pressure.tally import Tally
from appliance.bench.pressure.watch import Memory

_LEAST_SAMPLES: Final = 24


def check_answers(results: Results, tally: Tally) -> None:
    """See that every deed ended as it may."""
    results.kinds, results.faults = tally.as_json(), tally.faults
    answered = sum(n for (_, outcome), n in tally.outcomes.items() if outcome == "answered")
    left = sum(n for (_, outcome), n in tally.outcomes.items() if outcome == "left")
    waits = {
        status: sum(
            n for (_, said), n in tally.outcomes.items() if said == f"told to wait ({status})"
        )
        for status in (429, 503)
    }
    results.figures |= {
        "requests": tally.outcomes.total(),
        "answered": answered,
        "left": left,
        "told_to_wait_429": waits[429],
        "told_to_wait_503": waits[503],
        "told_to_wait_s": tally.waited_s,
        "first_byte_s_p50": median(tally.first_s),
        "first_byte_s_p99": percentile(tally.first_s, 99),
    }
    found = "; ".join(tally.faults[:3]) or f"{tally.outcomes.total()} requests"
    results.check(
        "every answer is as it must be", not tally.num_faults and answered > 0,
        f"{tally.num_faults} are not: {found}" if tally.num_faults else found,
    )  # fmt: skip


def check_references(
    results: Results,
    alone: dict[str, Drawn],
    later: dict[str, list[tuple[str, Drawn, str]]],
) -> None:
    """Compare token ids and trace roots with those of the requests alone."""
    differ = [
        f"{name}, {when}"
        for when, asked in later.items()
        for name, drawn, _ in asked
        if drawn != alone[name]
    ]
    counts = {when: len(asked) for when, asked in later.items()}
    results.figures |= {f"references_{when.replace(' ', '_')}": n for when, n in counts.items()}
    found = "; ".join(sorted(set(differ))[:6]) if differ else ", ".join(
        f"{count} {when}" for when, count in counts.items()
    )  # fmt: skip
    results.check("ids and traces are those alone", not differ and all(counts.values()), found)


def check_health(results: Results, probes: list[float | None]) -> None:
    """See that every probe was answered, and 99 of 100 in time."""
    taken = [each for each in probes if each is not None]
    failed = len(probes) - len(taken)
    p99 = percentile(taken, 99)
    results.figures |= {
        "health_probes": len(probes),
        "health_failed": failed,
        "health_ms_p50": median(taken),
        "health_ms_p99": p99,
        "health_ms_max": max(taken, default=None),
        "health_late": sum(each >= results.plan.health_ms for each in taken),
    }
    passed = not failed and p99 is not None and p99 < results.plan.health_ms
    found = f"{len(taken)} of {len(probes)} answered, 99 % within {p99} ms"
    results.check("/health answers in time", passed, found)


def check_memory(results: Results, memory: Memory | None) -> None:
    """See that memory does not grow once every cache is full: by the second half of the samples."""
    name = "memory does not grow"
    if memory is None or not memory.samples:
        results.check(name, None, "the process is not known")
        return
    results.memory = memory.samples
    anonymous, resident = growth(memory.anonymous()), growth(memory.resident())
    results.figures |= {
        "resident_mb_first": memory.samples[0][1],
        "resident_mb_last": memory.samples[-1][1],
        "anonymous_mb_last": memory.samples[-1][2],
        "resident_mb_per_min": None if resident is None else round(resident, 3),
        "anonymous_mb_per_min": None if anonymous is None else round(anonymous, 3),
    }
    if anonymous is None or len(memory.samples) < 2 * _LEAST_SAMPLES:
        results.check(name, None, f"{len(memory.samples)} samples are too few to tell")
        return
    found = f"{anonymous:+.3f} MB a minute in the second half"
    results.check(name, anonymous < results.plan.growth_mb, found)
