"""Typed, bounded access to the key-value settings of a source (GGUF metadata, config.json).

Integers are `int`, other numbers `Decimal`; a `null` counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from engine.errors import ConversionError


class Settings:
    """A mapping of untrusted values with accessors that check type and range."""

    def __init__(self, values: Mapping[str, object], source: str) -> None:
        """Wrap `values`; `source` names where they come from in messages."""
        self._values = values
        self._source = source

    def __contains__(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self._values.get(key) is not None

    def has(self, key: str) -> bool:
        """Whether the key is there, even with a null."""
        return key in self._values

    def keys(self) -> list[str]:
        """Return the names of all settings that are not null."""
        return [key for key, value in self._values.items() if value is not None]

    def raw(self, key: str) -> object:
        """Return a value as it is, None when absent."""
        return self._values.get(key)

    def fail(self, key: str, problem: str) -> ConversionError:
        """Make the error that says what is wrong with a setting."""
        return ConversionError(f"{self._source}: {key} {problem}")

    def integer(self, key: str, low: int, high: int) -> int:
        """Return an integer in [low, high].

        Raises:
            ConversionError: It is absent, of another type or out of range.
        """
        value = self.optional_integer(key, low, high)
        if value is None:
            raise self.fail(key, "is missing")
        return value

    def optional_integer(self, key: str, low: int, high: int) -> int | None:
        """Return an integer in [low, high], None when absent.

        Raises:
            ConversionError: It is of another type or out of range.
        """
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fail(key, "is not an integer")
        if not low <= value <= high:
            raise self.fail(key, f"is {_short(value)}, outside {low} .. {high}")
        return value

    def optional_number(self, key: str) -> Decimal | None:
        """Return a finite number exactly, None when absent.

        Raises:
            ConversionError: It is of another type or not finite.
        """
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise self.fail(key, "is not a number")
        if isinstance(value, Decimal) and not value.is_finite():
            raise self.fail(key, "is not finite")
        return Decimal(value)

    def number(self, key: str) -> Decimal:
        """Return a finite number exactly.

        Raises:
            ConversionError: It is absent, of another type or not finite.
        """
        value = self.optional_number(key)
        if value is None:
            raise self.fail(key, "is missing")
        return value

    def optional_boolean(self, key: str) -> bool | None:
        """Return a boolean, None when absent.

        Raises:
            ConversionError: It is of another type.
        """
        value = self._values.get(key)
        if value is None or isinstance(value, bool):
            return value
        raise self.fail(key, "is not a boolean")

    def optional_text(self, key: str) -> str | None:
        """Return a string, None when absent.

        Raises:
            ConversionError: It is of another type.
        """
        value = self._values.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.fail(key, "is not a string")

    def text(self, key: str) -> str:
        """Return a string.

        Raises:
            ConversionError: It is absent or of another type.
        """
        value = self.optional_text(key)
        if value is None:
            raise self.fail(key, "is missing")
        return value


def _short(value: int) -> str:
    return str(value) if abs(value) < 10**20 else "a huge number"
