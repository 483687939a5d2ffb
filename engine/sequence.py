"""One sequence: what was asked, what has been generated, and why it ended."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError, ContextLengthError, EngineError
from engine.kv.cache import SequenceCache
from engine.kv.prefix import PrefixUse
from engine.sampling.choice import Choice
from engine.sampling.parameters import SamplingParameters
from engine.sampling.sampler import Sampler
from engine.trace import Trace

if TYPE_CHECKING:
    from engine.grammar.grammar import Grammar
    from engine.pooling import Pooling


class FinishReason(Enum):
    """Why a sequence ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Request:
    """What to generate, or the text to make a vector of.

    prompt_ids: at least one id. max_tokens: at least 1. eos_ids: ids that end the answer.
    trace: whether to hash the residual stream (NUMERICS N11). grammar: what the answer must follow,
    of the model's vocabulary; None for any text. embeds: whether the vector of the prompt is wanted
    (N14) and no token: `max_tokens` is 0 then, and there is no grammar.
    """

    prompt_ids: tuple[int, ...]
    max_tokens: int
    sampling: SamplingParameters = field(default_factory=SamplingParameters)
    eos_ids: tuple[int, ...] = ()
    trace: bool = True
    grammar: Grammar | None = None
    embeds: bool = False

    def check(self, context_tokens: int, vocab_size: int) -> None:
        """Refuse what a model cannot compute.

        Raises:
            ConfigError: no prompt, an id outside the vocabulary, or no token asked for; tokens or a
                grammar with a vector.
            ContextLengthError: prompt and answer together are longer than the context.
        """
        if not self.prompt_ids:
            raise ConfigError("a prompt needs at least one token")
        if self.embeds and (self.max_tokens or self.grammar is not None):
            raise ConfigError("a vector comes without tokens and grammar")
        if self.max_tokens < 1 and not self.embeds:
            raise ConfigError("max_tokens must be at least 1")
        if len(self.prompt_ids) + self.max_tokens > context_tokens:
            raise ContextLengthError(len(self.prompt_ids), self.max_tokens, context_tokens)
        if min(self.prompt_ids) < 0 or max(self.prompt_ids) >= vocab_size:
            raise ConfigError("an id of the prompt is outside the vocabulary")

    @property
    def num_positions(self) -> int:
        """Positions to compute at most: all but that of the last output token."""
        return len(self.prompt_ids) + max(self.max_tokens - 1, 0)


