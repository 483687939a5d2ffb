"""Continuous batching: a step advances every running sequence and a piece of the next prompts."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from engine.errors import ConfigError, EngineError
from engine.forward import Engine, Piece, StepResult
from engine.kv.prefix import PrefixCache
from engine.sampling.choice import Choice
from engine.sampling.sampler import Sampler, Workspace
from engine.sequence import FinishReason, Request, Sequence
from engine.trace import Trace
from engine.turns import Turns, fair_shares

DEFAULT_PREFILL_TOKENS: Final = 256
DEFAULT_MAX_RUNNING: Final = 16
PATIENCE: Final = 8
"""So many sequences begin before one whose turn it was but that did not fit (Q3)."""


class Progress(NamedTuple):
    """What one step did for one sequence: the token it chose, if it got that far."""

    sequence: Sequence
    choice: Choice | None


class Scheduler:
    """Runs sequences on one engine, owner by owner in turn. One thread uses it.

    A step takes one token of every running sequence and fills up with prompt tokens, at most
    `prefill_tokens` of them, so that a long prompt does not hold up running answers. What is
    computed never depends on what shares a step with it (NUMERICS), nor on the prefix cache. Rules
    Q1 to Q5 are those of engine/kv/README.md.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        prefill_tokens: int | None = None,
        max_running: int | None = None,
        max_running_per_owner: int | None = None,
    ) -> None:
        """Use an engine.

        Args:
            engine: nobody else calls its `step` meanwhile.
            prefill_tokens: most prompt tokens in a step; by default 256, or what the engine allows.
            max_running: most sequences at once; by default 16, or what the engine allows.
            max_running_per_owner: most sequences of one owner at once; by default `max_running`.

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
        if max_running_per_owner is None:
            max_running_per_owner = max_running
        if max_running_per_owner < 1:
            raise ConfigError("max_running_per_owner must be at least 1")
        self._engine = engine
        self._prefill_tokens = prefill_tokens
        self._max_running = max_running
        self._workspace = Workspace(engine.config.vocab_size)
        self._max_running_per_owner = max_running_per_owner
        self.prefixes = PrefixCache(engine.blocks)
        self._waiting = Turns(PATIENCE)
        self._running: list[Sequence] = []
        self._prefill_turns: list[bytes] = []

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return all(s.is_finished for s in (*self._waiting, *self._running))

    @property
    def num_waiting(self) -> int:
        """How many sequences have not begun, as of the last step; any thread may ask."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """How many sequences have begun and not ended, as of the last step; any thread may ask."""
        return len(self._running)

    def add(
        self, request: Request, *, owner: bytes = b"", cache_key: bytes | None = None
    ) -> Sequence:
        """Queue a request.

        Args:
            request: what to generate.
            owner: on whose behalf: owners take turns, whatever each has queued.
            cache_key: 32 bytes; only sequences with the same key share blocks of the prefix cache.
                None: it neither finds nor leaves any, which is all that a vector allows.

        Raises:
            ConfigError: an empty prompt, an id outside the vocabulary, no token asked for,
                parameters that do not fit the vocabulary, another length of `cache_key`, or a
                vector with a `cache_key` or of a model that makes none.
            ContextLengthError: prompt and answer are longer than the context.
        """
        engine = self._engine
        request.check(engine.max_positions, engine.config.vocab_size)
        pooling = engine.new_pooling() if request.embeds else None
        sampler = Sampler(request.sampling, engine.config.vocab_size, self._workspace)
        cache = engine.new_cache(request.num_positions)
        trace = Trace(engine.config.num_layers, engine.row_hasher) if request.trace else None
        if request.embeds and cache_key is not None:
            # What is cached of a position is not its state.
            raise ConfigError("a vector is computed from all positions of its text")
        prefix = None if cache_key is None else self.prefixes.open(cache_key, cache)
        sequence = Sequence(
            request, cache, sampler, trace, owner=owner, prefix=prefix, pooling=pooling
        )
        self._waiting.add(sequence)
        return sequence

    def cancel_all(
        self, reason: FinishReason = FinishReason.CANCELLED, error: EngineError | None = None
    ) -> list[Sequence]:
        """End all sequences at once, between two steps, and return them."""
        ended = [s for s in (*self._running, *self._waiting) if not s.is_finished]
        for sequence in ended:
            sequence.finish(reason, error)
        self._forget_finished()
        return ended

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
        self._waiting.remove_finished()

    def _drop_cancelled(self) -> list[Progress]:
        cancelled = [s for s in (*self._running, *self._waiting) if s.is_cancelled]
        for sequence in cancelled:
            sequence.finish(FinishReason.CANCELLED)
        self._forget_finished()
        return [Progress(sequence, None) for sequence in cancelled]

    def _admit(self) -> list[Progress]:
        """Start waiting sequences in turn, while the cache holds all that they may need (Q2).

        What the running ones have not taken yet is kept free for them, so that none of them can
        find the cache full later.
        """
        running = Counter(s.owner for s in self._running)
        while len(self._running) < self._max_running:
            sequence = self._waiting.take(
                lambda owner: running[owner] < self._max_running_per_owner, self._fits
            )
            if sequence is None:
                break
            sequence.reuse_blocks()
            running[sequence.owner] += 1
            self._running.append(sequence)
        refused = None if self._running else self._waiting.take_first()
        if refused is None:
            return []
        # Nothing of ours will come free: the blocks are in other hands, and waiting may never end.
        refused.finish(FinishReason.ERROR, EngineError("the key/value cache is taken by others"))
        return [Progress(refused, None)]

    def _fits(self, sequence: Sequence) -> bool:
        """Return whether the cache holds all that this and the running ones may come to need."""
        free = self._engine.blocks.num_free - sum(
            s.cache.num_blocks_at_most - s.cache.num_blocks for s in self._running
        )
        # Blocks that it can share are looked for only where they decide.
        return sequence.cache.num_blocks_at_most <= free or sequence.num_blocks_to_begin <= free

    def _batch(self) -> list[tuple[Sequence, Piece]]:
        limits = self._prefill_limits()
        batch = []
        for sequence in self._running:
            if not sequence.is_prefilling:
                batch.append((sequence, Piece(sequence.cache, sequence.next_ids(1), 1)))
            elif limits[sequence.owner]:
                ids = sequence.next_ids(limits[sequence.owner])
                limits[sequence.owner] -= len(ids)
                done = sequence.cache.num_positions + len(ids) == sequence.num_prompt_tokens
                num_logits = int(done and not sequence.request.embeds)
                batch.append((sequence, Piece(sequence.cache, ids, num_logits)))
        return batch

    def _prefill_limits(self) -> dict[bytes, int]:
        """Share the prompt tokens of a step between the owners that have any to compute (Q4)."""
        wanted: Counter[bytes] = Counter()
        for sequence in self._running:
            if sequence.is_prefilling:
                sequence.reuse_blocks()  # others may have left some since the last step
                left = sequence.num_prompt_tokens - sequence.cache.num_positions
                wanted[sequence.owner] += left
        owners = [owner for owner in self._prefill_turns if owner in wanted]
        owners += [owner for owner in wanted if owner not in owners]
        shares = fair_shares([wanted[owner] for owner in owners], self._prefill_tokens)
        limits = dict(zip(owners, shares, strict=True))
        # Where not everybody got some, those who did not are first in the next step.
        self._prefill_turns = sorted(owners, key=lambda owner: limits[owner] > 0)
        return limits

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
                    sequence.pool(result.states[rows])
                    choice = sequence.accept(logits, leaves)
                except EngineError as failure:
                    sequence.finish(FinishReason.ERROR, failure)
            progress.append(Progress(sequence, choice))
        return progress
