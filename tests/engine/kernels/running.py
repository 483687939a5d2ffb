"""Runs of models on the engine and on the definition, and their comparison by bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.forward import Engine, Piece
from engine.reference.decoder import ReferenceModel
from engine.reference.trace import trace_root
from engine.reference.weights import Weight
from engine.trace import Trace
from tests.engine.kernels.models import MemoryWeights

Array = NDArray[Any]
Step = Sequence[tuple[int, int]]


class Outcome(NamedTuple):
    """What one sequence computed.

    Attributes:
        logits: float32[positions, vocab].
        residuals: float32[layers + 1, positions, hidden].
        root: the trace root.
    """

    logits: Array
    residuals: Array
    root: bytes


def define(
    config: ModelConfig, weights: Mapping[str, Weight], ids: Sequence[int], **options: Any
) -> Outcome:
    """Return what the definition says of a sequence; options are those of `ReferenceModel`."""
    found = ReferenceModel(config, weights, **options).forward(list(ids))
    return Outcome(found.logits, found.residuals, trace_root(found.residuals))


def beginning(outcome: Outcome, count: int) -> Outcome:
    """Return what the first positions alone would give: no position sees a later one."""
    residuals = np.ascontiguousarray(outcome.residuals[:, :count])
    return Outcome(outcome.logits[:count], residuals, trace_root(residuals))


@contextmanager
def engine_of(
    config: ModelConfig, weights: Mapping[str, Weight], num_threads: int = 2, **options: Any
) -> Iterator[Engine]:
    """Yield an engine that can give the logits of all 160 positions of a step."""
    settings = {"max_rows": 160, "max_outputs": 160} | options
    engine = Engine(MemoryWeights(config, weights), num_threads=num_threads, **settings)
    try:
        yield engine
    finally:
        engine.close()


def run_steps(
    engine: Engine, sequences: Sequence[Sequence[int]], steps: Sequence[Step]
) -> list[Outcome]:
    """Run sequences side by side.

    Args:
        engine: what to run them on.
        sequences: the ids of each.
        steps: for each step the pieces that share it: (number of the sequence, how many of its
            next ids).
    """
    caches = [engine.new_cache() for _ in sequences]
    traces = [Trace(engine.config.num_layers, engine.row_hasher) for _ in sequences]
    logits: list[list[Array]] = [[] for _ in sequences]
    residuals: list[list[Array]] = [[] for _ in sequences]
    for step in steps:
        pieces = []
        for number, count in step:
            start = caches[number].num_positions
            ids = np.array(sequences[number][start : start + count], np.int32)
            pieces.append(Piece(caches[number], ids, len(ids)))
        result = engine.step(pieces, trace=True, leaves=True)
        assert result.residuals is not None
        assert result.leaves is not None
        assert not any(result.errors)
        row = 0
        for (number, _), piece in zip(step, pieces, strict=True):
            rows = slice(row, row + len(piece.ids))
            traces[number].append(result.leaves[:, rows])
            # The next step overwrites its logits.
            logits[number].append(result.logits[rows].copy())
            residuals[number].append(result.residuals[:, rows])
            row += len(piece.ids)
    for number, cache in enumerate(caches):
        assert cache.num_positions == len(sequences[number])
        cache.release()
    return [
        Outcome(np.concatenate(y), np.concatenate(x, axis=1), trace.root())
        for y, x, trace in zip(logits, residuals, traces, strict=True)
    ]


def run(engine: Engine, ids: Sequence[int], chunks: Sequence[int] | None = None) -> Outcome:
    """Run one sequence, in one piece or in chunks of these sizes."""
    sizes = [len(ids)] if chunks is None else chunks
    return run_steps(engine, [ids], [[(0, size)] for size in sizes])[0]


def assert_same_bits(found: Array, expected: Array, what: str = "values") -> None:
    """Fail, naming the first difference, unless two arrays have the same type, shape and bits."""
    assert found.dtype == expected.dtype, what
    assert found.shape == expected.shape, what
    unsigned = f"u{found.dtype.itemsize}"
    a = np.ascontiguousarray(found).view(unsigned)
    b = np.ascontiguousarray(expected).view(unsigned)
    different = np.argwhere(a != b)
    if len(different):
        at = tuple(int(i) for i in different[0])
        raise AssertionError(
            f"{what}: {len(different)} of {a.size} differ, first at {at}: "
            f"{found[at]!r} ({a[at]:#x}) is not {expected[at]!r} ({b[at]:#x})"
        )


def assert_same(found: Outcome, expected: Outcome) -> None:
    """Fail unless two runs are the same bit for bit."""
    assert_same_bits(found.residuals, expected.residuals, "residuals")
    assert_same_bits(found.logits, expected.logits, "logits")
    assert found.root == expected.root