class Sequence:
    """A request on its way through the scheduler. `cancel` may be called from any thread."""

    def __init__(
        self,
        request: Request,
        cache: SequenceCache,
        sampler: Sampler,
        trace: Trace | None,
        *,
        owner: bytes = b"",
        prefix: PrefixUse | None = None,
        pooling: Pooling | None = None,
    ) -> None:
        """Start before the first prompt token.

        Args:
            request: what to generate.
            cache: empty.
            sampler: chooses tokens.
            trace: without positions; None where the request wants none.
            owner: on whose behalf, for the scheduler's turns.
            prefix: where full blocks are found and left for others; None: neither.
            pooling: makes the vector, where the request wants one.
        """
        self.request = request
        self.cache = cache
        self.sampler = sampler
        self.trace = trace
        self.owner = owner
        self.cached_tokens = 0
        self.choices: list[Choice] = []
        self.output_ids: list[int] = []
        self.finish_reason: FinishReason | None = None
        self.error: EngineError | None = None
        self.vector: NDArray[np.float32] | None = None
        self._prompt = np.array(request.prompt_ids, np.int32)
        self._prefix = prefix
        self._pooling = pooling
        self._cancelled = threading.Event()
        self._constraint = None if request.grammar is None else request.grammar.start()

    @property
    def num_prompt_tokens(self) -> int:
        """Length of the prompt."""
        return len(self._prompt)

    @property
    def is_prefilling(self) -> bool:
        """Whether prompt tokens are still to be computed."""
        return self.cache.num_positions < len(self._prompt)

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will be generated."""
        return self.finish_reason is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody asked to end it."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Ask for the end: the scheduler ends the sequence when it next looks at it."""
        self._cancelled.set()

    @property
    def num_blocks_to_begin(self) -> int:
        """Blocks that it may come to need, without those in use that it would share from now on."""
        needed = self.cache.num_blocks_at_most
        if self._prefix is not None:
            needed -= self._prefix.num_in_use(self._prompt, traced=self.trace is not None)
        return needed

    def reuse_blocks(self) -> None:
        """Take prompt positions from the prefix cache, which `cached_tokens` counts (K3)."""
        if self._prefix is None:
            return
        before = self.cache.num_positions
        for block in self._prefix.reuse(self._prompt, traced=self.trace is not None):
            if self.trace is not None and block.roots is not None:
                self.trace.append_blocks(block.roots[:, None])
        self.cached_tokens += self.cache.num_positions - before

    def next_ids(self, limit: int) -> NDArray[np.int32]:
        """Return the ids to compute next: up to `limit` of the prompt, or the newest output id."""
        if self.is_prefilling:
            start = self.cache.num_positions
            return self._prompt[start : start + limit]
        return np.array(self.output_ids[-1:], np.int32)

    def pool(self, states: NDArray[np.float32]) -> None:
        """Take float32[n, hidden], x(t, L) of a step's positions, before `accept`.

        Raises:
            NonFiniteError: there is no vector of the text (NUMERICS N14).
        """
        if self._pooling is not None:
            self._pooling.push(states)
            if not self.is_prefilling:
                self.vector = self._pooling.vector()

    def accept(
        self, logits: NDArray[np.float32] | None, leaves: NDArray[np.uint8] | None
    ) -> Choice | None:
        """Take what a step computed: choose the next token, add the step's positions to the trace.

        Args:
            logits: float32[vocab] of the last position; None while the prompt is not finished.
            leaves: uint8[L + 1, n, 32], as of `engine.trace.leaf_hashes`, of the n positions; None
                if nobody traces.

        Raises:
            NonFiniteError: a logit is not finite; nothing of the step is traced (NUMERICS N12).
            SamplingError: no token can be chosen, or the grammar cannot be followed any further.
        """
        choice = None
        if logits is not None:
            position = self.num_prompt_tokens + len(self.output_ids)
            prompt_ids = self.request.prompt_ids
            mask = None if self._constraint is None else self._constraint.mask()
            choice = self.sampler.sample(logits, prompt_ids, self.output_ids, position, mask)
        if self.trace is not None and leaves is not None:
            self.cache.keep_trace_roots(self.trace.append(leaves))
        if self._prefix is not None and self._prefix.has_new_blocks:
            ids = np.concatenate((self._prompt, np.array(self.output_ids, np.int32)))
            self._prefix.offer(ids, traced=self.trace is not None)
        if choice is not None:
            self.choices.append(choice)
            self.output_ids.append(choice.id)
            if self._constraint is not None:
                self._constraint.push(choice.id)
            is_complete = self._constraint is not None and self._constraint.is_complete
            if choice.id in self.request.eos_ids or is_complete:
                self.finish(FinishReason.STOP)
            elif len(self.output_ids) >= self.request.max_tokens:
                self.finish(FinishReason.LENGTH)
        if self.vector is not None:
            self.finish(FinishReason.STOP)
        return choice

    def stop(self) -> None:
        """End the sequence at a stop string that its newest token completed.

        That token may have been the last one asked for: the stop string is then the reason all the
        same.
        """
        if self.finish_reason is FinishReason.LENGTH:
            self.finish_reason = FinishReason.STOP
        self.finish(FinishReason.STOP)

    def finish(self, reason: FinishReason, error: EngineError | None = None) -> None:
        """End the sequence and give its cache back; the first reason given stays."""
        if self.finish_reason is None:
            self.finish_reason, self.error = reason, error
            self.cache.release()
            if self._prefix is not None:
                self._prefix.close()

    @property
    def trace_root(self) -> bytes | None:
        """The trace root over all positions computed; None without a trace."""
        return None if self.trace is None else self.trace.root()
