"""The access log: one JSON line for each request, of fields that are listed here and no others.

What was asked and answered is never in it, nor paths and headers as a client wrote them. A log that
cannot be written stops nothing; the lines that were lost are counted.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

_CLIENT_ID_CHARACTERS: Final = 64


@dataclass(slots=True, kw_only=True)
class AccessRecord:
    """What is noted of a request; whoever answers fills in what it knows.

    Attributes:
        time_ms: when it began, milliseconds since 1970-01-01 UTC.
        request_id: ours, 32 hexadecimal digits.
        route: the rule of the route, `-` where there is none.
        method: of HTTP, one that a route has, else `-`.
        status: of HTTP.
        code: of the error, if it is one.
        finish: the finish reason of an answer.
        outcome: the outcome that its statement says.
        principal: id in hexadecimal digits.
        key_id: the public part of the key.
        duration_ms: until the last byte was made.
        first_token_ms: until the first token.
        prompt_tokens: of the prompt.
        generated_tokens: of the answer.
        cached_tokens: of the prompt, found in the cache.
        attestation: id of the statement.
        client_request_id: what the client called it: bounded, escaped, for searching only.
        error: class of an exception that nobody expected, and the place in our code.
    """

    time_ms: int = 0
    request_id: str = ""
    route: str = "-"
    method: str = "-"
    status: int = 0
    code: str | None = None
    finish: str | None = None
    outcome: str | None = None
    principal: str | None = None
    key_id: str | None = None
    duration_ms: int = 0
    first_token_ms: int | None = None
    prompt_tokens: int | None = None
    generated_tokens: int | None = None
    cached_tokens: int | None = None
    attestation: str | None = None
    client_request_id: str | None = None
    error: str | None = None

    def line(self) -> bytes:
        """Return it as a line of ASCII."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        known = {name: value for name, value in values.items() if value is not None}
        return json.dumps(known, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def client_request_id(text: str | None) -> str | None:
    """Return a client's X-Request-Id as it may stand in the log."""
    if not text:
        return None
    return ascii(text[:_CLIENT_ID_CHARACTERS])[1:-1][: 4 * _CLIENT_ID_CHARACTERS]


class AccessLog:
    """Where the lines go. Any thread may call.

    Attributes:
        lost: number of lines that could not be written.
    """

    def __init__(self, path: Path | None) -> None:
        """Append to a file, which is opened with the first line; None is standard error."""
        self._path = path
        self._lock = threading.Lock()
        self._descriptor = -1
        self._is_cut = False
        self.lost = 0

    def write(self, record: AccessRecord) -> None:
        """Write a line, or count it as lost."""
        self._append(record.line())

    def event(self, name: str, **facts: str | int | float | bool | None) -> None:
        """Write a line about the service itself: start, drain, stop."""
        value = {"time_ms": time.time_ns() // 1_000_000, "event": name, **facts}
        line = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
        self._append(line)

    def _append(self, line: bytes) -> None:
        with self._lock:
            # What a full disk cut stays a line of its own.
            data = b"\n" + line if self._is_cut else line
            try:
                # One call, so that lines of several writers do not mix.
                written = os.write(self._open(), data)
            except (OSError, ValueError):
                self.lost += 1
                return
            if written:
                self._is_cut = data[written - 1] != ord("\n")
            self.lost += written != len(data)

    def reopen(self) -> None:
        """Go on in a new file of the same name, after the old one was moved away."""
        with self._lock:
            self._close()

    def close(self) -> None:
        """Close the file; a later line opens it again."""
        self.reopen()

    def _open(self) -> int:
        if self._path is None:
            return sys.stderr.fileno()
        if self._descriptor < 0:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self._path, flags, 0o640)
        return self._descriptor

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor, self._is_cut = -1, False
