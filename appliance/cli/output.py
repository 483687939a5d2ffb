"""What commands print: JSON lines, text that is safe for a terminal, progress.

Results go to stdout, everything else to stderr. Strings that came out of a file are untrusted: they
reach a terminal only through `printable`, so that a name in a weight file cannot move the cursor or
retitle the window.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import IO, Self

import click

_REFRESH_S = 0.1


def write_json(value: Mapping[str, object]) -> None:
    """Print one object as one line of ASCII JSON on stdout.

    Raises:
        ValueError: The object holds a number that JSON has no form for (infinity, not-a-number).
    """
    click.echo(json.dumps(value, ensure_ascii=True, allow_nan=False))


def printable(text: str) -> str:
    """Escape what is not printable in `text`: control, format, surrogate and unassigned codes."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
        for c in text
    )


def note(message: str) -> None:
    """Print one line for a person on stderr."""
    click.echo(f"windhover: {printable(message)}", err=True)


def format_bytes(size_bytes: int) -> str:
    """Render a size with three significant digits and a decimal unit, such as `98.4 MB`."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if size < 999.5 or unit == "TB":
            break
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{size:.{digits}f} {unit}"


class Progress:
    """A line on stderr that says how far long work is; silent when stderr is not a terminal.

    An instance is a callable `(done, total)` and a context manager that clears the line at the end.
    Calls in quick succession are cheap: the line is drawn at most ten times a second, and when
    `done` reaches `total`.
    """

    def __init__(
        self,
        label: str,
        *,
        unit: Callable[[int], str] = format_bytes,
        stream: IO[str] | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Name the work and choose how amounts are rendered."""
        self._label = printable(label)
        self._unit = unit
        self._stream = sys.stderr if stream is None else stream
        self._clock_s = clock_s
        self._visible = self._stream.isatty()
        self._next_draw_s = 0.0
        self._width = 0

    def __enter__(self) -> Self:
        """Start showing progress."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clear the line, whatever happened."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` units are done."""
        if not self._visible:
            return
        now_s = self._clock_s()
        if now_s < self._next_draw_s and done < total:
            return
        self._next_draw_s = now_s + _REFRESH_S
        percent = 100 * done // total if total else 100
        line = f"{self._label}  {percent:3d} %  {self._unit(done)} of {self._unit(total)}"
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = max(self._width, len(line))
