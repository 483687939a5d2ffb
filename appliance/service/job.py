"""One request on the engine, as the thread that answers it sees it: tokens, then how it ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias

from engine.sampling.choice import Choice
from engine.sequence import FinishReason, Request

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.sequence import Sequence


LOOK_S: Final = 0.25
"""How often one who waits for an event looks whether the client is still there."""


class Cause(Enum):
    """Who ended a request before its time."""

    CLIENT = "client"
    DEADLINE = "deadline"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a request ended on the engine; nothing of it changes any more.

    Attributes:
        reason: why.
        output_ids: all ids drawn.
        cached_tokens: of the prompt, found in the prefix cache.
        cause: who ended it, None where nobody did.
        error: what went wrong, None where nothing did.
        vector: float32[hidden] where the request embeds a text.
        find_trace_root: computes the trace root, None where nothing was traced.
    """

    reason: FinishReason
    output_ids: tuple[int, ...] = ()
    cached_tokens: int = 0
    cause: Cause | None = None
    error: Exception | None = None
    vector: NDArray[np.float32] | None = field(default=None, repr=False, compare=False)
    find_trace_root: Callable[[], bytes | None] = field(default=lambda: None, repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether the answer is complete, as far as the engine is concerned."""
        return self.reason in (FinishReason.STOP, FinishReason.LENGTH)


JobEvent: TypeAlias = Choice | Ended


@dataclass(frozen=True, slots=True)
class Deadlines:
    """When a request is given up, by the clock of the worker.

    Attributes:
        first_token: in seconds, unless it has its first token; None never.
        end: in seconds, whatever it has; None never.
    """

    first_token: float | None = None
    end: float | None = None

    def are_over(self, now: float, *, has_token: bool) -> bool:
        """Return whether it is time."""
        if self.end is not None and now >= self.end:
            return True
        return self.first_token is not None and not has_token and now >= self.first_token


class Job:
    """One request on the engine. `next` is for one thread, `cancel` for any.

    The events that wait are never more than the tokens that were asked for.

    Attributes:
        request: what is computed.
        owner: on whose behalf.
        cache_key: of the prefix cache, None without it.
        stops: strings that end it.
        deadlines: when it is given up.
        submitted: by the worker's clock, seconds.
        sequence: on the scheduler; the worker's thread alone uses it.
        tokens: how many were drawn so far.
    """

    def __init__(
        self,
        request: Request,
        *,
        owner: bytes,
        cache_key: bytes | None,
        stops: tuple[str, ...],
        deadlines: Deadlines,
        submitted: float,
    ) -> None:
        """Prepare it; the worker makes one for each request that it takes."""
        self.request = request
        self.owner = owner
        self.cache_key = cache_key
        self.stops = stops
        self.deadlines = deadlines
        self.submitted = submitted
        self.sequence: Sequence | None = None
        self.tokens = 0
        self._events: SimpleQueue[JobEvent] = SimpleQueue()
        self._cause: Cause | None = None
        self._lock = threading.Lock()
        self._ended: Ended | None = None

    @property
    def cause(self) -> Cause | None:
        """Who wants it to end, None while nobody does."""
        return self._cause

    @property
    def ended(self) -> Ended | None:
        """How it ended on the engine, also where not all of its tokens were taken yet."""
        return self._ended

    def next(self, timeout_s: float | None = None) -> JobEvent | None:
        """Return the next token, or in the end how it ended; None where the time is up before.

        Args:
            timeout_s: how long to wait; None waits for ever, 0 not at all.
        """
        try:
            if timeout_s == 0:
                return self._events.get_nowait()
            return self._events.get(timeout=timeout_s)
        except Empty:
            return None

    def wait(self) -> Ended:
        """Return how it ended, without the tokens that were not taken; waits for it."""
        while self._ended is None:
            self._events.get()
        return self._ended

    def cancel(self, cause: Cause) -> None:
        """Ask for the end, which comes within one step; the first cause stays."""
        with self._lock:
            if self._cause is None:
                self._cause = cause
            if self.sequence is not None:
                self.sequence.cancel()

    def started(self, sequence: Sequence) -> None:
        """Note the sequence; the worker's thread calls it."""
        with self._lock:
            self.sequence = sequence
            if self._cause is not None:
                sequence.cancel()

    def put(self, choice: Choice) -> None:
        """Hand a token on; the worker's thread calls it."""
        self.tokens += 1
        self._events.put(choice)

    def end(
        self, reason: FinishReason, error: Exception | None = None, *, is_traced: bool = True
    ) -> None:
        """Say how it ended, once; the worker calls it.

        Args:
            reason: why.
            error: what went wrong.
            is_traced: whether its trace can be relied on, because no step is computing it.
        """
        sequence = self.sequence
        ended = Ended(
            reason=reason,
            output_ids=() if sequence is None else tuple(sequence.output_ids),
            cached_tokens=0 if sequence is None else sequence.cached_tokens,
            cause=self._cause if reason is FinishReason.CANCELLED else None,
            error=error,
            vector=None if sequence is None else sequence.vector,
            find_trace_root=lambda: (
                sequence.trace_root if is_traced and sequence is not None else None
            ),
        )
        with self._lock:
            if self._ended is not None:
                return
            self._ended = ended
        self._events.put(ended)
