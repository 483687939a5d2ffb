"""Requests as bytes: what a body of the interface asks for.

A pure function of the bytes, so that whoever audits an answer reads its request as the appliance
did. Every field is read or refused by name; numbers never pass through a float.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, cast

from appliance.api.fields import Fields
from appliance.api.json_body import Value, is_text, parse_object
from appliance.api.limits import (
    MAX_INPUTS,
    MAX_INT32,
    MAX_KEY_CHARACTERS,
    MAX_MODEL_CHARACTERS,
)
from appliance.api.messages import read_messages
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH, Parsed
from appliance.api.request_error import RequestError, unsupported
from appliance.api.response_format import read_response_format
from appliance.api.sampling import read_sampling
from appliance.api.tools import read_tools
from appliance.api.unsupported import refuse_meaningful
from engine.errors import ConfigError
from engine.text.stop import StopMatcher


def parse_request(path: str, body: bytes) -> Parsed:
    """Return what a body asks for.

    Args:
        path: the endpoint's: `CHAT_PATH`, `COMPLETIONS_PATH` or `EMBEDDINGS_PATH`.
        body: as it was received.

    Raises:
        RequestError: another path, a body that is no JSON object or too large, a field that is
            not known, not supported, or outside its range.
    """
    if path not in (CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH):
        raise RequestError(None, "no such endpoint")
    fields = Fields(parse_object(body))
    model = fields.text("model", MAX_MODEL_CHARACTERS)
    if path == CHAT_PATH:
        parsed = _chat(fields, model)
    elif path == COMPLETIONS_PATH:
        parsed = _completion(fields, model)
    else:
        parsed = _embeddings(fields, model)
    refuse_meaningful(fields, path)
    fields.refuse_others()
    return parsed


def _chat(fields: Fields, model: str) -> Parsed:
    tools, calls = read_tools(fields)
    form = read_response_format(fields.take("response_format"))
    if form is not None and calls is not None:
        raise unsupported("response_format", "beside tools only with tool_choice none")
    return _generation(
        fields,
        Parsed(
            path=CHAT_PATH,
            model=model,
            messages=read_messages(fields.take("messages")),
            tools=tools,
            grammar=calls or form,
            prompt_cache_key=fields.optional_text("prompt_cache_key", MAX_KEY_CHARACTERS),
        ),
    )


def _completion(fields: Fields, model: str) -> Parsed:
    prompt = _one_text(fields.take("prompt"))
    return _generation(fields, Parsed(path=COMPLETIONS_PATH, model=model, prompt=prompt))


def _embeddings(fields: Fields, model: str) -> Parsed:
    value = fields.take("input")
    texts = _texts("input", [value] if isinstance(value, str) else value, MAX_INPUTS)
    form = fields.one_of("encoding_format", ("float", "base64")) or "float"
    return Parsed(
        path=EMBEDDINGS_PATH,
        model=model,
        inputs=texts,
        embedding_format=cast("Literal['float', 'base64']", form),
    )


def _generation(fields: Fields, parsed: Parsed) -> Parsed:
    """Take what chat and completion have in common."""
    is_chat = parsed.path == CHAT_PATH
    sampling = read_sampling(fields, is_chat=is_chat)
    stream = fields.boolean("stream")
    return replace(
        parsed,
        max_tokens=_max_tokens(fields, is_chat=is_chat),
        seed=sampling.seed,
        sampling=sampling.parameters,
        stops=_stops(fields.take("stop")),
        stream=stream,
        include_usage=_include_usage(fields.take("stream_options"), is_stream=stream),
    )


def _max_tokens(fields: Fields, *, is_chat: bool) -> int | None:
    """Return how long the answer may become; the chat has a newer name for it."""
    value = fields.integer("max_tokens", 1, MAX_INT32)
    if not is_chat:
        return value
    newer = fields.integer("max_completion_tokens", 1, MAX_INT32)
    if None not in (value, newer) and value != newer:
        raise RequestError("max_tokens", "contradicts max_completion_tokens")
    return newer if value is None else value


def _stops(value: Value) -> tuple[str, ...]:
    """Return the stop strings: one, several or none."""
    if value is None:
        return ()
    stops = value if isinstance(value, list) else [value]
    if not all(is_text(stop) for stop in stops):
        raise RequestError("stop", "must be a string or an array of strings")
    texts = tuple(cast("list[str]", stops))
    try:
        StopMatcher(texts)
    except ConfigError as error:
        raise RequestError("stop", str(error)) from None
    return texts


def _include_usage(value: Value, *, is_stream: bool) -> bool:
    """Return whether a stream ends with the numbers of tokens."""
    if value is None:
        return False
    if not is_stream:
        raise RequestError("stream_options", "needs stream to be true")
    fields = Fields.of(value, "stream_options")
    is_wanted = fields.boolean("include_usage")
    fields.refuse_unless("include_obfuscation", (False,))
    fields.refuse_others()
    return is_wanted


def _one_text(value: Value) -> str:
    """Return the text to continue: a string, or an array of exactly one."""
    (text,) = _texts("prompt", [value] if isinstance(value, str) else value, 1)
    return text


def _texts(name: str, value: Value, most: int) -> tuple[str, ...]:
    """Return one or several texts; token ids have a refusal of their own."""
    wanted = "a string or an array of exactly one" if most == 1 else f"1 .. {most} strings"
    if not isinstance(value, list) or not value:
        raise RequestError(name, f"must be {wanted}")
    if not any(is_text(text) for text in value):
        message = "token ids are not taken, since they are those of another tokenizer; send text"
        is_ids = all(isinstance(part, str | list) for part in value)
        raise unsupported(name, message) if is_ids else RequestError(name, f"must be {wanted}")
    if not all(is_text(text) for text in value) or len(value) > most:
        raise RequestError(name, f"must be {wanted}")
    return tuple(cast("list[str]", value))
