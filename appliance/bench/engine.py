"""The engine benchmark: rounds in which both engines measure the same cases by turns.

Machines that others share change their speed from second to second. Within a round the two engines
run one after the other, which of them begins alternates, and what is compared is the ratio inside a
round; the median of these ratios is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from appliance.bench.cases import Case, Series, spread
from appliance.bench.child import Child, worker_command
from appliance.bench.coldstart import ColdStart, measure_cold_start
from appliance.bench.llama_bench import LlamaBench
from appliance.bench.machine import load_average, machine_facts
from appliance.bench.memory import Peak, peak_of
from engine.convert.gguf import GgufFile
from engine.convert.gguf_model import read_gguf
from engine.errors import ConfigError
from engine.vqf import open_vqf

Progress = Callable[[int, int], None]
_Turn = Literal["rival", "plain", "traced"]

PEAK_PROMPT_TOKENS = 512
PEAK_ANSWER_TOKENS = 16
_SAMPLED_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. `rival` is None where only this engine is measured."""

    cases: Sequence[Case]
    threads: Sequence[int]
    rounds: int
    cold_start_runs: int = 3
    rival: LlamaBench | None = None


class Memory(NamedTuple):
    """Peak memory of one answer on one number of threads, and the rival's."""

    threads: int
    ours: Peak
    rival: Peak | None


@dataclass(slots=True)
class Results:
    """Everything that was measured."""

    weights: dict[str, object]
    machine: dict[str, object] = field(default_factory=machine_facts)
    engine: dict[str, Any] = field(default_factory=dict)
    rival: dict[str, object] | None = None
    load_before: float = field(default_factory=load_average)
    series: list[Series] = field(default_factory=list)
    sampling: dict[int, dict[str, float]] = field(default_factory=dict)
    memory: list[Memory] = field(default_factory=list)
    cold_start: ColdStart | None = None

    def as_json(self) -> dict[str, object]:
        """Return the evidence: every measured number beside what it was measured on."""
        start = self.cold_start
        return {
            "schema": "windhover-bench-engine/1",
            "machine": self.machine,
            "load_average": {"before": self.load_before, "after": load_average()},
            "weights": self.weights,
            "engine": self.engine,
            "llama_bench": self.rival,
            "series": [series.as_json() for series in self.series],
            "sampling": [
                {"threads": threads, **times, "share": times["sample_s"] / times["step_s"]}
                for threads, times in self.sampling.items()
            ],
            "peak_memory": [
                {
                    "threads": memory.threads,
                    "max_rss_bytes": memory.ours.max_rss_bytes,
                    "llama_bench_max_rss_bytes": memory.rival and memory.rival.max_rss_bytes,
                }
                for memory in self.memory
            ],
            "cold_start": None
            if start is None
            else {
                "threads": start.threads,
                "first_s": start.first_s,
                **{f"second_{key}": value for key, value in spread(start.runs_s).items()},
            },
        }


def describe_weights(path: Path) -> dict[str, object]:
    """Return what identifies a weight file.

    Raises:
        OSError: it cannot be opened.
        FormatError: it is not a VQF file.
    """
    with open_vqf(path) as file:
        return {
            "file": path.name,
            "file_bytes": path.stat().st_size,
            "model_digest": file.model_digest.hex(),
            "architecture": file.manifest.config.architecture,
            "num_layers": file.manifest.config.num_layers,
            "kinds": kinds_of(path),
        }


def kinds_of(path: Path) -> dict[str, int]:
    """Return how many weights of each kind a VQF file has."""
    kinds: dict[str, int] = {}
    with open_vqf(path) as file:
        for extent in file.manifest.extents:
            for tensor in extent.tensors:
                size = tensor.shape[0] * (tensor.shape[1] if len(tensor.shape) == 2 else 1)
                kinds[tensor.kind] = kinds.get(tensor.kind, 0) + size
    return dict(sorted(kinds.items()))


def check_same_weights(path: Path, gguf: Path) -> None:
    """Refuse to compare speeds on weights of different kinds or numbers.

    Raises:
        OSError, ConversionError, UnsupportedError: the GGUF file cannot be read.
        ConfigError: the files differ.
    """
    with GgufFile(gguf) as file:
        theirs = dict(sorted(read_gguf(file).weights_by_kind().items()))
    ours = kinds_of(path)
    if ours != theirs:
        raise ConfigError(f"{path.name} has weights {ours}, {gguf.name} has {theirs}")


def measure(path: Path, plan: Plan, progress: Progress) -> Results:
    """Run the whole benchmark.

    Args:
        path: the VQF file.
        plan: what to measure.
        progress: called with the number of steps that are done, and of all steps.

    Raises:
        ConfigError: a process failed, or a case does not fit the model's context.
        OSError, FormatError: a file cannot be read.
    """
    results = Results(describe_weights(path))
    total = len(plan.threads) * (len(plan.cases) * plan.rounds + 2) + 1
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    for threads in plan.threads:
        settings = {
            "file": str(path),
            "threads": threads,
            "max_positions": max(*(c.end for c in plan.cases), _SAMPLED_TOKENS + 1),
        }
        with Child(settings) as child:
            results.engine = child.facts
            results.series += run_rounds(child, plan, threads, tick)
            results.sampling[threads] = child.sampling(_SAMPLED_TOKENS)
            tick()
        results.memory.append(_measure_memory(path, plan, threads))
        tick()
    threads = max(plan.threads)
    results.cold_start = measure_cold_start(path, threads=threads, runs=plan.cold_start_runs)
    tick()
    if plan.rival is not None:
        results.rival = plan.rival.facts()
    return results


def run_rounds(child: Child, plan: Plan, threads: int, tick: Callable[[], None]) -> list[Series]:
    """Measure all cases in each round, with the trace, without it, and by the rival."""
    series = [Series(case, threads) for case in plan.cases]
    for one in series:
        child.rate(one.case, trace=True)  # brings memory and code in
        if plan.rival is not None:
            one.rival_flash_attention = plan.rival.choose(one.case, threads)
    for number in range(plan.rounds):
        for one in series:
            turns: tuple[_Turn, ...] = ("rival", "plain", "traced")
            for turn in turns if number % 2 == 0 else reversed(turns):
                if turn != "rival":
                    values = one.plain if turn == "plain" else one.traced
                    values.append(child.rate(one.case, trace=turn == "traced"))
                elif plan.rival is not None:
                    one.rival.append(plan.rival.measure(one.case, threads))
            tick()
    return series


def _measure_memory(path: Path, plan: Plan, threads: int) -> Memory:
    answer = {
        "path": str(path),
        "threads": threads,
        "prompt_tokens": PEAK_PROMPT_TOKENS,
        "max_tokens": PEAK_ANSWER_TOKENS,
    }
    ours = peak_of(worker_command({"answer_once": answer}))
    rival = None
    if plan.rival is not None:
        rival = plan.rival.peak(PEAK_PROMPT_TOKENS, PEAK_ANSWER_TOKENS, threads)
    return Memory(threads, ours, rival)
