"""One prefill over prompt and answer: what the model would have chosen, and the trace."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crypto.frontier_array import FrontierArray
from crypto.merkle import leaf_hash, root
from engine.audit.answered import Answered
from engine.audit.masks import Masks
from engine.errors import ConfigError
from engine.forward import Engine, Piece
from engine.kernels.cache_number import BLOCK_POSITIONS
from engine.sampling.choice import Mask
from engine.sampling.sampler import Sampler


class Observer(Protocol):
    """Sees every step of a replay; the arrays are the observer's to keep."""

    def __call__(
        self, first: int, residuals: NDArray[np.float32], leaves: NDArray[np.uint8]
    ) -> None:
        """Take float32[L + 1, n, hidden] and uint8[L + 1, n, 32] of n positions from `first` on."""
        ...


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a model gives for the ids of an answer.

    choices: for each id of the answer the one that follows from those before it.
    layer_roots: R_0 .. R_L, 32 bytes each.
    """

    choices: tuple[int, ...]
    layer_roots: tuple[bytes, ...]

    @property
    def trace_root(self) -> bytes:
        """The trace root (NUMERICS N11)."""
        return root_of_layers(self.layer_roots)


def root_of_layers(layer_roots: tuple[bytes, ...]) -> bytes:
    """Return the trace root over R_0 .. R_L."""
    return root([leaf_hash(layer_root) for layer_root in layer_roots])


def replay(
    engine: Engine,
    answered: Answered,
    *,
    observe: Observer | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Replayed:
    """Compute all positions of an answer again, and every choice.

    Args:
        engine: of the model; nobody else calls its `step` meanwhile.
        answered: ids, parameters and grammar.
        observe: sees the residuals of every step.
        progress: called with (positions done, positions in all).

    Raises:
        ConfigError: no prompt or no answer, ids outside the vocabulary, more positions than the
            engine has, or parameters that do not fit the vocabulary.
        NonFiniteError: a value is not finite (NUMERICS N12).
        SamplingError: no token can be chosen.
        EngineError: the engine's cache is taken by others.
    """
    if not answered.prompt_ids or not answered.output_ids:
        raise ConfigError("a replay needs a prompt and an answer")
    ids = np.array(answered.ids, np.int32)
    first_output = len(answered.prompt_ids) - 1
    frontiers = FrontierArray(
        engine.config.num_layers + 1, block_leaves=BLOCK_POSITIONS, hasher=engine.row_hasher
    )
    cache = engine.new_cache(len(ids))
    choices: list[int] = []
    try:
        with _Choosers(engine, answered) as choosers:
            start = 0
            while start < len(ids):
                stop = min(start + engine.max_rows, len(ids))
                # Of the last positions of a step logits are wanted, and only so many fit.
                stop = min(stop, max(start, first_output) + engine.max_outputs)
                num_logits = max(0, stop - max(start, first_output))
                piece = Piece(cache, ids[start:stop], num_logits)
                result = engine.step([piece], trace=observe is not None, leaves=True)
                if result.errors[0] is not None:
                    raise result.errors[0]
                choices += choosers.choose(result.logits, stop - num_logits)
                if result.leaves is not None:
                    frontiers.append(result.leaves)
                    if observe is not None and result.residuals is not None:
                        observe(start, result.residuals, result.leaves)
                start = stop
                if progress is not None:
                    progress(start, len(ids))
    finally:
        cache.release()
    return Replayed(tuple(choices), tuple(r.tobytes() for r in frontiers.roots()))


class _Choosers:
    """Samplers that share the positions of a step, one on each thread."""

    def __init__(self, engine: Engine, answered: Answered) -> None:
        vocab_size = engine.config.vocab_size
        self._answered = answered
        self._masks = Masks(answered)
        self._samplers = [Sampler(answered.sampling, vocab_size) for _ in range(engine.num_threads)]
        self._threads = ThreadPoolExecutor(engine.num_threads, "choices")

    def __enter__(self) -> _Choosers:
        return self

    def __exit__(self, *_details: object) -> None:
        self._threads.shutdown()

    def choose(self, logits: NDArray[np.float32], first: int) -> list[int]:
        """Return what consecutive positions from `first` on choose."""
        share = -(-len(logits) // len(self._samplers))
        masks = self._masks.at(range(first, first + len(logits)))
        running = [
            self._threads.submit(
                self._part, sampler, logits[at : at + share], masks[at : at + share], first + at
            )
            for sampler, at in zip(self._samplers, range(0, len(logits), share or 1), strict=False)
        ]
        return [choice for part in running for choice in part.result()]

    def _part(
        self, sampler: Sampler, logits: NDArray[np.float32], masks: list[Mask | None], first: int
    ) -> list[int]:
        return [
            choose(sampler, row, self._answered, first + index, mask)
            for index, (row, mask) in enumerate(zip(logits, masks, strict=True))
        ]


def choose(
    sampler: Sampler,
    logits: NDArray[np.float32],
    answered: Answered,
    position: int,
    mask: Mask | None,
) -> int:
    """Return the id that follows from the logits of one position.

    Args:
        sampler: with the parameters of the answer.
        logits: float32[vocab]
        answered: what came before is taken from it.
        position: of the logits, from the last one of the prompt on.
        mask: of that position, as of `Masks`.

    Raises:
        NonFiniteError, SamplingError: as `Sampler.sample`.
    """
    before = answered.draws_before(position)
    return sampler.sample(logits, answered.prompt_ids, before, position + 1, mask).id
