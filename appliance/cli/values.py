"""Values on the command line that several subcommands take: instants, versions, key ids."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from crypto.keys import load_public_key
from crypto.release import MAX_INTEGER, MAX_VERSION
from crypto.trust_values import format_instant, parse_instant

DAY_S: Final = 86_400

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_VERSION: Final = re.compile(r"([0-9]{1,5})\.([0-9]{1,5})\.([0-9]{1,5})", re.ASCII)

NUMBER: Final = click.IntRange(1, MAX_INTEGER)
"""Releases and sequence numbers."""


class Instant(click.ParamType[int]):
    """A date, which is its first second in UTC, or a whole instant in UTC, in seconds of Unix."""

    name = "DATE"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Parse the text."""
        if isinstance(value, int):
            return value
        text = str(value)
        try:
            return parse_instant(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)
        except ValueError:
            example = "write 2027-01-31 or 2027-01-31T12:00:00Z"
            self.fail(f"{text!r} is no date from 1970 on; {example}", param, ctx)


class Version(click.ParamType[tuple[int, int, int]]):
    """A version of three numbers."""

    name = "X.Y.Z"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int, int]:
        """Parse the text."""
        if isinstance(value, tuple):
            return value
        match = _VERSION.fullmatch(str(value))
        numbers = tuple(map(int, match.groups())) if match else ()
        if len(numbers) != 3 or max(numbers) > MAX_VERSION:
            self.fail(f"{value!r} is no version such as 1.2.3", param, ctx)
        return numbers


def parse_digest(text: str) -> bytes | None:
    """Return the 32 bytes of 64 hexadecimal digits in lower case, or None for anything else."""
    return bytes.fromhex(text) if _DIGEST.fullmatch(text) else None


def key_id_of(text: str, *, role: str | None) -> bytes:
    """Return the key id that a text is, or that of the public key in the file that it names.

    Raises:
        KeyFileError: it is neither a key id nor the path of a public key of this role.
    """
    return parse_digest(text) or load_public_key(Path(text), role=role).key_id


def show_instant(seconds: int) -> str:
    """Return an instant for people; one beyond the year 9999 stays a number of seconds."""
    try:
        return format_instant(seconds)
    except ValueError:
        return f"{seconds} seconds after 1970"


def today(now: int) -> int:
    """Return the first second of the day in UTC that `now` is in."""
    return now - now % DAY_S


def now_s() -> int:
    """Return the clock's time in seconds of Unix."""
    return int(datetime.now(UTC).timestamp())
