"""Requests as bytes: what a body of the interface asks for, and the prompt ids that follow from it.

A pure function of the bytes, so that whoever audits an answer reads its request as the appliance
did. Every field is read or refused by name; numbers never pass through a float.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from appliance.json_body import MAX_BODY_BYTES, Number, RequestError, Value, parse_object, shown
from engine.errors import ConfigError
from engine.sampling.parameters import MAX_LOGIT_BIASES, ONE, SamplingParameters, millionths
from engine.text.stop import StopMatcher

if TYPE_CHECKING:
    from engine.model import Model

CHAT_PATH: Final = "/v1/chat/completions"
COMPLETIONS_PATH: Final = "/v1/completions"
MAX_MESSAGES: Final = 10_000
MAX_MODEL_CHARACTERS: Final = 200
ROLES: Final = ("system", "developer", "user", "assistant")

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,19})")
_TOKEN_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_MAX_SEED: Final = (1 << 64) - 1
_MAX_INT32: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a request asks for.

    Attributes:
        path: the endpoint's path.
        model: the name that the client gave to the model.
        messages: role and content of each, of a chat; empty for a completion.
        prompt: the text to continue, of a completion; None for a chat.
        max_tokens: at least 1; None leaves it to the appliance.
        seed: 0 .. 2^64 - 1; None leaves it to nonce or appliance.
        sampling: how tokens are chosen; its seed is 0 where the client gave none.
        stops: strings that end the answer.
        stream: whether the answer is wanted piece by piece.
    """

    path: str
    model: str
    messages: tuple[Mapping[str, str], ...]
    prompt: str | None
    max_tokens: int | None
    seed: int | None
    sampling: SamplingParameters
    stops: tuple[str, ...]
    stream: bool

    def parameters(self, max_tokens: int) -> dict[str, int]:
        """Return the numbers that a statement states; the rest is in the request's bytes.

        Args:
            max_tokens: what holds for this answer, also where the client left it open.
        """
        sampling = self.sampling
        return {
            "max_tokens": max_tokens,
            "temperature_millionths": sampling.temperature_millionths,
            "top_k": sampling.top_k,
            "top_p_millionths": sampling.top_p_millionths,
            "min_p_millionths": sampling.min_p_millionths,
            "repetition_penalty_millionths": sampling.repetition_penalty_millionths,
            "presence_penalty_millionths": sampling.presence_penalty_millionths,
            "frequency_penalty_millionths": sampling.frequency_penalty_millionths,
            "logit_biases": len(sampling.logit_bias_millionths),
            "stops": len(self.stops),
        }


def parse_request(path: str, body: bytes) -> Parsed:
    """Return what a body asks for.

    Args:
        path: the endpoint's, `CHAT_PATH` or `COMPLETIONS_PATH`.
        body: as it was received.

    Raises:
        RequestError: another path, a body that is no JSON object or too large, a field that is
            not known, not supported, or outside its range.
        ConfigError: a sampling parameter is outside its range.
    """
    if path not in (CHAT_PATH, COMPLETIONS_PATH):
        raise RequestError(None, "no such endpoint")
    fields = _Fields(parse_object(body))
    messages: tuple[Mapping[str, str], ...] = ()
    prompt = None
    model = fields.text("model", MAX_MODEL_CHARACTERS)
    if path == CHAT_PATH:
        messages = _messages(fields.take("messages"))
    else:
        prompt = fields.text("prompt", MAX_BODY_BYTES)
    seed = fields.integer("seed", 0, _MAX_SEED)
    sampling = SamplingParameters(
        seed=seed or 0,
        temperature_millionths=fields.millionths("temperature", ONE),
        top_k=fields.integer("top_k", 0, _MAX_INT32) or 0,
        top_p_millionths=fields.millionths("top_p", ONE),
        min_p_millionths=fields.millionths("min_p", 0),
        repetition_penalty_millionths=fields.millionths("repetition_penalty", ONE),
        presence_penalty_millionths=fields.millionths("presence_penalty", 0),
        frequency_penalty_millionths=fields.millionths("frequency_penalty", 0),
        logit_bias_millionths=_logit_bias(fields.take("logit_bias")),
    )
    parsed = Parsed(
        path=path,
        model=model,
        messages=messages,
        prompt=prompt,
        max_tokens=_max_tokens(fields, path),
        seed=seed,
        sampling=sampling,
        stops=_stops(fields.take("stop")),
        stream=fields.boolean("stream"),
    )
    if fields.integer("n", 1, _MAX_INT32) not in (None, 1):
        raise RequestError("n", "only one answer at a time")
    fields.refuse_others()
    return parsed


def write_request(
    *,
    model: str,
    messages: Sequence[Mapping[str, str]] | None = None,
    prompt: str | None = None,
    options: Mapping[str, str | Sequence[str] | int | None],
) -> tuple[str, bytes]:
    """Return path and body of a request, as the command line makes it.

    Args:
        model: a name for the model.
        messages: role and content of each; None for a completion.
        prompt: the text to continue, if there are no messages.
        options: fields by name; None leaves one out. Decimal numbers come as text and are written
            as they are.

    Raises:
        RequestError, ConfigError: the body that results is none that `parse_request` takes.
    """
    head: dict[str, object] = {"model": model}
    if messages is None:
        path, head["prompt"] = COMPLETIONS_PATH, prompt
    else:
        path, head["messages"] = CHAT_PATH, list(messages)
    parts = [f"{_dump(name)}:{_dump(value)}" for name, value in head.items()]
    for name, value in options.items():
        if name in _DECIMALS and isinstance(value, str):
            millionths(value)  # what is no number would become something else in the body
            parts.append(f"{_dump(name)}:{value}")
        elif value is not None:
            parts.append(f"{_dump(name)}:{_dump(value)}")
    try:
        body = ("{" + ",".join(parts) + "}").encode("utf-8")
    except UnicodeEncodeError:
        raise RequestError(None, "the text holds half a surrogate pair") from None
    parse_request(path, body)
    return path, body


