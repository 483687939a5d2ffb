"""The members of a JSON object, each read once: what nobody reads is refused by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from appliance.api.json_body import Number, Value, is_text, shown
from appliance.api.request_error import RequestError, unsupported
from engine.errors import ConfigError
from engine.sampling.parameters import millionths

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,19})")


class Fields:
    """The members of an object that is still to be read. Null is as good as absent."""

    def __init__(self, members: dict[str, Value], place: str = "") -> None:
        """Start with all members.

        Args:
            members: of the object; those that are read are taken out of it.
            place: the path of the object in the body, empty for the body itself.
        """
        self._left = members
        self._place = place

    @classmethod
    def of(cls, value: Value, place: str) -> Fields:
        """Read a value that must be an object (RequestError)."""
        if not isinstance(value, dict):
            raise RequestError(place, "must be an object")
        return cls(dict(value), place)

    def path(self, name: str) -> str:
        """Return the path of a member."""
        return f"{self._place}.{name}" if self._place else name

    def take(self, name: str) -> Value:
        """Return a member that is used from now on; None where it is absent or null."""
        return self._left.pop(name, None)

    def refuse_others(self) -> None:
        """Refuse what nobody took; of several the first is named, and all are listed."""
        names = [self.path(shown(name)) for name in self._left]
        if names:
            rest = f" (also: {', '.join(names[1:4])})" if len(names) > 1 else ""
            raise unsupported(names[0], f"this field is not known or not supported{rest}")

    def refuse_unless(self, name: str, neutral: Sequence[Value]) -> None:
        """Take a member that is not supported; absent, null and neutral values pass."""
        value = self.take(name)
        if value is not None and not any(_equal(value, one) for one in neutral):
            raise unsupported(self.path(name))

    def text(self, name: str, most: int) -> str:
        """Return a text that must be there (RequestError)."""
        value = self.optional_text(name, most)
        if value is None:
            raise RequestError(self.path(name), "must be a string")
        return value

    def optional_text(self, name: str, most: int) -> str | None:
        """Return a text of at most so many characters, None where it is absent (RequestError)."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, str) or isinstance(value, Number):
            raise RequestError(self.path(name), "must be a string")
        if len(value) > most:
            raise RequestError(self.path(name), f"longer than {most} characters")
        return value

    def one_of(self, name: str, names: Sequence[str]) -> str | None:
        """Return one of the names, None where it is absent (RequestError)."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, str) or not is_text(value) or value not in names:
            raise RequestError(self.path(name), f"must be one of {', '.join(names)}")
        return value

    def boolean(self, name: str, *, default: bool = False) -> bool:
        """Return true or false, the default where it is absent (RequestError)."""
        value = self.take(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise RequestError(self.path(name), "must be true or false")
        return value

    def integer(self, name: str, least: int, most: int) -> int | None:
        """Return a whole number, None where it is absent (RequestError)."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, Number) or _INTEGER.fullmatch(value) is None:
            raise RequestError(self.path(name), "must be a whole number")
        number = int(value)
        if not least <= number <= most:
            raise RequestError(self.path(name), f"must be {least} .. {most}")
        return number


def read_millionths(place: str, value: Value, least: int, most: int) -> int:
    """Return a number of the body in millionths, half to even.

    Raises:
        RequestError: it is no number, or outside its range.
    """
    if not isinstance(value, Number):
        raise RequestError(place, "must be a number")
    try:
        number = millionths(value)
    except ConfigError as error:
        raise RequestError(place, str(error)) from None
    if not least <= number <= most:
        raise RequestError(place, f"must be {least / 1_000_000:g} .. {most / 1_000_000:g}")
    return number


def _equal(value: Value, other: Value) -> bool:
    """Compare without taking true for 1, or a number for its text."""
    return type(value) is type(other) and value == other
