"""JSON bodies of requests, read strictly: one value for one body, on every machine.

Source: RFC 8259; numbers stay text, so that none passes through a float.
"""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn, TypeAlias

from appliance.api.request_error import INVALID_JSON, TOO_LARGE, RequestError

MAX_BODY_BYTES: Final = (16 << 20) - 64
"""A body fits into a bundle together with the path before it."""

MAX_DEPTH: Final = 32
MAX_VALUES: Final = 100_000

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_SHOWN: Final = 40


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


Value: TypeAlias = "bool | str | Number | list[Value] | dict[str, Value] | None"


def parse_object(body: bytes) -> dict[str, Value]:
    """Return the members of a JSON object; of numbers the text.

    Raises:
        RequestError: not JSON in UTF-8 by RFC 8259, another value than an object, a name twice,
            or more of anything than the limits allow.
    """
    if len(body) > MAX_BODY_BYTES:
        message = f"the body is longer than {MAX_BODY_BYTES} bytes"
        raise RequestError(None, message, code=TOO_LARGE)
    _check_outline(_STRING.sub(b"", body))
    try:
        value: Value = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_members,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise _not_json(f"the body is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise _not_json(f"the body is not JSON at character {error.pos}") from None
    if not isinstance(value, dict):
        raise _not_json("the body is no JSON object")
    if b"\\u" in body:  # UTF-8 cannot carry half a pair: only an escape can
        _refuse_surrogates(value, "")
    return value


def is_text(value: Value) -> bool:
    """Return whether a value is a string."""
    return isinstance(value, str) and not isinstance(value, Number)


def write_value(value: Value, *, is_spaced: bool = False) -> str:
    """Return the JSON of a value: members in their order, numbers as they were written.

    Args:
        value: as `parse_object` gives it.
        is_spaced: whether a space follows each comma and colon, as text for a model has it.
    """
    comma, colon = (", ", ": ") if is_spaced else (",", ":")
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        members = (
            f"{write_value(name)}{colon}{write_value(member, is_spaced=is_spaced)}"
            for name, member in value.items()
        )
        return "{" + comma.join(members) + "}"
    if isinstance(value, list):
        return "[" + comma.join(write_value(part, is_spaced=is_spaced) for part in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def shown(name: str) -> str:
    """Return the beginning of a name of the client's, as it may be shown anywhere."""
    return ascii(name[:_SHOWN])[1:-1]


def _not_json(message: str) -> RequestError:
    return RequestError(None, message, code=INVALID_JSON)


def _check_outline(outline: bytes) -> None:
    """Refuse too many values or levels before any is made, by what stands outside of strings."""
    if outline.count(b",") + outline.count(b"[") + outline.count(b"{") > MAX_VALUES:
        raise _not_json(f"the body has more than {MAX_VALUES} values")
    depth = 0
    for byte in outline.translate(None, _NO_BRACKETS):
        if byte in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise _not_json(f"the body nests more than {MAX_DEPTH} levels")
        else:
            depth -= 1


def _members(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    """Return an object's members, none of which may stand twice."""
    members: dict[str, Value] = {}
    for name, value in pairs:
        if name in members:
            raise RequestError(shown(name), "stands twice", code=INVALID_JSON)
        members[name] = value
    return members


def _refuse_constant(text: str) -> NoReturn:
    """Refuse NaN and infinities, which Python's reader knows and JSON does not."""
    raise _not_json(f"{text} is no JSON")


def _refuse_surrogates(value: Value, path: str) -> None:
    """Refuse text that UTF-8 cannot carry, which escapes can write."""
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                message = f"half a surrogate pair at character {error.start}"
                raise RequestError(path or None, message, code=INVALID_JSON) from None
    elif isinstance(value, dict):
        for name, member in value.items():
            place = f"{path}.{shown(name)}" if path else shown(name)
            _refuse_surrogates(name, place)
            _refuse_surrogates(member, place)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            _refuse_surrogates(element, f"{path}[{index}]")
