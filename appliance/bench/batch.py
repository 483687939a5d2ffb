"""What batching gains: one stream and several take turns on one engine, through the scheduler.

Every stream samples its own answer and is traced, as a service does it. Only steps count in which
all streams take part with one token each: prompts are read before.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from appliance.bench.cases import spread
from appliance.bench.engine import describe_weights
from appliance.bench.machine import load_average, machine_facts
from engine.admission import DEV
from engine.errors import ConfigError
from engine.forward import Engine
from engine.model import Model
from engine.sampling.parameters import SamplingParameters
from engine.scheduler import Scheduler
from engine.sequence import Request, Sequence

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What to measure: `streams` answers of `tokens` after prompts of `prompt_tokens`."""

    streams: int = 8
    prompt_tokens: int = 64
    tokens: int = 64
    threads: int = 2
    rounds: int = 9


@dataclass(slots=True)
class BatchResults:
    """Tokens per second of every round, of one stream and of all together."""

    plan: BatchPlan
    weights: dict[str, object]
    machine: dict[str, object] = field(default_factory=machine_facts)
    load_before: float = field(default_factory=load_average)
    alone: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """All streams' rate over that of one, in the same round."""
        return [many / one for many, one in zip(self.together, self.alone, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    def as_json(self) -> dict[str, object]:
        """Return every number that was measured."""
        plan = self.plan
        return {
            "schema": "windhover-bench-batch/1",
            "machine": self.machine,
            "load_average": {"before": self.load_before, "after": load_average()},
            "weights": self.weights,
            "streams": plan.streams,
            "prompt_tokens": plan.prompt_tokens,
            "tokens": plan.tokens,
            "threads": plan.threads,
            "one_tokens_per_s": spread(self.alone),
            "all_tokens_per_s": spread(self.together),
            "ratio": spread(self.ratios),
        }


def measure_batch(path: Path, plan: BatchPlan, progress: Progress) -> BatchResults:
    """Measure one and several streams in turns; every second round has the opposite order.

    Args:
        path: the VQF file; nobody gets an answer, so its weights need no signature.
        plan: what to measure.
        progress: called with the number of rounds that are done, and of all.

    Raises:
        OSError, FormatError: the file cannot be read.
        ConfigError: a number is out of range, or the streams do not fit the model's context.
    """
    if plan.tokens < 2:
        raise ConfigError("a stream has at least 2 tokens, of which the first is not counted")
    results = BatchResults(plan, describe_weights(path))
    positions = plan.prompt_tokens + plan.tokens
    blocks = plan.streams * (positions // 64 + 1)
    with Model(
        path,
        policy=DEV,
        num_threads=plan.threads,
        max_positions=positions,
        max_outputs=plan.streams,
        max_blocks=blocks,
    ) as model:
        for streams in (1, plan.streams):  # brings memory and code in
            decode_rate(model.engine, streams, plan)
        for number in range(plan.rounds):
            turns = ((1, results.alone), (plan.streams, results.together))
            for streams, rates in turns if number % 2 == 0 else reversed(turns):
                rates.append(decode_rate(model.engine, streams, plan))
            progress(number + 1, plan.rounds)
    return results


def decode_rate(engine: Engine, streams: int, plan: BatchPlan) -> float:
    """Return the tokens per second of `streams` answers that run together.

    Raises:
        ConfigError: a stream cannot be run.
    """
    scheduler = Scheduler(engine, max_running=streams)
    rng = np.random.default_rng(0)
    running = [scheduler.add(_request(rng, engine, seed, plan)) for seed in range(streams)]
    while any(not sequence.output_ids for sequence in running):
        scheduler.step()
        _check(running)
    before = _tokens(running)
    started_s = time.perf_counter()
    while not any(sequence.is_finished for sequence in running):
        scheduler.step()
    seconds = time.perf_counter() - started_s
    tokens = _tokens(running) - before
    while not scheduler.is_idle:
        scheduler.step()
    _check(running)
    if not tokens:
        raise ConfigError("the first streams end before the last one begins: ask for more tokens")
    return tokens / seconds


def _request(rng: np.random.Generator, engine: Engine, seed: int, plan: BatchPlan) -> Request:
    ids = rng.integers(0, engine.config.vocab_size, plan.prompt_tokens)
    sampling = SamplingParameters(
        seed=seed, temperature_millionths=800_000, top_p_millionths=950_000
    )
    return Request(tuple(int(i) for i in ids), plan.tokens, sampling)


def _tokens(sequences: list[Sequence]) -> int:
    return sum(len(sequence.output_ids) for sequence in sequences)


def _check(sequences: list[Sequence]) -> None:
    """Pass on why a sequence ended early."""
    for sequence in sequences:
        if sequence.error is not None:
            raise ConfigError(f"a stream failed: {sequence.error}") from sequence.error
