"""Executing single units with nothing but the weights that they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.audit.answered import Answered
from engine.audit.masks import Masks
from engine.audit.replay import choose
from engine.audit.unit_weights import UnitWeights
from engine.forward import Engine, Piece
from engine.sampling.sampler import Sampler

_MAX_ROWS: Final = 512
_MAX_LOGIT_ROWS: Final = 64


def run_layer(
    layer: UnitWeights, states: NDArray[np.float32], *, num_threads: int
) -> NDArray[np.float32]:
    """Return x(t, l) for the last of the positions 0 .. t.

    Args:
        layer: as of `PartReader.layer`.
        states: float32[t + 1, hidden], x(0 .. t, l - 1).
        num_threads: how many threads compute.

    Raises:
        NonFiniteError: a value is not finite (NUMERICS N12).
        ConfigError: more positions than the model has.
    """
    last: NDArray[np.float32] = states[-1]
    for rows in _steps(layer.over(states), len(states), None, num_threads):
        last = rows[-1].copy()
    return last


def run_embedding(
    embedding: UnitWeights, ids: Sequence[int], *, num_threads: int
) -> NDArray[np.float32]:
    """Return x(t, 0) of ids: float32[n, hidden].

    Raises:
        NonFiniteError: a value is not finite.
        ConfigError: no id, too many, or one outside the vocabulary.
    """
    wanted = np.array(ids, np.int32)
    return np.concatenate(list(_steps(embedding, len(wanted), wanted, num_threads)))


def run_choices(
    head: UnitWeights,
    states: NDArray[np.float32],
    positions: Sequence[int],
    answered: Answered,
    *,
    num_threads: int,
) -> list[int]:
    """Return the ids that follow from the residuals of single positions.

    Args:
        head: as of `PartReader.head`.
        states: float32[n, hidden], x(t, L).
        positions: t of each, from the last one of the prompt on, in any order.
        answered: ids, parameters and grammar.
        num_threads: how many threads compute.

    Raises:
        NonFiniteError: a value is not finite.
        SamplingError: no token can be chosen.
        ConfigError: the parameters do not fit the vocabulary.
    """
    vocab_size = head.config.vocab_size
    sampler = Sampler(answered.sampling, vocab_size)
    ascending = sorted(set(positions))
    masks = dict(zip(ascending, Masks(answered).at(ascending), strict=True))
    step = min(_MAX_LOGIT_ROWS, vocab_size)
    choices: list[int] = []
    for start in range(0, len(states), step):
        part = states[start : start + step]
        with closing(_engine(head.over(part), len(part), num_threads, len(part))) as engine:
            piece = Piece(engine.new_cache(), np.arange(len(part), dtype=np.int32), len(part))
            result = engine.step([piece])
            if result.errors[0] is not None:
                raise result.errors[0]
            choices += [
                choose(sampler, row, answered, position, masks[position])
                for row, position in zip(result.logits, positions[start:], strict=False)
            ]
    return choices


def _engine(weights: UnitWeights, rows: int, num_threads: int, max_outputs: int = 1) -> Engine:
    return Engine(
        weights,
        num_threads=num_threads,
        max_rows=min(rows, _MAX_ROWS),
        max_outputs=max_outputs,
        max_positions=rows,
    )


def _steps(
    weights: UnitWeights, count: int, ids: NDArray[np.int32] | None, num_threads: int
) -> Iterator[NDArray[np.float32]]:
    """Run ids, by default 0 .. count - 1, through a model; yield x(t, L) of each step."""
    todo = np.arange(count, dtype=np.int32) if ids is None else ids
    with closing(_engine(weights, count, num_threads)) as engine:
        cache = engine.new_cache(count)
        for start in range(0, count, engine.max_rows):
            result = engine.step([Piece(cache, todo[start : start + engine.max_rows])], trace=True)
            if result.errors[0] is not None:
                raise result.errors[0]
            if result.residuals is not None:
                yield result.residuals[-1]
