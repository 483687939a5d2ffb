"""Continuous batching: a step advances every running sequence and a piece of the next prompts."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from engine.errors import ConfigError, EngineError
from engine.forward import Engine, Piece, StepResult
from engine.sampling.choice import Choice
from engine.sampling.sampler import Sampler, Workspace
from engine.sequence import FinishReason, Request, Sequence
from engine.trace import Trace

DEFAULT_PREFILL_TOKENS: Final = 256
DEFAULT_MAX_RUNNING: Final = 16


class Progress(NamedTuple):
    """What one step did for one sequence: the token it chose, if it got that far."""

    sequence: Sequence
    choice: Choice | None


class Scheduler:
    """Runs sequences on one engine, first come, first served. One thread calls `step`.

    A step takes one token of every running sequence and fills up with prompt tokens of those that
    wait, oldest first, at most `prefill_tokens` of them, so that a long prompt does not hold up
    running answers. What is computed never depends on what shares a step with it (NUMERICS).
    """

    def __init__(
        self,
        engine: Engine,
        *,
        prefill_tokens: int | None = None,
        max_running: int | None = None,
    ) -> None:
        """Use an engine.

        Args:
            engine: nobody else calls its `step` meanwhile.
            prefill_tokens: most prompt tokens in a step; by default 256, or what the engine allows.
            max_running: most sequences at once; by default 16, or what the engine allows.

        Raises:
            ConfigError: the limits do not fit the engine's.
        """
        if max_running is None:
            max_running = min(DEFAULT_MAX_RUNNING, engine.max_outputs, engine.max_rows)
        # At least one sequence is prefilling when prompt tokens are taken; it decodes nothing.
        room = engine.max_rows - max_running + 1
        if prefill_tokens is None:
            prefill_tokens = min(DEFAULT_PREFILL_TOKENS, room)
        if not (1 <= prefill_tokens <= room and 1 <= max_running <= engine.max_outputs):
            raise ConfigError("prefill_tokens and max_running do not fit the engine's largest step")
        self._engine = engine
        self._prefill_tokens = prefill_tokens
        self._max_running = max_running
        self._workspace = Workspace(engine.config.vocab_size)
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return all(s.is_finished for s in (*self._waiting, *self._running))

    def add(self, request: Request) -> Sequence:
        """Queue a request.

        Raises:
            ConfigError: an empty prompt, an id outside the vocabulary, no token asked for, or
                parameters that do not fit the vocabulary.
            ContextLengthError: prompt and answer are longer than the context.
        """
        engine = self._engine
        request.check(engine.max_positions, engine.config.vocab_size)
        sampler = Sampler(request.sampling, engine.config.vocab_size, self._workspace)
        cache = engine.new_cache(request.num_positions)
        trace = Trace(engine.config.num_layers, engine.row_hasher) if request.trace else None
        sequence = Sequence(request, cache, sampler, trace)
        self._waiting.append(sequence)
        return sequence

    def step(self) -> list[Progress]:
        """Advance; returns what happened to each sequence that took part or ended.

        A sequence that cannot go on ends with `FinishReason.ERROR`, and its `error` says why; the
        others go on as if it had not been there.
        """
        self._forget_finished()
        progress = [*self._drop_cancelled(), *self._admit()]
        batch = self._batch()
        if batch:
            trace = any(sequence.request.trace for sequence, _ in batch)
            result = self._engine.step([piece for _, piece in batch], leaves=trace)
            progress += self._finish_step(batch, result)
            self._forget_finished()
        return progress

    def _forget_finished(self) -> None:
        self._running = [s for s in self._running if not s.is_finished]
        self._waiting = deque(s for s in self._waiting if not s.is_finished)

    def _drop_cancelled(self) -> list[Progress]:
        cancelled = [s for s in (*self._running, *self._waiting) if s.is_cancelled]
        for sequence in cancelled:
            sequence.finish(FinishReason.CANCELLED)
        self._forget_finished()
        return [Progress(sequence, None) for sequence in cancelled]

    def _admit(self) -> list[Progress]:
        """Start waiting sequences, oldest first, while the cache holds all that they may need.

        What the running ones have not taken yet is kept free for them, so that none of them can
        find the cache full later.
        """
        pool = self._engine.blocks
        free = pool.num_free - sum(
            s.cache.num_blocks_at_most - s.cache.num_blocks for s in self._running
        )
        while self._waiting and len(self._running) < self._max_running:
            needed = self._waiting[0].cache.num_blocks_at_most
            if needed > free:
                break
            free -= needed
            self._running.append(self._waiting.popleft())
        if self._running or not self._waiting:
            return []
        # Nothing of ours will come free: the blocks are in other hands, and waiting may never end.
        refused = self._waiting.popleft()
        refused.finish(FinishReason.ERROR, EngineError("the key/value cache is taken by others"))
        return [Progress(refused, None)]

    def _batch(self) -> list[tuple[Sequence, Piece]]:
        batch = []
        budget = self._prefill_tokens
        for sequence in self._running:
            if not sequence.is_prefilling:
                batch.append((sequence, Piece(sequence.cache, sequence.next_ids(1), 1)))
            elif budget:
                ids = sequence.next_ids(budget)
                budget -= len(ids)
                done = sequence.cache.num_positions + len(ids) == sequence.num_prompt_tokens
                batch.append((sequence, Piece(sequence.cache, ids, int(done))))
        return batch

    @staticmethod
    def _finish_step(batch: list[tuple[Sequence, Piece]], result: StepResult) -> list[Progress]:
        progress = []
        row = logit_row = 0
        for (sequence, piece), error in zip(batch, result.errors, strict=True):
            rows = slice(row, row + len(piece.ids))
            leaves = None if result.leaves is None else result.leaves[:, rows]
            logits = result.logits[logit_row] if piece.num_logits else None
            row, logit_row = rows.stop, logit_row + piece.num_logits
            choice = None
            if error is not None:
                sequence.finish(FinishReason.ERROR, error)
            elif sequence.is_cancelled:
                sequence.finish(FinishReason.CANCELLED)
            else:
                try:
                    choice = sequence.accept(logits, leaves)
                except EngineError as failure:
                    sequence.finish(FinishReason.ERROR, failure)
            progress.append(Progress(sequence, choice))
        return progress
