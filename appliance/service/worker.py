"""The one thread that computes: takes requests, runs steps, hands tokens on.

Everything that is not needed to compute the next token happens in the threads that answer. Only a
stop string is looked for here, because nothing may be computed after it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from appliance.api.errors import engine_error, not_ready, overloaded
from appliance.service.job import Cause, Deadlines, Job
from engine.errors import EngineError, WeightsError, WeightsUncheckedError
from engine.sequence import FinishReason, Request
from engine.text.detokenizer import Detokenizer
from engine.text.stop import StopMatcher

if TYPE_CHECKING:
    from engine.sampling.choice import Choice
    from engine.scheduler import Scheduler
    from engine.text.tokenizer import Tokenizer

_LOG: Final = logging.getLogger("windhover.worker")
_RETRY_AFTER_S: Final = 5
_MOST_RETRY_AFTER_S: Final = 300
_HUNG_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class WorkerNumbers:
    """What a worker has done so far, and has now.

    Attributes:
        steps: made.
        step_s: seconds that they took.
        last_step_s: seconds of the last.
        running: requests that have begun and not ended.
        queued: requests that have not begun.
        places: requests that were let in and are not closed.
        prompt_tokens: of requests that have their first token.
        cached_tokens: of these, found in the prefix cache.
        generated_tokens: drawn.
        first_tokens: requests that have their first token.
        first_token_s: seconds from their arrival to it, of all together.
        mismatches: steps after which other requests were on the engine than were known here.
    """

    steps: int = 0
    step_s: float = 0.0
    last_step_s: float = 0.0
    running: int = 0
    queued: int = 0
    places: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    first_tokens: int = 0
    first_token_s: float = 0.0
    mismatches: int = 0


class Place:
    """Room for one request, kept from before its admission until after its statement."""

    def __init__(self, worker: EngineWorker) -> None:
        """Keep what the worker has counted."""
        self._worker: EngineWorker | None = worker
        self._lock = threading.Lock()

    def release(self) -> None:
        """Give it back; nothing happens the second time."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker._give_back()

    @property
    def is_held(self) -> bool:
        """Whether it was not given back."""
        return self._worker is not None


class _StopWatch:
    """Looks for stop strings in the ids of one answer."""

    def __init__(self, tokenizer: Tokenizer, stops: tuple[str, ...]) -> None:
        self._matcher = StopMatcher(stops)
        self._detokenizer = Detokenizer(tokenizer)

    def push(self, token_id: int) -> bool:
        """Take an id that is part of the text; return whether a stop string is now complete."""
        return self._matcher.push(self._detokenizer.push(token_id)).stop is not None


