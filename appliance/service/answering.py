"""From the bytes of a request to an answer that runs: checked, then admitted, then begun.

What is refused is refused before the admission, and with a status of its own. After the admission
`Life` sees to it that there is one statement.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from appliance.api.errors import (
    ApiError,
    attestation_error,
    context_length_exceeded,
    engine_error,
    model_not_found,
    not_ready,
    refused,
)
from appliance.api.parse import parse_request
from appliance.api.parsed import Parsed
from appliance.api.prompt import input_ids, prompt_ids
from appliance.attestation import Attestor, Order
from appliance.log.errors import LogUnavailableError
from appliance.service.embedding import Embedding, Texts
from appliance.service.held import Held
from appliance.service.job import Deadlines, Ended, Job
from appliance.service.life import Closed, Life
from appliance.service.spoken import Piece, Spoken
from appliance.service.wire import Wire, wire_of
from crypto.errors import CryptoError
from crypto.kdf import hmac_sm3
from crypto.labels import PREFIX_CACHE
from engine.grammar.spec import ToolCalls
from engine.sampling.choice import Choice, check_vocabulary
from engine.sequence import Request

if TYPE_CHECKING:
    from appliance.log.log import Log
    from appliance.service.access_log import AccessRecord
    from appliance.service.asked import Asked
    from appliance.service.attestations import AttestationStore
    from appliance.service.limits import RateLimiter, Slot
    from appliance.service.principals import Principal
    from appliance.service.worker import EngineWorker, Place
    from engine.model import Model

_RETRY_AFTER_S: Final = 5
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """Of answers: the default of `max_tokens`, and seconds to the first token and in all."""

    default_max_tokens: int
    first_token_s: float
    all_s: float


@dataclass(frozen=True, slots=True)
class _Ready:
    """A request that can be answered, before its admission."""

    parsed: Parsed
    order: Order
    request: Request


class Running(Held):
    """An answer that runs. One thread takes its pieces; when nobody holds it, it is closed.

    Attributes:
        parsed: what was asked.
        wire: how it is written.
    """

    def __init__(
        self,
        life: Life,
        job: Job,
        parsed: Parsed,
        spoken: Spoken,
        wire: Wire,
        reap: Callable[[Life], None],
    ) -> None:
        """Take an admitted request over."""
        super().__init__(life, reap)
        self.parsed = parsed
        self.wire = wire
        self._job = job
        self._spoken = spoken
        self._begun = time.monotonic()
        self._ended: Ended | None = None

    def next(self, timeout_s: float) -> Piece | Ended | None:
        """Return what has come; in the end how it ended; None where the time is up before.

        Args:
            timeout_s: how long to wait for something.
        """
        if self._ended is not None:
            return self._ended
        event = self._job.next(timeout_s)
        choices: list[Choice] = []
        while isinstance(event, Choice):
            choices.append(event)
            event = self._job.next(0)
        if isinstance(event, Ended):
            self._ended = event
        if not choices:
            return self._ended
        self._life.first_token(time.monotonic() - self._begun)
        return self._spoken.push(choices)

    def rest(self, ended: Ended) -> Piece:
        """Return what was held back, once it has ended; nothing where it was cut."""
        if ended.is_whole:
            return self._spoken.finish()
        return Piece((), ())

    def finish(self, ended: Ended) -> Closed:
        """Close it, after the rest was handed out.

        Raises:
            AttestedError: it is no whole answer, or could not be attested.
        """
        if ended.is_whole:
            return self._life.answered(ended, self._spoken.finish_reason(ended.reason))
        raise self._life.broken(ended)


class Answering:
    """Answers the requests of one service. Any thread may call."""

    def __init__(
        self,
        *,
        model: Model,
        model_name: str,
        log: Log,
        attestor: Attestor,
        worker: EngineWorker,
        attestations: AttestationStore,
        rates: RateLimiter,
        limits: AnswerLimits,
        on_failure: Callable[[str, str], None],
    ) -> None:
        """Answer with a model.

        Args:
            model: the model.
            model_name: what requests call it.
            log: of the statements.
            attestor: makes them.
            worker: runs the model.
            attestations: gets the bundles.
            rates: what principals may take.
            limits: of answers.
            on_failure: called with code and message when nothing may be answered any more.
        """
        self._model = model
        self._model_name = model_name
        self._log = log
        self._attestor = attestor
        self._worker = worker
        self._attestations = attestations
        self._rates = rates
        self._limits = limits
        self._on_failure = on_failure
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self._left: SimpleQueue[Life | None] = SimpleQueue()
        self._reaper = threading.Thread(target=self._reap, name="windhover-reaper", daemon=True)
        self._reaper.start()

    def stop(self) -> None:
        """Close what nobody holds, and end the thread that does."""
        self._left.put(None)
        self._reaper.join()

    def begin(self, asked: Asked) -> Running:
        """Check, admit and begin a request for text; when this returns its admission is durable.

        Raises:
            ApiError: it is refused; with an attestation where that was after the admission.
            RequestError, EngineError: it is refused, as `api_error_of` puts it.
        """
        arrived = self._worker.clock()
        ready = self._read(asked)
        life, place = self._enter(asked, ready.order)
        with _closing(life):
            return self._run(asked, ready, life, place, arrived)

    def embed(self, asked: Asked) -> Embedding:
        """Check, admit and begin a request for vectors; errors and promise as of `begin`."""
        arrived = self._worker.clock()
        parsed, order, texts = self._read_texts(asked)
        life, place = self._enter(asked, order)
        deadlines = Deadlines(arrived + self._limits.first_token_s, arrived + self._limits.all_s)
        with _closing(life):
            jobs = []
            for ids in texts:
                request = Request(ids, 0, embeds=True)
                owner = asked.principal.id
                jobs.append(self._worker.submit(place, request, owner=owner, deadlines=deadlines))
            life.job = Texts(jobs)
            return Embedding(life, parsed, life.job, self._model_name, self._left.put)

    def _enter(self, asked: Asked, order: Order) -> tuple[Life, Place]:
        """Take what the request needs of its principal's share and of the worker, and admit it."""
        slot = self._rates.open(asked.principal, len(order.prompt_ids))
        try:
            place = self._worker.reserve()
        except BaseException:
            slot.release()
            raise
        try:
            return self._admit(order, slot, place, asked.record), place
        except BaseException:
            place.release()
            slot.release()
            raise

    def _read(self, asked: Asked) -> _Ready:
        """Find out what is asked, and everything that is wrong with it."""
        model = self._model
        parsed = self._parse(asked)
        engine = model.engine
        now_ms = self._attestor.now_ms()
        ids = prompt_ids(model, parsed, now_unix_s=now_ms // 1000)
        max_tokens = parsed.max_tokens
        if max_tokens is None:
            left = engine.max_positions - len(ids)
            if left < 1:
                raise context_length_exceeded(len(ids), 1, engine.max_positions)
            max_tokens = min(self._limits.default_max_tokens, left)
        grammar = None if parsed.grammar is None else model.grammars.compile(parsed.grammar)
        request = Request(
            ids,
            max_tokens,
            parsed.sampling,
            model.tokenizer_config.eos_ids,
            grammar=grammar,
        )
        request.check(engine.max_positions, engine.config.vocab_size)
        check_vocabulary(parsed.sampling, engine.config.vocab_size)
        order = self._order(asked, parsed, ids, max_tokens, now_ms)
        return _Ready(parsed, order, request)

    def _read_texts(self, asked: Asked) -> tuple[Parsed, Order, tuple[tuple[int, ...], ...]]:
        """Find out what is to become vectors, and everything that is wrong with it."""
        model, engine = self._model, self._model.engine
        parsed = self._parse(asked)
        if model.config.pooling is None:
            message = "this model makes no vectors of texts; it answers them"
            raise refused("unsupported_parameter", message, "model")
        now_ms = self._attestor.now_ms()
        texts = input_ids(model, parsed)
        for index, ids in enumerate(texts):
            if not ids:
                raise refused("invalid_value", f"text {index} has no tokens", "input")
            Request(ids, 0, embeds=True).check(engine.max_positions, engine.config.vocab_size)
        ids = tuple(token_id for text in texts for token_id in text)
        return parsed, self._order(asked, parsed, ids, 0, now_ms), texts

    def _parse(self, asked: Asked) -> Parsed:
        parsed = parse_request(asked.path, asked.body)
        if parsed.model != self._model_name:
            raise model_not_found(parsed.model, [self._model_name])
        return parsed

    @staticmethod
    def _order(
        asked: Asked, parsed: Parsed, ids: tuple[int, ...], max_tokens: int, now_ms: int
    ) -> Order:
        return Order(
            path=asked.path,
            body=asked.body,
            prompt_ids=ids,
            parameters=parsed.parameters(max_tokens),
            admitted_ms=now_ms,
            seed=parsed.seed,
            nonce=asked.nonce,
            principal=asked.principal.id,
        )

    def _admit(self, order: Order, slot: Slot, place: Place, record: AccessRecord | None) -> Life:
        try:
            admitted = self._attestor.admit(order)
        except LogUnavailableError as error:
            if error.reason == "failed":
                self._on_failure("log", "the log has stopped")
            raise not_ready("the log takes nothing just now", _RETRY_AFTER_S) from error
        except CryptoError as error:
            self._on_failure("attestation", "a request could not be admitted")
            raise attestation_error() from error

        def release(num_generated: int) -> None:
            slot.generated(num_generated)
            slot.release()
            place.release()

        return Life(
            admitted,
            attestor=self._attestor,
            attestations=self._attestations,
            log_id=self._log.log_id,
            release=release,
            on_failure=self._on_failure,
            record=record,
        )

    def _run(
        self, asked: Asked, ready: _Ready, life: Life, place: Place, arrived: float
    ) -> Running:
        parsed, limits, model = ready.parsed, self._limits, self._model
        spoken = Spoken(
            model.tokenizer,
            eos_ids=ready.request.eos_ids,
            stops=parsed.stops,
            has_calls=isinstance(parsed.grammar, ToolCalls),
            has_logprobs=parsed.sampling.logprobs is not None,
        )
        sampling = replace(parsed.sampling, seed=life.admitted.seed)
        created = ready.order.admitted_ms // 1000
        wire = wire_of(asked.path, created=created, model=self._model_name)
        job = life.job = self._worker.submit(
            place,
            replace(ready.request, sampling=sampling),
            owner=asked.principal.id,
            cache_key=self._cache_key(asked.principal, parsed.prompt_cache_key),
            stops=parsed.stops,
            deadlines=Deadlines(arrived + limits.first_token_s, arrived + limits.all_s),
        )
        return Running(life, job, parsed, spoken, wire, self._left.put)

    def _cache_key(self, principal: Principal, key: str | None) -> bytes | None:
        """Return what separates prefix caches; None: none is used.

        Behind a shared principal are several people, who must not learn of each other's prompts.
        """
        if key is None:
            return None if principal.shared else self._tag(principal.id, b"\x00")
        return self._tag(principal.id, b"\x01" + key.encode("utf-8"))

    def _tag(self, principal: bytes, key: bytes) -> bytes:
        return hmac_sm3(self._secret, PREFIX_CACHE, principal, key)

    def _reap(self) -> None:
        while (life := self._left.get()) is not None:
            life.left()


@contextmanager
def _closing(life: Life) -> Iterator[None]:
    """Close what was admitted and could not be begun; what was begun of it ends."""
    try:
        yield
    except ApiError as error:
        raise life.refused(error) from None
    except BaseException:
        life.refused(engine_error())
        raise
