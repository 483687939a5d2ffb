"""A model of two small layers, and what the definition generates with it, alone and slowly."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from engine.config import ModelConfig
from engine.forward import Engine, Piece, StepResult
from engine.reference.arrays import F32
from engine.reference.decoder import Forward, ReferenceModel
from engine.reference.trace import trace_root
from engine.sampling.reference import ReferenceSampler
from engine.sequence import Request
from tests.engine.kernels.models import small_config

CONFIG: ModelConfig = small_config(
    hidden_size=64,
    num_heads=4,
    num_kv_heads=2,
    intermediate_size=96,
    vocab_size=96,
    context_length_tokens=256,
)
KINDS = ("Q4_1", "Q8_0", "F16")
MAX_POSITIONS = 192
MAX_BLOCKS = 6


class Answer(NamedTuple):
    """What one request gives.

    ids: the output. residuals: float32[L + 1, n, hidden] of the prompt and all but the last output.
    """

    ids: list[int]
    residuals: F32

    def trace_root(self, num_positions: int) -> bytes:
        """The root over the first positions."""
        return trace_root(self.residuals[:, :num_positions])


class Definition:
    """Generates with the reference's forward pass and sampler, one request at a time."""

    def __init__(self, model: ReferenceModel) -> None:
        self.model = model
        self._answers: dict[Request, Answer] = {}
        self._prefills: dict[tuple[int, ...], Forward] = {}

    def prefill(self, ids: tuple[int, ...]) -> Forward:
        """Compute a prompt in one step, or return what was computed before."""
        if ids not in self._prefills:
            self._prefills[ids] = self.model.forward(ids)
        return self._prefills[ids]

    def answer(self, request: Request) -> Answer:
        """Generate, or return what was generated before."""
        if request not in self._answers:
            self._answers[request] = self._generate(request)
        return self._answers[request]

    def _generate(self, request: Request) -> Answer:
        sampler = ReferenceSampler(request.sampling, self.model.config.vocab_size)
        step = self.model.forward(request.prompt_ids, last_only=True)
        residuals, ids = [step.residuals], list[int]()
        while True:
            position = len(request.prompt_ids) + len(ids)
            ids.append(sampler.sample(step.logits[0], request.prompt_ids, ids, position).id)
            if ids[-1] in request.eos_ids or len(ids) == request.max_tokens:
                return Answer(ids, np.concatenate(residuals, axis=1))
            step = self.model.forward(ids[-1:], step.cache, last_only=True)
            residuals.append(step.residuals)


def prompt(length: int, key: int = 0) -> tuple[int, ...]:
    """Return ids of the small vocabulary that look random and are the same everywhere."""
    return tuple((37 * key + 11 * i * i + 7 * i + 3) % CONFIG.vocab_size for i in range(length))


def as_piece(engine: Engine, ids: tuple[int, ...], num_logits: int = 1) -> Piece:
    """Return a piece of a new sequence."""
    return Piece(engine.new_cache(), np.array(ids, np.int32), num_logits)


def bits(array: F32) -> bytes:
    """Return the patterns, so that `==` tells -0.0 from +0.0."""
    return np.ascontiguousarray(array).tobytes()


def kernel_threads() -> int:
    """Return how many threads of engines are alive in this process, after a collection."""
    gc.collect()
    return sum(thread.name.startswith("kernel-") for thread in threading.enumerate())


class Observed:
    """An engine that counts rows, and calls `during` in the middle of each step."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.during: Callable[[], None] = lambda: None
        self.rows: list[list[int]] = []
        self.traces: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def step(self, pieces: Sequence[Piece], *, leaves: bool) -> StepResult:
        result = self._engine.step(pieces, leaves=leaves)
        self.rows.append([len(piece.ids) for piece in pieces])
        self.traces.append(leaves)
        self.during()
        return result