class EngineWorker:
    """Runs requests on one scheduler, which nobody else uses. Any thread may call."""

    def __init__(
        self,
        scheduler: Scheduler,
        tokenizer: Tokenizer,
        *,
        max_running: int,
        max_queued: int,
        on_failure: Callable[[BaseException], None] = lambda error: None,
        on_step: Callable[[float], None] = lambda seconds: None,
        on_first_token: Callable[[float], None] = lambda seconds: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the thread.

        Args:
            scheduler: its `max_running` should be the one given here.
            tokenizer: of the model.
            max_running: most requests that are computed at once.
            max_queued: most requests that wait besides.
            on_failure: called once, when a step raised what no step may raise.
            on_step: called after each step with its seconds, in the thread that computes.
            on_first_token: called with the seconds from a request's arrival to its first token.
            clock: in seconds, for deadlines and statistics.
        """
        self._scheduler = scheduler
        self._tokenizer = tokenizer
        self._max_running = max_running
        self._max_places = max_running + max_queued
        self._on_failure = on_failure
        self._on_step = on_step
        self._on_first_token = on_first_token
        self._clock = clock
        self._changed = threading.Condition()
        self._inbox: deque[Job] = deque()
        self._places = 0
        self._durations_s: deque[float] = deque(maxlen=32)
        self._is_stopping = False
        self._failure: BaseException | None = None
        self._jobs: dict[int, Job] = {}
        """Those on the scheduler, by the id of their sequence object; the thread's alone."""
        self._watches: dict[int, _StopWatch] = {}
        self._numbers = WorkerNumbers()
        self._generated = 0
        self._step_begun: float | None = None
        self._is_hung = False
        self._thread = threading.Thread(target=self._run, name="windhover-engine", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        """Return the worker."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()

    @property
    def failure(self) -> BaseException | None:
        """What stopped it, None while it runs."""
        return self._failure

    @property
    def clock(self) -> Callable[[], float]:
        """The clock of deadlines, in seconds."""
        return self._clock

    @property
    def step_s(self) -> float:
        """Seconds that the step has taken which is going on; 0 between steps. Waits for nobody."""
        begun = self._step_begun
        return 0.0 if begun is None else self._clock() - begun

    @property
    def numbers(self) -> WorkerNumbers:
        """What it has done, and has now."""
        with self._changed:
            return replace(
                self._numbers,
                running=self._scheduler.num_running,
                queued=self._scheduler.num_waiting + len(self._inbox),
                places=self._places,
                generated_tokens=self._generated,
            )

    def reserve(self) -> Place:
        """Keep a place for a request, before it is admitted.

        Raises:
            ApiError: 503 overloaded: none is free; 503 not_ready: it stops; 500 engine_error: it
                has failed.
        """
        with self._changed:
            self._require_running()
            if self._places >= self._max_places:
                raise overloaded(self._retry_after_s())
            self._places += 1
        return Place(self)

    def submit(
        self,
        place: Place,
        request: Request,
        *,
        owner: bytes = b"",
        cache_key: bytes | None = None,
        stops: tuple[str, ...] = (),
        deadlines: Deadlines = Deadlines(),  # noqa: B008  (frozen)
    ) -> Job:
        """Queue a request; what becomes of it comes out of the job, also a refusal.

        Args:
            place: kept for it.
            request: it must pass `Request.check`.
            owner: on whose behalf.
            cache_key: 32 bytes, None without prefix cache.
            stops: strings that end it.
            deadlines: when it is given up.

        Raises:
            ApiError: 503 not_ready or 500 engine_error, as `reserve`.
            ValueError: the place was given back.
        """
        job = Job(
            request,
            owner=owner,
            cache_key=cache_key,
            stops=stops,
            deadlines=deadlines,
            submitted=self._clock(),
        )
        with self._changed:
            self._require_running()
            if not place.is_held:
                raise ValueError("the place was given back")
            self._inbox.append(job)
            self._changed.notify_all()
        return job

    def cancel_all(self, cause: Cause) -> None:
        """Ask all requests to end."""
        with self._changed:
            jobs = [*self._inbox, *list(self._jobs.values())]
        for job in jobs:
            job.cancel(cause)

    def wait_empty(self, timeout_s: float) -> bool:
        """Wait until every place was given back; return whether that happened in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._places == 0, timeout_s)

    def stop(self) -> None:
        """Refuse what comes, end what is there, and wait for the thread."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self.cancel_all(Cause.DRAIN)
        if threading.current_thread() is not self._thread:
            # A step that hangs cannot be ended: the thread ends with the process.
            self._thread.join(_HUNG_S if self._is_hung else None)

    def abandon(self) -> None:
        """End everything though a step does not return; nothing is taken any more. Any thread."""
        self._end_all(EngineError("a step of the engine does not return"), is_hung=True)

    def _require_running(self) -> None:
        if self._failure is not None:
            raise engine_error()
        if self._is_stopping:
            raise not_ready("the service is stopping", _RETRY_AFTER_S)

    def _retry_after_s(self) -> int:
        """Return when a place may be free: requests end one by one, as fast as they lately did."""
        if not self._durations_s:
            return _RETRY_AFTER_S
        mean_s = sum(self._durations_s) / len(self._durations_s)
        return min(_MOST_RETRY_AFTER_S, max(1, round(mean_s / self._max_running)))

    def _give_back(self) -> None:
        with self._changed:
            self._places -= 1
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while self._take():
                self._give_up()
                begun = self._step_begun = self._clock()
                progress = self._scheduler.step()
                self._step_begun = None
                now = self._clock()
                if self._failure is not None:
                    return  # everything was ended while the step hung
                self._compare()
                for sequence, choice in progress:
                    job = self._jobs.get(id(sequence))
                    if job is not None and choice is not None:
                        self._hand_on(job, choice, now)
                self._end_finished(now)
                self._count_step(now - begun)
        except BaseException as error:
            self._fail(error)

    def _take(self) -> bool:
        """Wait for work and take it; False when there will be none any more."""
        with self._changed:
            while not self._inbox and self._scheduler.is_idle:
                if self._is_stopping:
                    return False
                self._changed.wait()
            # They are on the scheduler before anybody can ask how many there are.
            while self._inbox:
                self._begin(self._inbox.popleft())
            return True

    def _begin(self, job: Job) -> None:
        if self._is_stopping:
            job.cancel(Cause.DRAIN)
        if job.cause is not None:
            job.end(FinishReason.CANCELLED)
            return
        try:
            sequence = self._scheduler.add(job.request, owner=job.owner, cache_key=job.cache_key)
        except EngineError as error:
            job.end(FinishReason.ERROR, error)
            return
        except BaseException:
            job.end(FinishReason.ERROR, EngineError("the engine has stopped"))
            raise
        self._jobs[id(sequence)] = job
        if job.stops:
            self._watches[id(sequence)] = _StopWatch(self._tokenizer, job.stops)
        job.started(sequence)

    def _give_up(self) -> None:
        """Ask those to end whose time is over."""
        now = self._clock()
        for job in self._jobs.values():
            if job.cause is None and job.deadlines.are_over(now, has_token=job.tokens > 0):
                job.cancel(Cause.DEADLINE)

    def _hand_on(self, job: Job, choice: Choice, now: float) -> None:
        sequence = job.sequence
        if sequence is None:
            return
        if job.tokens == 0:
            self._count_first_token(job, now)
        self._generated += 1
        watch = self._watches.get(id(sequence))
        is_text = choice.id not in job.request.eos_ids
        if watch is not None and is_text and watch.push(choice.id):
            sequence.stop()
        job.put(choice)

    def _end_finished(self, now: float) -> None:
        for key, job in list(self._jobs.items()):
            sequence = job.sequence
            if sequence is None or sequence.finish_reason is None:
                continue
            del self._jobs[key]
            self._watches.pop(key, None)
            self._durations_s.append(now - job.submitted)
            if sequence.vector is not None:
                self._count_first_token(job, now)  # its vector is the first that comes of a text
            job.end(sequence.finish_reason, sequence.error)

    def _count_step(self, seconds: float) -> None:
        with self._changed:
            old = self._numbers
            self._numbers = replace(
                old, steps=old.steps + 1, step_s=old.step_s + seconds, last_step_s=seconds
            )
        self._on_step(seconds)

    def _compare(self) -> None:
        """Count and report a step after which not exactly our requests are on the engine."""
        known = sum(
            job.sequence is not None and not job.sequence.is_finished for job in self._jobs.values()
        )
        found = self._scheduler.num_running + self._scheduler.num_waiting
        if known != found:
            with self._changed:
                old = self._numbers
                self._numbers = replace(old, mismatches=old.mismatches + 1)
            _LOG.error("%d requests are known, %d are on the engine", known, found)

    def _count_first_token(self, job: Job, now: float) -> None:
        seconds = now - job.submitted
        cached = 0 if job.sequence is None else job.sequence.cached_tokens
        with self._changed:
            old = self._numbers
            self._numbers = replace(
                old,
                prompt_tokens=old.prompt_tokens + len(job.request.prompt_ids),
                cached_tokens=old.cached_tokens + cached,
                first_tokens=old.first_tokens + 1,
                first_token_s=old.first_token_s + seconds,
            )
        self._on_first_token(seconds)

    def _fail(self, error: BaseException) -> None:
        """End everything with an error; nothing is taken any more."""
        self._end_all(error, is_hung=False)

    def _end_all(self, error: BaseException, *, is_hung: bool) -> None:
        _LOG.critical("the engine has stopped: %s", type(error).__name__)
        with self._changed:
            if self._failure is not None:
                return
            self._failure, self._is_hung = error, is_hung
            left = [*list(self._jobs.values()), *self._inbox]
            self._jobs, self._watches = {}, {}
            self._inbox.clear()
        failure: EngineError
        if isinstance(error, (WeightsError, WeightsUncheckedError)):
            failure = error
        else:
            failure = EngineError("the engine has stopped")
            failure.__cause__ = error
        self._on_failure(error)  # before anybody is told, who might ask whether it goes on
        for job in left:
            if job.sequence is not None and not is_hung:
                try:
                    job.sequence.finish(FinishReason.ERROR, failure)
                except Exception:
                    # Its room in the cache is lost with the engine; who waits must hear of it.
                    _LOG.exception("a sequence could not be ended")
            job.end(FinishReason.ERROR, failure, is_traced=not is_hung)
