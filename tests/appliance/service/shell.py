"""A service without a model, its keys, and the real server around it, for tests of the shell."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response, jsonify

from appliance.service.app import create_app
from appliance.service.endpoint import current_service, endpoint, request_body
from appliance.service.key_file import NewKey, new_key, write_keys
from appliance.service.principals import SCOPES
from appliance.service.routes.all import BLUEPRINTS
from appliance.service.server import Server
from appliance.service.service import Service
from appliance.service.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flask import Flask

CONFIGURATION = """
mode = "dev"
[model]
file = "model.vqf"
name = "tiny"
max_running = 2
[attest]
key = "attest.pem"
log = "log"
anchor = "anchor"
[auth]
keys = "keys.json"
[log]
file = "access.jsonl"
[dev]
allow_unsigned = true
[server]
listen = "127.0.0.1:0"
"""


def fake_routes(cancelled: threading.Event) -> Blueprint:
    """Return routes that stand for those of the engine, until they are cancelled."""
    routes = Blueprint("fake", "fake")

    @routes.post("/v1/echo")
    @endpoint("generate", body=True)
    def echo() -> Response:
        return jsonify(length=len(request_body()))

    @routes.post("/v1/stream")
    @endpoint("generate", body=True)
    def stream() -> Response:
        wanted = json.loads(request_body())
        slot = current_service().limits.open(_principal(), 1)

        def pieces() -> Iterator[bytes]:
            try:
                for number in range(wanted["events"]):
                    if cancelled.is_set():
                        yield b"data: cancelled\n\n"
                        return
                    yield f"data: {number} {'x' * wanted.get('bytes', 0)}\n\n".encode()
                    time.sleep(wanted.get("pause_s", 0))
            finally:
                slot.release()

        return Response(pieces(), content_type="text/event-stream; charset=utf-8")

    @routes.get("/v1/broken")
    @endpoint("generate")
    def broken() -> Response:
        raise ZeroDivisionError("a secret in a message")

    @routes.get("/v1/unmarked")
    def unmarked() -> Response:
        return jsonify(leaked=True)

    return routes


def _principal() -> Any:
    from appliance.service.endpoint import current_principal

    return current_principal()


def make_key(**facts: Any) -> NewKey:
    """Make a key with all scopes, unless told otherwise."""
    facts = {"principal": bytes(16), "name": "a name", "scopes": SCOPES, "created_s": 1} | facts
    return new_key(**facts)


class Shell:
    """A folder with a configuration and a key, and the service that they make."""

    def __init__(self, folder: Path, configuration: str = CONFIGURATION) -> None:
        """Make them."""
        self.folder = folder
        self.key = make_key()
        write_keys(folder / "keys.json", (self.key.entry,), force=True)
        path = folder / "appliance.toml"
        path.write_text(configuration)
        self.settings = Settings.read(path)
        self.service = Service.new(self.settings)
        self.service.extra_hosts = frozenset({"localhost"})
        cancelled = threading.Event()
        self.service.on_cancel.append(cancelled.set)
        self.app: Flask = create_app(self.service, (*BLUEPRINTS, fake_routes(cancelled)))

    @property
    def headers(self) -> dict[str, str]:
        """Those of a request with the key."""
        return {"Authorization": f"Bearer {self.key.text}"}

    def lines(self) -> list[dict[str, Any]]:
        """Return the access log."""
        path = self.folder / "access.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    @contextmanager
    def serving(self) -> Iterator[Address]:
        """Run the real server in a thread."""
        server = Server(self.service, self.app)
        thread = threading.Thread(target=server.run, kwargs={"signals": False})
        thread.start()
        try:
            yield Address(server, self.key.text)
        finally:
            server.stop()
            server.stop()
            thread.join(30)
            assert not thread.is_alive()


class Address:
    """Where the server listens."""

    def __init__(self, server: Server, key: str) -> None:
        """Keep the server and a key."""
        self.server = server
        self.key = key

    def connect(self) -> socket.socket:
        """Open a connection."""
        path, port = self.server.address
        if port:
            return socket.create_connection((path, port), timeout=20)
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(20)
        made.connect(path)
        return made

    def head(self, line: str, *headers: str) -> bytes:
        """Return the head of a request with host and key."""
        host = f"127.0.0.1:{self.server.address[1]}"
        fixed = (f"{line} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {self.key}")
        return "\r\n".join([*fixed, *headers, "", ""]).encode("latin-1")

    def post(self, path: str, body: bytes, *headers: str) -> bytes:
        """Return a whole request."""
        length = f"Content-Length: {len(body)}"
        return self.head(f"POST {path}", length, "Content-Type: application/json", *headers) + body

    def ask(self, data: bytes) -> Answer:
        """Send bytes on a connection of its own, and return what comes back."""
        with self.connect() as connection:
            connection.sendall(data)
            return read_answer(connection.makefile("rb"))

    def health(self) -> int:
        """Return the status of /health."""
        return self.ask(self.head("GET /health")).status


class Answer:
    """A status, headers in lower case, and a body."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Keep them."""
        self.status, self.headers, self.body = status, headers, body

    @property
    def code(self) -> str:
        """The code of an error, whose shape is checked."""
        error = json.loads(self.body)["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert self.headers["content-type"] == "application/json"
        assert "server" not in self.headers
        assert self.headers["x-content-type-options"] == "nosniff"
        assert b"Traceback" not in self.body
        code: str = error["code"]
        return code


def read_answer(stream: Any) -> Answer:
    """Read one answer; a body without a length goes on until its last chunk."""
    line = stream.readline()
    assert line, "the server closed the connection"
    status = int(line.split()[1])
    headers = {}
    while (line := stream.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(stream.readline(), 16):
            body += stream.read(size)
            stream.readline()
        stream.readline()
    else:
        body = stream.read(int(headers.get("content-length", 0)))
    return Answer(status, headers, body)
