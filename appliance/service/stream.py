"""An answer on its way to the client: piece by piece, or whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Self

from appliance.api.logprobs import TokenLogprob
from appliance.service import sse
from appliance.service.job import LOOK_S, Ended
from appliance.service.life import AttestedError, client_closed
from appliance.service.spoken import Piece
from engine.text.tool_calls import ContentDelta

if TYPE_CHECKING:
    from appliance.api.answers import Object
    from appliance.service.answering import Running


class AnswerStream:
    """The bytes of a streamed answer, for a WSGI server: to be iterated once, and closed.

    It is an object and no generator, because `close` has to work before the first `next` too.
    What was returned counts as handed out.
    """

    def __init__(self, running: Running, *, ping_s: float, is_gone: Callable[[], bool]) -> None:
        """Stream an answer that runs.

        Args:
            running: the answer.
            ping_s: how long to be silent at most.
            is_gone: whether the client has left.
        """
        self._running = running
        self._ping_s = ping_s
        self._is_gone = is_gone
        self._events = self._make()

    def __iter__(self) -> Self:
        """Return the stream."""
        return self

    def __next__(self) -> bytes:
        """Return the next bytes."""
        return next(self._events)

    def close(self) -> None:
        """End it; the client has left if that is not its end."""
        self._events.close()
        self._running.life.left()

    def _make(self) -> Generator[bytes, None, None]:
        life = self._running.life
        try:
            yield from self._chunks()
        except AttestedError as error:
            yield sse.event(error.body())
        except Exception as error:
            yield sse.event(life.failed(error).body())

    def _chunks(self) -> Iterator[bytes]:
        running, wire = self._running, self._running.wire
        for chunk in wire.first():
            yield sse.event(chunk)
        spoke = time.monotonic()
        while not isinstance(event := running.next(min(LOOK_S, self._ping_s)), Ended):
            if self._is_gone():
                running.life.left()
                return
            if event is not None:
                yield from self._piece(event)
            elif time.monotonic() - spoke >= self._ping_s:
                yield sse.PING
            else:
                continue
            spoke = time.monotonic()
        yield from self._piece(running.rest(event))
        closed = running.finish(event)
        yield sse.event(wire.last(closed.finish_reason, closed.attestation))
        if running.parsed.include_usage:
            yield sse.event(wire.usage(closed.usage))
        yield sse.DONE

    def _piece(self, piece: Piece) -> Iterator[bytes]:
        """Hand out a piece; its tokens' log-probabilities go with the first chunk of it."""
        running = self._running
        logprobs: tuple[TokenLogprob, ...] | None = piece.logprobs or None
        deltas = piece.deltas
        if logprobs and not deltas:
            deltas = (ContentDelta(""),)
        for delta in deltas:
            running.life.handed.take(delta)
            yield sse.event(running.wire.delta(delta, logprobs))
            logprobs = None


def whole_answer(running: Running, is_gone: Callable[[], bool]) -> Object:
    """Return the object of an answer, once its statement is durable.

    Args:
        running: the answer.
        is_gone: whether the client has left.

    Raises:
        AttestedError: there is no whole answer.
    """
    life = running.life
    pieces: list[Piece] = []
    try:
        while not isinstance(event := running.next(LOOK_S), Ended):
            if is_gone():
                life.left()
                raise AttestedError(client_closed(), life.id)
            if event is not None:
                pieces.append(event)
        rest = running.rest(event)
        if event.is_whole:
            for piece in (*pieces, rest):
                for delta in piece.deltas:
                    life.handed.take(delta)
        closed = running.finish(event)
    except AttestedError:
        raise
    except Exception as error:
        raise life.failed(error) from error
    has_logprobs = running.parsed.sampling.logprobs is not None
    logprobs = [each for piece in pieces for each in piece.logprobs] if has_logprobs else None
    return running.wire.whole(
        life.handed, closed.finish_reason, logprobs, closed.usage, closed.attestation
    )
