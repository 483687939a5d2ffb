"""The clock of a template: the admission time, written in English and UTC on every machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from engine.errors import TemplateError

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# Directives of C's strftime whose result depends on nothing but the time.
_DIRECTIVES: Final[dict[str, Callable[[datetime], str]]] = {
    "Y": lambda t: f"{t.year:04}",
    "y": lambda t: f"{t.year % 100:02}",
    "m": lambda t: f"{t.month:02}",
    "-m": lambda t: str(t.month),
    "B": lambda t: _MONTHS[t.month - 1],
    "b": lambda t: _MONTHS[t.month - 1][:3],
    "d": lambda t: f"{t.day:02}",
    "-d": lambda t: str(t.day),
    "e": lambda t: f"{t.day:2}",
    "j": lambda t: f"{t.timetuple().tm_yday:03}",
    "A": lambda t: _DAYS[t.weekday()],
    "a": lambda t: _DAYS[t.weekday()][:3],
    "H": lambda t: f"{t.hour:02}",
    "I": lambda t: f"{(t.hour - 1) % 12 + 1:02}",
    "-I": lambda t: str((t.hour - 1) % 12 + 1),
    "p": lambda t: "AM" if t.hour < 12 else "PM",
    "M": lambda t: f"{t.minute:02}",
    "S": lambda t: f"{t.second:02}",
    "F": lambda t: f"{t.year:04}-{t.month:02}-{t.day:02}",
    "T": lambda t: f"{t.hour:02}:{t.minute:02}:{t.second:02}",
    "Z": lambda _: "UTC",
    "z": lambda _: "+0000",
    "%": lambda _: "%",
}
_DIRECTIVE: Final = re.compile(r"%(-?[A-Za-z%]|$)?")
_MAX_FORMAT: Final = 200


def format_time(unix_s: int, pattern: str) -> str:
    """Write a time in UTC by a strftime format, without a locale and without the C library.

    Raises:
        TemplateError: a directive that is not supported, a format of more than 200 characters, or a
            time outside the years 1970 to 9999.
    """
    if len(pattern) > _MAX_FORMAT or not 0 <= unix_s < 253_402_300_800:
        raise TemplateError("strftime_now: the format is too long or the time out of range")
    time = datetime.fromtimestamp(unix_s, UTC)

    def directive(match: re.Match[str]) -> str:
        write = _DIRECTIVES.get(match.group(1) or "")
        if write is None:
            raise TemplateError(f"strftime_now: {match.group()!r} is not supported")
        return write(time)

    return _DIRECTIVE.sub(directive, pattern)
