"""What passes between a client and a server, counted on the wire."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_REQUEST: Final = re.compile(rb"(?:GET|POST) (\S+) HTTP/1\.1\r\n")


class Relay:
    """Hands every byte on in both directions, and notes requests as they arrive.

    Attributes:
        url: where clients connect.
        paths: of the requests that came.
        times_s: when they came, by a clock that only moves forward.
        on_request: called with the number of a request, from 1, before it is handed on.
    """

    def __init__(self, host: str, port: int) -> None:
        """Relay to an address from now on."""
        self._upstream = (host, port)
        self.host = f"{host}:{port}"
        self.paths: list[str] = []
        self.times_s: list[float] = []
        self.on_request: Callable[[int], None] = lambda number: None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """End every connection, and wait for the threads."""
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._upstream)
            self._open += [client, server]
            for source, target, is_request in ((client, server, True), (server, client, False)):
                thread = threading.Thread(target=self._pump, args=(source, target, is_request))
                self._threads.append(thread)
                thread.start()

    def _pump(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        seen, found = b"", 0
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if is_request:
                    seen += data
                    lines = _REQUEST.findall(seen)
                    for path in lines[found:]:
                        self.paths.append(path.decode())
                        self.times_s.append(time.monotonic())
                        self.on_request(len(self.paths))
                    found = len(lines)
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
