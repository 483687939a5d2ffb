"""Seconds of single operations on SEAL, for each level: what a plan multiplies its counts with."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from he_chain.backends.seal import SealEvaluator, SealHolder
from he_chain.parameters import Parameters


@dataclass(frozen=True)
class OperationTime:
    """How long an operation takes."""

    ring_degree: int
    level: int
    """Of its operands."""
    operation: str
    cpu_s: float
    """Median of seconds of one core."""


def time_operations(
    parameters: Parameters, *, rounds: int = 9, levels: tuple[int, ...] | None = None
) -> list[OperationTime]:
    """Return the medians of all operations at levels, at all that there are by default.

    A round runs every operation of every level once, so that a busy moment of the machine meets
    all of them.

    Raises:
        SecurityError, BackendError: the parameters cannot be used, or the library is absent.
    """
    holder = SealHolder.create(parameters)
    with tempfile.TemporaryDirectory() as folder:
        holder.write_evaluation_keys(Path(folder), [1])
        evaluator = SealEvaluator.open(Path(folder))
    chosen = range(parameters.num_levels + 1) if levels is None else levels
    runs = {
        (level, name): run
        for level in chosen
        for name, run in _operations(holder, evaluator, level)
    }
    seconds: dict[tuple[int, str], list[float]] = {key: [] for key in runs}
    for _ in range(rounds):
        for key, run in runs.items():
            start = time.process_time()
            run()
            seconds[key].append(time.process_time() - start)
    return [
        OperationTime(parameters.ring_degree, level, name, statistics.median(found))
        for (level, name), found in seconds.items()
    ]


def _operations(
    holder: SealHolder, ev: SealEvaluator, level: int
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the operations that a level allows: name, and what runs it once."""
    values = np.random.default_rng().uniform(-1, 1, ev.parameters.num_slots)
    scale = 2.0**ev.parameters.scale_bits
    data = holder.encrypt(values, level)
    x, y = ev.load(data), ev.load(holder.encrypt(values, level))
    dumped = ev.dump(x)
    plain = ev.encode(values, level, scale)
    yield "encrypt", lambda: holder.encrypt(values, level)
    yield "decrypt", lambda: holder.decrypt(dumped)
    yield "dump", lambda: ev.dump(x)
    yield "load", lambda: ev.load(dumped)
    yield "encode", lambda: ev.encode(values, level, scale)
    yield "add", lambda: ev.add(x, y)
    yield "rotate", lambda: ev.rotate(x, 1)
    if level:
        product = ev.mul(x, y)
        yield "mul_plain", lambda: ev.mul_plain(x, plain)
        yield "mul", lambda: ev.mul(x, y)
        yield "rescale", lambda: ev.rescale(product)
