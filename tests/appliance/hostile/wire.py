"""Bytes of requests, and a strict reader of whatever comes back for them."""

from __future__ import annotations

import json
import re
import selectors
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BODY = b'{"model":"model","prompt":"Why","max_tokens":1}'
ROOMY = BODY.replace(b"Why", b"Why does the sky look blue, and not violet? " * 3)
"""Of which a byte may change without harm, so that some changed requests are answered."""
QUIET_S = 1.0
"""When nothing comes for so long, those without an answer are taken to wait for more."""
GRACE_S = 0.3
"""So much longer when each has an answer, for a second one that is not wanted."""
MOST_S = 20.0
"""Longer than every limit of the service under test: whoever waits for it has met a hang."""

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9]) [ -~]+")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([\t -~\x80-\xff]*)")


@dataclass
class Answer:
    """One answer of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    def error(self) -> dict[str, Any]:
        """Return the error, whose shape is checked."""
        value = json.loads(self.body)
        assert value.keys() == {"error"}, value
        error: dict[str, Any] = value["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert self.headers["content-type"] == "application/json"
        assert self.headers["x-content-type-options"] == "nosniff"
        assert "server" not in self.headers
        return error


def read_answers(data: bytes) -> list[Answer]:
    """Return the answers that the bytes consist of, and of nothing else."""
    found = []
    while data:
        head, end, data = data.partition(b"\r\n\r\n")
        assert end, head
        line, *lines = head.split(b"\r\n")
        match = _STATUS.fullmatch(line)
        assert match, line
        headers: dict[str, str] = {}
        for each in lines:
            pair = _HEADER.fullmatch(each)
            assert pair, each
            name = pair[1].decode().lower()
            assert name not in headers or name == "vary", each
            headers[name] = pair[2].decode("latin-1")
        status = int(match[1])
        if status == 100:
            continue
        if headers.get("transfer-encoding") == "chunked":
            body, data = _chunks(data)
        else:
            length = int(headers["content-length"])
            body, data = data[:length], data[length:]
            assert len(body) == length
        found.append(Answer(status, headers, body))
    return found


def _chunks(data: bytes) -> tuple[bytes, bytes]:
    body = b""
    while True:
        size, end, data = data.partition(b"\r\n")
        assert end, size
        length = int(size, 16)
        piece, mark, data = data[:length], data[length : length + 2], data[length + 2 :]
        assert mark == b"\r\n"
        if not length:
            return body, data
        body += piece


@dataclass
class Outcome:
    """What became of a connection.

    Attributes:
        data: what the server sent.
        is_closed: whether it closed the connection by itself.
    """

    data: bytes = b""
    is_closed: bool = False
    answers: list[Answer] = field(default_factory=list)

    @property
    def kind(self) -> int | str:
        """The first status, or `closed`, or `waits`."""
        if self.answers:
            return self.answers[0].status
        return "closed" if self.is_closed else "waits"


def exchange(
    connect: Callable[[], socket.socket], requests: Sequence[bytes], *, quiet_s: float = QUIET_S
) -> list[Outcome]:
    """Send each request on a connection of its own, all at once; return what became of them.

    Whoever waits for more is told that nothing more comes, and has to close within `MOST_S`.
    """
    outcomes = [Outcome() for _ in requests]
    waiting = selectors.DefaultSelector()
    for request, outcome in zip(requests, outcomes, strict=True):
        connection = connect()
        with suppress(OSError):  # closed over what came first; the answer may be there all the same
            connection.sendall(request)
        connection.setblocking(False)
        waiting.register(connection, selectors.EVENT_READ, outcome)
    _listen(waiting, quiet_s)
    for key in list(waiting.get_map().values()):
        connection = key.fileobj
        assert isinstance(connection, socket.socket)
        if not key.data.data:
            _give_up(connection, key.data)
        connection.close()
    for outcome in outcomes:
        outcome.answers = read_answers(outcome.data)
    return outcomes


def _listen(waiting: selectors.BaseSelector, quiet_s: float) -> None:
    """Take what comes until nothing does for a while."""
    last = time.monotonic()
    while waiting.get_map() and time.monotonic() < last + quiet_s:
        found = waiting.select(GRACE_S)
        if not found and all(_is_whole(key.data.data) for key in waiting.get_map().values()):
            return
        for key, _ in found:
            last = time.monotonic()
            _take(waiting, key)


def _is_whole(data: bytes) -> bool:
    try:
        return bool(read_answers(data))
    except AssertionError:
        return False


def _take(waiting: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    connection = key.fileobj
    assert isinstance(connection, socket.socket)
    try:
        piece = connection.recv(1 << 16)
    except ConnectionError:
        piece = b""
    key.data.data += piece
    if not piece:
        key.data.is_closed = True
        waiting.unregister(connection)
        connection.close()


def _give_up(connection: socket.socket, outcome: Outcome) -> None:
    """Say that nothing more comes; whatever is sent before the close still counts."""
    connection.settimeout(MOST_S)
    with suppress(ConnectionError):
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(1 << 16):
            outcome.data += piece


def reset(connection: socket.socket) -> None:
    """Close a connection so that the other side gets an RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@dataclass(frozen=True)
class Site:
    """Whom requests are for: the value of Host, a key, and an address that takes a body."""

    host: str
    key: str
    path: str

    @property
    def always(self) -> bytes:
        """Host and key."""
        return f"Host: {self.host}\r\nAuthorization: Bearer {self.key}\r\n".encode()

    @property
    def address(self) -> bytes:
        """The whole address of /health."""
        return f"http://{self.host}/health".encode()

    def post(self, headers: bytes = b"", body: bytes = BODY, *, version: str = "1.1") -> bytes:
        """Return a request with a body, whose length only the headers say."""
        line = f"POST {self.path} HTTP/{version}\r\n".encode()
        return line + self.always + b"Content-Type: application/json\r\n" + headers + b"\r\n" + body

    def get(self, line: bytes = b"GET /health HTTP/1.1", headers: bytes = b"") -> bytes:
        """Return a request without a body."""
        return line + b"\r\n" + self.always + headers + b"\r\n"

    def roomy(self) -> bytes:
        """Return a request that bears a change at most of its places."""
        return self.post(
            b"User-Agent: %b\r\nContent-Length: %d\r\n" % (b"a client " * 20, len(ROOMY)), ROOMY
        )

    def valid(self, body: bytes = BODY) -> bytes:
        """Return a request that is answered."""
        return self.post(b"Content-Length: %d\r\n" % len(body), body)
