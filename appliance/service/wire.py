"""The two endpoints that generate text, as far as their objects differ."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from appliance.api import answers
from appliance.api.answers import FunctionCall, Head, Object, Usage
from appliance.api.logprobs import TextOffsets, TokenLogprob
from appliance.api.parsed import CHAT_PATH
from appliance.service.spoken import Handed
from engine.text.tool_calls import ArgumentsDelta, CallStart, ContentDelta, Delta

_ID_BYTES: Final = 12


class Wire(Protocol):
    """How one answer is written."""

    def first(self) -> list[Object]:
        """Return the chunks before any text."""
        ...

    def delta(self, delta: Delta, logprobs: Sequence[TokenLogprob] | None) -> Object:
        """Return the chunk of a piece."""
        ...

    def last(self, finish_reason: str, attestation: Mapping[str, object]) -> Object:
        """Return the chunk that ends the answer."""
        ...

    def usage(self, usage: Usage) -> Object:
        """Return the chunk with the numbers of tokens."""
        ...

    def whole(
        self,
        handed: Handed,
        finish_reason: str,
        logprobs: Sequence[TokenLogprob] | None,
        usage: Usage,
        attestation: Mapping[str, object],
    ) -> Object:
        """Return the answer in one piece."""
        ...


class ChatWire:
    """Answers of the chat."""

    def __init__(self, head: Head) -> None:
        """Start one."""
        self._head = head

    def first(self) -> list[Object]:
        """Return the chunk with the role."""
        return [answers.first_chunk(self._head)]

    def delta(self, delta: Delta, logprobs: Sequence[TokenLogprob] | None) -> Object:
        """Return the chunk of a piece; each call gets an id of its own."""
        match delta:
            case ContentDelta(text):
                return answers.content_chunk(self._head, text, logprobs)
            case CallStart(index, name):
                return answers.call_chunk(self._head, index, _call_id(), name, logprobs)
            case ArgumentsDelta(index, text):
                return answers.arguments_chunk(self._head, index, text, logprobs)

    def last(self, finish_reason: str, attestation: Mapping[str, object]) -> Object:
        """Return the chunk that ends the answer."""
        return answers.last_chunk(self._head, finish_reason=finish_reason, attestation=attestation)

    def usage(self, usage: Usage) -> Object:
        """Return the chunk with the numbers of tokens."""
        return answers.usage_chunk(self._head, usage)

    def whole(
        self,
        handed: Handed,
        finish_reason: str,
        logprobs: Sequence[TokenLogprob] | None,
        usage: Usage,
        attestation: Mapping[str, object],
    ) -> Object:
        """Return the answer in one piece."""
        return answers.chat_completion(
            self._head,
            content=handed.content,
            calls=[FunctionCall(_call_id(), call.name, call.arguments) for call in handed.calls],
            finish_reason=finish_reason,
            logprobs=logprobs,
            usage=usage,
            attestation=attestation,
        )


class TextWire:
    """Continued texts."""

    def __init__(self, head: Head) -> None:
        """Start one."""
        self._head = head
        self._offsets = TextOffsets()

    def first(self) -> list[Object]:
        """Return nothing: there is no role."""
        return []

    def delta(self, delta: Delta, logprobs: Sequence[TokenLogprob] | None) -> Object:
        """Return the chunk of a piece, which is always text."""
        text = delta.text if isinstance(delta, ContentDelta) else ""
        return answers.text_chunk(self._head, text, self._offsets, logprobs=logprobs)

    def last(self, finish_reason: str, attestation: Mapping[str, object]) -> Object:
        """Return the chunk that ends the answer."""
        return answers.last_text_chunk(
            self._head, self._offsets, finish_reason=finish_reason, attestation=attestation
        )

    def usage(self, usage: Usage) -> Object:
        """Return the chunk with the numbers of tokens."""
        return answers.text_usage_chunk(self._head, usage)

    def whole(
        self,
        handed: Handed,
        finish_reason: str,
        logprobs: Sequence[TokenLogprob] | None,
        usage: Usage,
        attestation: Mapping[str, object],
    ) -> Object:
        """Return the answer in one piece."""
        return answers.text_completion(
            self._head,
            text=handed.content,
            finish_reason=finish_reason,
            logprobs=logprobs,
            usage=usage,
            attestation=attestation,
        )


def wire_of(path: str, *, created: int, model: str) -> Wire:
    """Return how an answer of an endpoint is written, under an id of its own."""
    is_chat = path == CHAT_PATH
    name = "chatcmpl-" if is_chat else "cmpl-"
    head = Head(name + secrets.token_hex(_ID_BYTES), created, model)
    return ChatWire(head) if is_chat else TextWire(head)


def _call_id() -> str:
    return "call_" + secrets.token_hex(_ID_BYTES)
