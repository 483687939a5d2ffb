"""What the trace costs on a wide model: measured on few layers of an 8B shape, stated for all 32.

Time grows linearly with the layers, so a model of one layer and one of N give the cost of a layer
and of what surrounds the layers (embedding, head). The trace hashes one state more than there are
layers (NUMERICS N11), each at the same cost, which is taken from runs with and without it that
follow each other.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from appliance.bench.cases import Case
from appliance.bench.child import Child
from appliance.bench.machine import load_average, machine_facts
from appliance.bench.synthetic import LAYERS_8B


class WidthRow(NamedTuple):
    """Milliseconds of a prefill or of one decode step.

    `layer_ms` is one layer, `rest_ms` all that is not layers, `hash_ms` the trace of one state.
    """

    case: Case
    threads: int
    layer_ms: float
    rest_ms: float
    hash_ms: float

    def total_ms(self, layers: int) -> float:
        """Return the time with so many layers and no trace."""
        return self.rest_ms + layers * self.layer_ms

    @property
    def trace_cost(self) -> float:
        """Share of time that the trace adds with all layers of the shape."""
        return (LAYERS_8B + 1) * self.hash_ms / self.total_ms(LAYERS_8B)


class WidthResults(NamedTuple):
    """What was measured, and on what."""

    kind: str
    num_layers: int
    engine: dict[str, object]
    rows: list[WidthRow]

    def as_json(self) -> dict[str, object]:
        """Return the evidence."""
        return {
            "schema": "windhover-bench-width/1",
            "machine": machine_facts(),
            "load_average": load_average(),
            "shape": {"like": "8b", "kind": self.kind, "measured_layers": [1, self.num_layers]},
            "engine": self.engine,
            "rows": [
                {
                    "phase": row.case.phase,
                    "tokens": row.case.tokens,
                    "depth_tokens": row.case.depth,
                    "threads": row.threads,
                    "layer_ms": row.layer_ms,
                    "rest_ms": row.rest_ms,
                    "hash_ms": row.hash_ms,
                    "trace_cost_32_layers": row.trace_cost,
                }
                for row in self.rows
            ],
        }


def measure_width(
    num_layers: int,
    kind: str,
    cases: Sequence[Case],
    threads: Sequence[int],
    rounds: int,
    progress: Callable[[int, int], None],
) -> WidthResults:
    """Measure one layer against `num_layers` of the 8B shape.

    Args:
        num_layers: at least 2.
        kind: of all matrices, one of `appliance.bench.synthetic.KINDS`.
        cases: what to measure.
        threads: numbers of threads to measure with.
        rounds: how often.
        progress: called with the number of steps that are done, and of all steps.
    """
    rows: list[WidthRow] = []
    engine: dict[str, object] = {}
    total = len(threads) * rounds * len(cases)
    for count in threads:
        settings = {"kind": kind, "threads": count, "max_positions": max(c.end for c in cases)}
        with ExitStack() as stack:
            few = stack.enter_context(Child({**settings, "num_layers": 1}))
            many = stack.enter_context(Child({**settings, "num_layers": num_layers}))
            engine = many.facts
            times: dict[Case, list[list[float]]] = {case: [] for case in cases}
            for case in cases:
                for child in (few, many):
                    child.rate(case, trace=True)  # brings memory and code in
            for _ in range(rounds):
                for case in cases:
                    times[case].append(
                        [
                            _steps_tokens(case) / child.rate(case, trace=trace) * 1e3
                            for child in (few, many)
                            for trace in (False, True)
                        ]
                    )
                    progress(sum(map(len, times.values())) + len(rows) * rounds, total)
            rows += [_fit(case, count, num_layers, measured) for case, measured in times.items()]
    return WidthResults(kind, num_layers, engine, rows)


def _steps_tokens(case: Case) -> int:
    """Return the tokens that the milliseconds of a case are about."""
    return case.tokens if case.phase == "prefill" else 1


def _fit(case: Case, threads: int, num_layers: int, rounds: list[list[float]]) -> WidthRow:
    few, _, many, traced_many = zip(*rounds, strict=True)
    layer_ms = (statistics.median(many) - statistics.median(few)) / (num_layers - 1)
    added = [on - off for off, on in zip(many, traced_many, strict=True)]
    hash_ms = statistics.median(added) / (num_layers + 1)
    return WidthRow(case, threads, layer_ms, statistics.median(few) - layer_ms, hash_ms)
