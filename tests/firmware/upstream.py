"""A stand-in for the service: it keeps what arrives on its socket, and answers as a test says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class Arrived:
    """A request as the service gets it. headers: names in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Upstream:
    """What arrived, and what is answered: by default an empty object."""

    requests: list[Arrived] = field(default_factory=list)
    answer: Callable[[socket.socket], None] = lambda connection: connection.sendall(OK)


@contextmanager
def standing_in(path: Path) -> Iterator[Upstream]:
    """Listen on a unix socket until the end."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o666)
    listener.listen()
    upstream = Upstream()
    thread = threading.Thread(target=_accept, args=(listener, upstream), daemon=True)
    thread.start()
    try:
        yield upstream
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)
        path.unlink(missing_ok=True)


def _accept(listener: socket.socket, upstream: Upstream) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(connection, upstream), daemon=True).start()


def _serve(connection: socket.socket, upstream: Upstream) -> None:
    with connection, connection.makefile("rb") as stream, suppress(OSError):
        while line := stream.readline():
            headers = {}
            while (text := stream.readline()) not in (b"\r\n", b""):
                name, _, value = text.decode("latin-1").partition(":")
                headers[name.lower()] = value.strip()
            body = stream.read(int(headers.get("content-length", 0)))
            upstream.requests.append(Arrived(line.decode("latin-1").strip(), headers, body))
            upstream.answer(connection)