def prompt_ids(model: Model, parsed: Parsed, *, now_unix_s: int) -> tuple[int, ...]:
    """Return the prompt ids of a request.

    Args:
        model: whose tokenizer and template are used.
        parsed: the request.
        now_unix_s: the admission time in seconds, the only clock that a template sees.

    Raises:
        TemplateError: the model has no chat template, or it refuses the messages.
    """
    if parsed.prompt is not None:
        return tuple(model.tokenizer.encode_raw(parsed.prompt))
    messages = [dict(message) for message in parsed.messages]
    return tuple(model.chat_ids(messages, now_unix_s=now_unix_s))


_DECIMALS: Final = frozenset(
    {
        "temperature",
        "top_p",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
    }
)


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class _Fields:
    """The members of a body, each taken once."""

    def __init__(self, members: dict[str, Value]) -> None:
        self._left = members

    def take(self, name: str) -> Value:
        """Return a field that is used from now on; None where it is absent or null."""
        return self._left.pop(name, None)

    def refuse_others(self) -> None:
        """Refuse what nobody took."""
        for name in self._left:
            raise RequestError(shown(name), "this field is not known or not supported")

    def text(self, name: str, most: int) -> str:
        """Return a text that must be there."""
        value = self.take(name)
        if not isinstance(value, str) or isinstance(value, Number):
            raise RequestError(name, "must be a string")
        if len(value) > most:
            raise RequestError(name, f"longer than {most} characters")
        return value

    def boolean(self, name: str) -> bool:
        """Return true or false, false where it is absent."""
        value = self.take(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise RequestError(name, "must be true or false")
        return value

    def integer(self, name: str, least: int, most: int) -> int | None:
        """Return a whole number, None where it is absent."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, Number) or _INTEGER.fullmatch(value) is None:
            raise RequestError(name, "must be a whole number")
        number = int(value)
        if not least <= number <= most:
            raise RequestError(name, f"must be {least} .. {most}")
        return number

    def millionths(self, name: str, default: int) -> int:
        """Return a decimal number in millionths."""
        return _millionths(name, self.take(name), default)


def _millionths(name: str, value: Value, default: int) -> int:
    """Round the text of a number."""
    if value is None:
        return default
    if not isinstance(value, Number):
        raise RequestError(name, "must be a number")
    try:
        return millionths(value)
    except ConfigError as error:
        raise RequestError(name, str(error)) from None


def _max_tokens(fields: _Fields, path: str) -> int | None:
    """Return how long the answer may become; the chat has a newer name for it."""
    value = fields.integer("max_tokens", 1, _MAX_INT32)
    if path != CHAT_PATH:
        return value
    newer = fields.integer("max_completion_tokens", 1, _MAX_INT32)
    if value is not None and newer is not None:
        raise RequestError("max_tokens", "stands beside max_completion_tokens")
    return newer if value is None else value


def _messages(value: Value) -> tuple[Mapping[str, str], ...]:
    """Return role and content of each message."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_MESSAGES:
        raise RequestError("messages", f"must be an array of 1 .. {MAX_MESSAGES} messages")
    messages = []
    for index, message in enumerate(value):
        place = f"messages[{index}]"
        if not isinstance(message, dict) or message.keys() != {"role", "content"}:
            raise RequestError(place, "must have role and content, and nothing else")
        role, content = message["role"], message["content"]
        if not isinstance(role, str) or role not in ROLES:
            raise RequestError(f"{place}.role", f"must be one of {', '.join(ROLES)}")
        if not isinstance(content, str) or isinstance(content, Number):
            raise RequestError(f"{place}.content", "must be a string")
        messages.append({"role": role, "content": content})
    return tuple(messages)


def _stops(value: Value) -> tuple[str, ...]:
    """Return the stop strings: one, several or none."""
    if value is None:
        return ()
    stops = value if isinstance(value, list) else [value]
    if not all(isinstance(stop, str) and not isinstance(stop, Number) for stop in stops):
        raise RequestError("stop", "must be a string or an array of strings")
    texts = tuple(cast("list[str]", stops))
    try:
        StopMatcher(texts)
    except ConfigError as error:
        raise RequestError("stop", str(error)) from None
    return texts


def _logit_bias(value: Value) -> tuple[tuple[int, int], ...]:
    """Return pairs of id and bias in millionths, by ascending ids."""
    if value is None:
        return ()
    if not isinstance(value, dict) or len(value) > MAX_LOGIT_BIASES:
        message = f"must be an object of at most {MAX_LOGIT_BIASES} members"
        raise RequestError("logit_bias", message)
    biases = []
    for name, bias in value.items():
        if _TOKEN_ID.fullmatch(name) is None or bias is None:
            raise RequestError("logit_bias", "must give a number for each token id")
        biases.append((int(name), _millionths("logit_bias", bias, 0)))
    return tuple(sorted(biases))
