"""JSON bodies of requests, read strictly: one value for one body, on every machine.

Source: RFC 8259; numbers stay text, so that none passes through a float.
"""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn, TypeAlias

from engine.errors import ConfigError

MAX_BODY_BYTES: Final = (16 << 20) - 64
"""A body fits into a bundle together with the path before it."""

MAX_DEPTH: Final = 8
MAX_VALUES: Final = 100_000

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_SHOWN: Final = 40


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


Value: TypeAlias = "bool | str | Number | list[Value] | dict[str, Value] | None"


class RequestError(ConfigError):
    """A body that is not answered; `param` names the field, None where the whole is meant."""

    def __init__(self, param: str | None, message: str) -> None:
        """Keep the field that the client has to mend."""
        super().__init__(message if param is None else f"{param}: {message}")
        self.param = param


def parse_object(body: bytes) -> dict[str, Value]:
    """Return the members of a JSON object; of numbers the text.

    Raises:
        RequestError: not JSON in UTF-8 by RFC 8259, another value than an object, a name twice,
            or more of anything than the limits allow.
    """
    if len(body) > MAX_BODY_BYTES:
        raise RequestError(None, f"the body is longer than {MAX_BODY_BYTES} bytes")
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
        raise RequestError(None, f"the body is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise RequestError(None, f"the body is not JSON at character {error.pos}") from None
    if not isinstance(value, dict):
        raise RequestError(None, "the body is no JSON object")
    _refuse_surrogates(value)
    return value


def _check_outline(outline: bytes) -> None:
    """Refuse too many values or levels before any is made, by what stands outside of strings."""
    if outline.count(b",") + outline.count(b"[") + outline.count(b"{") > MAX_VALUES:
        raise RequestError(None, f"the body has more than {MAX_VALUES} values")
    depth = 0
    for byte in outline.translate(None, _NO_BRACKETS):
        if byte in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise RequestError(None, f"the body nests more than {MAX_DEPTH} levels")
        else:
            depth -= 1


def _members(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    """Return an object's members, none of which may stand twice."""
    members: dict[str, Value] = {}
    for name, value in pairs:
        if name in members:
            raise RequestError(shown(name), "stands twice")
        members[name] = value
    return members


def _refuse_constant(text: str) -> NoReturn:
    """Refuse NaN and infinities, which Python's reader knows and JSON does not."""
    raise RequestError(None, f"{text} is no JSON")


def _refuse_surrogates(value: Value) -> None:
    """Refuse text that UTF-8 cannot carry, which escapes can write."""
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                raise RequestError(None, "a string holds half a surrogate pair") from None
    elif isinstance(value, dict):
        for name, member in value.items():
            _refuse_surrogates(name)
            _refuse_surrogates(member)
    elif isinstance(value, list):
        for element in value:
            _refuse_surrogates(element)


def shown(name: str) -> str:
    """Return the beginning of a name of the client's, as it may be shown anywhere."""
    return ascii(name[:_SHOWN])[1:-1]
