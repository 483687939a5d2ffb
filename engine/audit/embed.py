"""Vectors of texts, computed again, and their trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import EngineError
from engine.forward import Engine
from engine.scheduler import Scheduler
from engine.sequence import FinishReason, Request
from engine.trace import root_of_texts


@dataclass(frozen=True, slots=True)
class Embedded:
    """What a model makes of texts. vectors: float32[hidden] each. trace_root: 32 bytes."""

    vectors: tuple[NDArray[np.float32], ...]
    trace_root: bytes


def embed_again(
    engine: Engine,
    texts: Sequence[tuple[int, ...]],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Embedded:
    """Make the vectors of texts.

    Args:
        engine: of the model; nobody else calls its `step` meanwhile.
        texts: the ids of each, at least one.
        progress: called with (positions done, positions in all).

    Raises:
        ConfigError: the model makes no vectors, no text, one without ids, or an id outside the
            vocabulary.
        ContextLengthError: a text is longer than the engine's longest sequence.
        NonFiniteError: a value is not finite (NUMERICS N12, N14).
    """
    vectors, roots = [], []
    done, total = 0, sum(map(len, texts))
    for ids in texts:
        scheduler = Scheduler(engine)
        sequence = scheduler.add(Request(ids, 0, embeds=True))
        while not scheduler.is_idle:
            scheduler.step()
        vector, root = sequence.vector, sequence.trace_root
        if sequence.finish_reason is not FinishReason.STOP or vector is None or root is None:
            raise sequence.error or EngineError("no vector came of a text")
        vectors.append(vector)
        roots.append(root)
        done += len(ids)
        if progress is not None:
            progress(done, total)
    return Embedded(tuple(vectors), root_of_texts(roots))
