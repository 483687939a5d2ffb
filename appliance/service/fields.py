"""What a field of the configuration takes: its rule reads it, and says in words what to write."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from appliance.cli.output import printable

_SHOWN: Final = 60
_NEEDED: Final = object()
_SOURCE: Final = re.compile(r"credential:[A-Za-z0-9._-]{1,64}")


class FieldError(ValueError):
    """A value that a field does not take; the text says what to write instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(ABC):
    """What every field has.

    Attributes:
        text: what it is for, as sentences.
        example: what can be written, where there is no default.
    """

    text: str
    example: str = ""

    @abstractmethod
    def read(self, value: object, folder: Path) -> Any:  # noqa: ANN401  (each rule has its type)
        """Return the value of the field; paths in it are relative to `folder`.

        Raises:
            FieldError: the field does not take it.
        """

    @abstractmethod
    def takes(self) -> str:
        """Return in words what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Rule):
    """true or false."""

    def read(self, value: object, folder: Path) -> bool:
        """Return it."""
        if not isinstance(value, bool):
            raise FieldError(f"write {self.takes()}, not {shown(value)}")
        return value

    def takes(self) -> str:
        """Say it."""
        return "true or false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Rule):
    """A whole number within bounds; `unit` is for people."""

    least: int
    most: int
    unit: str = ""

    def read(self, value: object, folder: Path) -> int:
        """Return it."""
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or not self.least <= int(str(value)) <= self.most:
            raise FieldError(f"write {self.takes()}, not {shown(value)}")
        return int(str(value))

    def takes(self) -> str:
        """Say it."""
        unit = f" ({self.unit})" if self.unit else ""
        return f"a whole number from {self.least} to {self.most}{unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Rule):
    """A string that matches a pattern, which `like` puts into words."""

    pattern: str = r"[^\x00-\x1f\x7f]{1,200}"
    like: str = "a string of 1 to 200 characters"

    def read(self, value: object, folder: Path) -> str:
        """Return it."""
        if not isinstance(value, str) or re.fullmatch(self.pattern, value) is None:
            raise FieldError(f"write {self.takes()}, not {shown(value)}")
        return value

    def takes(self) -> str:
        """Say it."""
        return self.like


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Rule):
    """One of some words."""

    words: tuple[str, ...]

    def read(self, value: object, folder: Path) -> str:
        """Return it."""
        if value not in self.words or not isinstance(value, str):
            raise FieldError(f"write {self.takes()}, not {shown(value)}")
        return value

    def takes(self) -> str:
        """Say it."""
        return " or ".join(f'"{word}"' for word in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Rule):
    """The path of a file or folder."""

    def read(self, value: object, folder: Path) -> Path:
        """Return it, joined to the folder of the configuration."""
        if not isinstance(value, str) or not value or "\0" in value:
            raise FieldError(f"write {self.takes()}, not {shown(value)}")
        return folder / value

    def takes(self) -> str:
        """Say it."""
        return "a path as a string; a relative one begins at the folder of this file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret(Rule):
    """Where a passphrase is."""

    def read(self, value: object, folder: Path) -> str:
        """Return a source as `crypto.secret.read_secret` takes it."""
        if not isinstance(value, str) or value in ("", "-") or "\0" in value:
            raise FieldError(f"write {self.takes()}, not {shown(value)}")
        if value.startswith("credential:"):
            if _SOURCE.fullmatch(value) is None:
                raise FieldError(f"write {self.takes()}, not {shown(value)}")
            return value
        return str(folder / value)

    def takes(self) -> str:
        """Say it."""
        return 'the path of a file for its owner alone, or "credential:NAME" of systemd'


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts(Rule):
    """An array of strings that match a pattern."""

    pattern: str
    like: str
    most: int = 32

    def read(self, value: object, folder: Path) -> tuple[str, ...]:
        """Return them."""
        if not isinstance(value, list) or len(value) > self.most:
            raise FieldError(f"write {self.takes()}, not {shown(value)}")
        for element in value:
            if not isinstance(element, str) or re.fullmatch(self.pattern, element) is None:
                raise FieldError(f"write {self.takes()}, not {shown(element)}")
        return tuple(value)

    def takes(self) -> str:
        """Say it."""
        return f"an array of at most {self.most} strings, each {self.like}"


def setting(rule: Rule, default: object = _NEEDED) -> Any:  # noqa: ANN401  (a field of any type)
    """Return a field of a section; without a default it has to be written."""
    metadata = {"rule": rule}
    if default is _NEEDED:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


def shown(value: object) -> str:
    """Return the beginning of what somebody wrote, as it may be printed anywhere."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    text = printable(text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def words_of(names: Sequence[str]) -> str:
    """Return names as an enumeration."""
    return ", ".join(names)
