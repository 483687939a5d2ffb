"""Answers as JSON objects of the interface: pure functions of what was generated."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from appliance.api.logprobs import TextOffsets, TokenLogprob, chat_logprobs, legacy_logprobs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Object: TypeAlias = dict[str, object]
Logprobs: TypeAlias = Sequence[TokenLogprob] | None


@dataclass(frozen=True, slots=True)
class Head:
    """What every object of one answer repeats.

    id: `chatcmpl-` or `cmpl-` and more. created: Unix seconds. model: the served name.
    """

    id: str
    created: int
    model: str

    def of(self, kind: str) -> Object:
        """Return the members of an object of a kind."""
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


@dataclass(frozen=True, slots=True)
class Usage:
    """Numbers of tokens; those of the prompt are all, whether the cache had them or not."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int

    def to_object(self) -> Object:
        """Return it as the interface has it."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a tool. id: `call_` and more. arguments: as the model wrote them."""

    id: str
    name: str
    arguments: str


def to_json(value: Mapping[str, object]) -> bytes:
    """Return the bytes of an object: UTF-8, no spaces, members in their order.

    Raises:
        ValueError: it holds a number that JSON has not, or half a surrogate pair.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8")


def chat_completion(
    head: Head,
    *,
    content: str,
    calls: Sequence[FunctionCall] = (),
    finish_reason: str,
    logprobs: Logprobs = None,
    usage: Usage,
    attestation: Mapping[str, object],
) -> Object:
    """Return an answer of the chat in one piece; content is null where there are only calls."""
    message: Object = {
        "role": "assistant",
        "content": content if content or not calls else None,
        "refusal": None,
    }
    if calls:
        message["tool_calls"] = [_call(call) for call in calls]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": chat_logprobs(logprobs),
        "finish_reason": finish_reason,
    }
    return {
        **head.of("chat.completion"),
        "choices": [choice],
        "usage": usage.to_object(),
        "attestation": dict(attestation),
    }


def _call(call: FunctionCall) -> Object:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _chat_chunk(
    head: Head, delta: Object, *, logprobs: Logprobs = None, finish_reason: str | None = None
) -> Object:
    choice = {
        "index": 0,
        "delta": delta,
        "logprobs": chat_logprobs(logprobs),
        "finish_reason": finish_reason,
    }
    return {**head.of("chat.completion.chunk"), "choices": [choice]}


def first_chunk(head: Head) -> Object:
    """Return the first chunk of a chat: the role and no text."""
    return _chat_chunk(head, {"role": "assistant", "content": ""})


def content_chunk(head: Head, text: str, logprobs: Logprobs = None) -> Object:
    """Return a chunk with text; empty where only log-probabilities are to be told."""
    return _chat_chunk(head, {"content": text}, logprobs=logprobs)


def call_chunk(
    head: Head, index: int, call_id: str, name: str, logprobs: Logprobs = None
) -> Object:
    """Return the chunk that begins a call of a tool: id and name are told here alone."""
    function = {"name": name, "arguments": ""}
    call = {"index": index, "id": call_id, "type": "function", "function": function}
    return _chat_chunk(head, {"tool_calls": [call]}, logprobs=logprobs)


def arguments_chunk(head: Head, index: int, text: str, logprobs: Logprobs = None) -> Object:
    """Return a chunk with a piece of the arguments of a call."""
    call = {"index": index, "function": {"arguments": text}}
    return _chat_chunk(head, {"tool_calls": [call]}, logprobs=logprobs)


def last_chunk(
    head: Head,
    *,
    finish_reason: str,
    attestation: Mapping[str, object],
    logprobs: Logprobs = None,
) -> Object:
    """Return the chunk that says why the chat's answer ended, with its attestation."""
    chunk = _chat_chunk(head, {}, finish_reason=finish_reason, logprobs=logprobs)
    return {**chunk, "attestation": dict(attestation)}


def usage_chunk(head: Head, usage: Usage) -> Object:
    """Return the chunk behind the last of a chat, which is sent only where it is asked for."""
    return {**head.of("chat.completion.chunk"), "choices": [], "usage": usage.to_object()}


def text_completion(
    head: Head,
    *,
    text: str,
    finish_reason: str,
    logprobs: Logprobs = None,
    usage: Usage,
    attestation: Mapping[str, object],
) -> Object:
    """Return a continued text in one piece."""
    return {
        **_text(head, text, TextOffsets(), logprobs=logprobs, finish_reason=finish_reason),
        "usage": usage.to_object(),
        "attestation": dict(attestation),
    }


def _text(
    head: Head,
    text: str,
    offsets: TextOffsets,
    *,
    logprobs: Logprobs,
    finish_reason: str | None,
) -> Object:
    choice = {
        "index": 0,
        "text": text,
        "logprobs": legacy_logprobs(logprobs, offsets),
        "finish_reason": finish_reason,
    }
    return {**head.of("text_completion"), "choices": [choice]}


def text_chunk(head: Head, text: str, offsets: TextOffsets, *, logprobs: Logprobs = None) -> Object:
    """Return a piece of a continued text.

    Args:
        head: of the answer.
        text: the piece.
        offsets: one for the whole stream; it moves on by the tokens of the log-probabilities.
        logprobs: of the tokens that made the piece.
    """
    return _text(head, text, offsets, logprobs=logprobs, finish_reason=None)


def last_text_chunk(
    head: Head,
    offsets: TextOffsets,
    *,
    finish_reason: str,
    attestation: Mapping[str, object],
    logprobs: Logprobs = None,
) -> Object:
    """Return the chunk that says why a continued text ended, with its attestation."""
    chunk = _text(head, "", offsets, logprobs=logprobs, finish_reason=finish_reason)
    return {**chunk, "attestation": dict(attestation)}


def text_usage_chunk(head: Head, usage: Usage) -> Object:
    """Return the chunk behind the last of a continued text, sent only where it is asked for."""
    return {**head.of("text_completion"), "choices": [], "usage": usage.to_object()}


def embeddings(
    model: str,
    vectors: Sequence[NDArray[np.float32]],
    *,
    as_base64: bool,
    prompt_tokens: int,
    attestation: Mapping[str, object],
) -> Object:
    """Return vectors in the order of the inputs.

    Args:
        model: the served name.
        vectors: each binary32 of shape (dimension,).
        as_base64: little-endian binary32 in base64 instead of numbers.
        prompt_tokens: of all inputs.
        attestation: the announcement of it.
    """
    data = [
        {"object": "embedding", "index": index, "embedding": _vector(vector, as_base64=as_base64)}
        for index, vector in enumerate(vectors)
    ]
    return {
        "object": "list",
        "data": data,
        "model": model,
        "usage": {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens},
        "attestation": dict(attestation),
    }


def _vector(vector: NDArray[np.float32], *, as_base64: bool) -> str | list[float]:
    if as_base64:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    # Each number as binary64: what reads it gets the same binary32 back.
    return [float(number) for number in vector]


def model_object(
    name: str, *, created: int, owned_by: str, model_digest: bytes, context_length_tokens: int
) -> Object:
    """Return one model; the last two members are additions to the interface."""
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": owned_by,
        "model_digest": model_digest.hex(),
        "context_length": context_length_tokens,
    }


def models(objects: Sequence[Object]) -> Object:
    """Return the list of models."""
    return {"object": "list", "data": list(objects)}
