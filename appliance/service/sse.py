"""Events of a stream as bytes: each with data alone, and comments that keep a connection.

Source: WHATWG HTML, section 9.2, Server-sent events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from appliance.api.answers import to_json

CONTENT_TYPE: Final = "text/event-stream; charset=utf-8"
PING: Final = b": ping\n\n"
"""A comment, which clients ignore."""

DONE: Final = b"data: [DONE]\n\n"
"""The last event of a whole answer."""


def event(value: Mapping[str, object]) -> bytes:
    """Return an event with an object; its JSON has no line breaks."""
    return b"data: " + to_json(value) + b"\n\n"
