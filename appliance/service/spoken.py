"""What an answer says: from its tokens to pieces of text and calls, and what was handed out of it.

All of it is a pure function of the ids, so that an auditor finds the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.api.logprobs import TokenLogprob
from crypto.transcript import Entry, Kind, ToolCall, Transcript, answer_entries, build
from engine.sequence import FinishReason
from engine.text.detokenizer import Detokenizer
from engine.text.stop import StopMatcher
from engine.text.tool_calls import ArgumentsDelta, CallStart, ContentDelta, Delta, ToolCallParser

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.sampling.choice import Choice
    from engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Piece:
    """What some tokens bring: pieces of the answer, and the tokens' own log-probabilities."""

    deltas: tuple[Delta, ...]
    logprobs: tuple[TokenLogprob, ...]


class Spoken:
    """The text side of one answer. One thread uses it."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        eos_ids: Sequence[int],
        stops: Sequence[str] = (),
        has_calls: bool = False,
        has_logprobs: bool = False,
    ) -> None:
        """Start an answer.

        Args:
            tokenizer: of the model.
            eos_ids: ids that are no part of the text.
            stops: strings that end it.
            has_calls: whether calls of tools are looked for.
            has_logprobs: whether log-probabilities are wanted.
        """
        self._tokenizer = tokenizer
        self._eos_ids = frozenset(eos_ids)
        self._detokenizer = Detokenizer(tokenizer)
        self._matcher = StopMatcher(stops)
        self._parser = ToolCallParser() if has_calls else None
        self._has_logprobs = has_logprobs
        self._is_stopped = False

    def push(self, choices: Sequence[Choice]) -> Piece:
        """Return what the next tokens bring."""
        text, logprobs = [], []
        for choice in choices:
            if choice.id in self._eos_ids:
                continue
            text.append(self._match(self._detokenizer.push(choice.id)))
            if self._has_logprobs and choice.logprob is not None:
                logprobs.append(self._logprob(choice))
        return Piece(self._parse("".join(text)), tuple(logprobs))

    def finish(self) -> Piece:
        """Return what was held back when the answer ends."""
        text = self._match(self._detokenizer.finish()) + self._matcher.finish()
        deltas = self._parse(text)
        if self._parser is not None:
            deltas += tuple(self._parser.finish())
        return Piece(deltas, ())

    def finish_reason(self, reason: FinishReason) -> str:
        """Return why a whole answer ended, in the words of the interface."""
        if self._is_stopped:
            reason = FinishReason.STOP
        if reason is FinishReason.STOP and self._parser is not None and self._parser.num_calls:
            return "tool_calls"
        return reason.value

    def _match(self, text: str) -> str:
        found = self._matcher.push(text)
        self._is_stopped = self._is_stopped or found.stop is not None
        return found.text

    def _parse(self, text: str) -> tuple[Delta, ...]:
        if not text:
            return ()
        if self._parser is None:
            return (ContentDelta(text),)
        return tuple(self._parser.push(text))

    def _logprob(self, choice: Choice) -> TokenLogprob:
        to_bytes = self._tokenizer.output_bytes
        top = tuple((to_bytes(token_id), logprob) for token_id, logprob in choice.top)
        return TokenLogprob(to_bytes(choice.id), choice.logprob or 0.0, top)


class Handed:
    """What was handed out of an answer so far."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._content: list[str] = []
        self._calls: list[tuple[str, list[str]]] = []
        self._vectors: list[bytes] = []

    @property
    def content(self) -> str:
        """Its text."""
        return "".join(self._content)

    @property
    def calls(self) -> list[ToolCall]:
        """Its calls, the last perhaps not complete."""
        return [ToolCall(name, "".join(arguments)) for name, arguments in self._calls]

    def take(self, delta: Delta) -> None:
        """Note a piece that leaves now."""
        match delta:
            case ContentDelta(text):
                self._content.append(text)
            case CallStart(_, name):
                self._calls.append((name, []))
            case ArgumentsDelta(index, text):
                self._calls[index][1].append(text)

    def take_vectors(self, vectors: Sequence[NDArray[np.float32]]) -> None:
        """Note the vectors of texts, which leave all at once."""
        self._vectors = [vector.astype("<f4").tobytes() for vector in vectors]

    def transcript(self, finish_reason: str) -> Transcript:
        """Return what is committed to."""
        if self._vectors:
            finish = finish_reason.encode("ascii")
            return build(
                [Entry(Kind.EMBEDDING, index, 0, data), Entry(Kind.FINISH, index, 0, finish)]
                for index, data in enumerate(self._vectors)
            )
        entries = answer_entries(
            content=self.content, tool_calls=self.calls, finish_reason=finish_reason
        )
        return build([entries])
