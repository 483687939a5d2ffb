"""Requests that the command line makes for itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from appliance.api.parse import parse_request
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH
from appliance.api.request_error import RequestError
from appliance.api.sampling import DECIMALS
from engine.sampling.parameters import millionths


def write_request(
    *,
    model: str,
    messages: Sequence[Mapping[str, object]] | None = None,
    prompt: str | None = None,
    options: Mapping[str, object],
) -> tuple[str, bytes]:
    """Return path and body of a request, as the command line makes it.

    Args:
        model: a name for the model.
        messages: as the interface has them; None for a completion.
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
        if name in DECIMALS and isinstance(value, str):
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


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
