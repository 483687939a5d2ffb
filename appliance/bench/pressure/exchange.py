"""One request over HTTP as a client sends it that may be slow, or leave at any point."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final
from urllib.parse import urlsplit

from engine.errors import ConfigError

_TIMEOUT_S: Final = 300
_SMALL_WINDOW_BYTES: Final = 2304
_READ_BYTES: Final = 1 << 16
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Leave(Enum):
    """Where a client goes away."""

    IN_BODY = "in the middle of the body"
    AFTER_BODY = "some time after the body"
    AFTER_EVENTS = "after some events"


@dataclass(frozen=True, slots=True)
class Manner:
    """How a client behaves on the wire.

    Attributes:
        leave: where it goes away; None: it stays.
        after: seconds after the body, or number of events.
        is_abrupt: whether its connection is reset.
        send_s: over how many seconds the body is sent.
        read_s: for how many seconds it reads `read_bytes` a second; then it reads on as it can.
        read_bytes: see `read_s`.
    """

    leave: Leave | None = None
    after: float = 0
    is_abrupt: bool = False
    send_s: float = 0
    read_s: float = 0
    read_bytes: int = 16


@dataclass(slots=True)
class Got:
    """What came back.

    Attributes:
        status: of HTTP, None where none came.
        headers: names in lower case.
        body: as far as it came.
        has_left: whether the client went away as it meant to.
        failure: what happened to the connection, None where nothing did.
        first_s: seconds until the first byte of the answer; None where none came.
        seconds: in all.
    """

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    has_left: bool = False
    failure: str | None = None
    first_s: float | None = None
    seconds: float = 0.0

    @property
    def value(self) -> Any:  # noqa: ANN401  (JSON)
        """The object in the body; None where it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def code(self) -> str | None:
        """The code of an error; None where there is no error in the shape of all."""
        code = self._error.get("code")
        return code if isinstance(code, str) else None

    @property
    def message(self) -> str:
        """Code and message of an error, as far as they are there."""
        return f"{self.code}: {self._error.get('message')}"

    @property
    def _error(self) -> dict[str, Any]:
        value = self.value
        error = value.get("error") if isinstance(value, dict) else None
        return error if isinstance(error, dict) else {}

    @property
    def retry_after_s(self) -> int | None:
        """When to ask again, None where it is not said."""
        text = self.headers.get("retry-after", "")
        return int(text) if text.isdecimal() else None

    @property
    def events(self) -> list[bytes]:
        """The data of the events, comments left out."""
        lines = self.body.split(b"\n\n")
        return [line[6:] for line in lines if line.startswith(b"data: ")]


def exchange(
    url: str,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    manner: Manner = Manner(),
) -> Got:
    """Send a request and take what comes; whatever happens is in the result.

    Args:
        url: of the service.
        method: of HTTP.
        path: with the query.
        headers: besides Host and Content-Length.
        body: what is sent; None: nothing.
        manner: how.

    Raises:
        ConfigError: the URL is none of HTTP.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        raise ConfigError(f"{url} is no address such as http://127.0.0.1:8080")
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=_TIMEOUT_S)
    got = Got()
    begun = time.monotonic()
    try:
        connection.sock = _connect(parts.hostname, parts.port or 80, is_slow=manner.read_s > 0)
        if _send(connection, method, path, headers, body, manner):
            _receive(connection, got, manner, begun)
        else:
            got.has_left = True
    except (OSError, http.client.HTTPException) as error:
        got.failure = type(error).__name__
    finally:
        if got.has_left and manner.is_abrupt and connection.sock is not None:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        connection.close()
        got.seconds = time.monotonic() - begun
    return got


def _connect(host: str, port: int, *, is_slow: bool) -> socket.socket:
    """Return a connection; with a small window what is not read waits on the other side."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.settimeout(_TIMEOUT_S)
        if is_slow:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_WINDOW_BYTES)
        made.connect(address)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        made.close()
        raise
    return made


def _send(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes | None,
    manner: Manner,
) -> bool:
    """Send the request; return whether the client is still there."""
    connection.putrequest(method, path)
    for name, value in headers.items():
        connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders()
    data = b"" if body is None else body
    if manner.leave is Leave.IN_BODY:
        data = data[: len(data) // 2]
    pieces = max(1, min(len(data), round(10 * manner.send_s)))
    step = -(-len(data) // pieces) or 1
    for at in range(0, len(data), step):
        try:
            connection.send(data[at : at + step])
        except ConnectionError:
            # Refused before it was read: the answer may be there all the same.
            return True
        if manner.send_s:
            time.sleep(manner.send_s / pieces)
    if manner.leave is Leave.AFTER_BODY:
        time.sleep(manner.after)
    return manner.leave not in (Leave.IN_BODY, Leave.AFTER_BODY)


def _receive(
    connection: http.client.HTTPConnection, got: Got, manner: Manner, begun: float
) -> None:
    """Read the answer, to its end or until the client leaves."""
    response = connection.getresponse()
    got.status = response.status
    got.headers = {name.lower(): value for name, value in response.getheaders()}
    taken = bytearray()
    is_slow = manner.read_s > 0
    while data := response.read1(manner.read_bytes if is_slow else _READ_BYTES):
        if got.first_s is None:
            got.first_s = time.monotonic() - begun
        taken += data
        if manner.leave is Leave.AFTER_EVENTS and taken.count(b"\n\ndata: ") >= manner.after:
            got.has_left = True
            break
        if is_slow:
            time.sleep(1)
            is_slow = time.monotonic() - begun < manner.read_s
    got.body = bytes(taken)
    length = got.headers.get("content-length")
    if length is not None and len(taken) != int(length) and not got.has_left:
        got.failure = "IncompleteRead"
