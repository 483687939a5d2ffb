"""A client of nginx that shows what came over the wire."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path

from tests.firmware.front import HOST, Front


class Client:
    """One connection to nginx."""

    def __init__(
        self,
        front: Front,
        certificate: tuple[Path, Path] | None = None,
        most: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ) -> None:
        """Prepare it; the first request connects."""
        context = ssl.create_default_context(cafile=front.authority.path)
        context.maximum_version = most
        if certificate is not None:
            context.load_cert_chain(*certificate)
        self.connection = http.client.HTTPSConnection(
            "127.0.0.1", front.port, context=context, timeout=20
        )

    def ask(
        self,
        method: str = "GET",
        path: str = "/v1/models",
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of an answer."""
        self.connection.request(method, path, body, {"Host": HOST} | (headers or {}))
        answer = self.connection.getresponse()
        return answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read()

    def raw(self, data: bytes) -> bytes:
        """Send bytes, and return all that comes back."""
        self.connection.connect()
        sock = self.connection.sock
        assert sock is not None
        sock.sendall(data)
        return b"".join(iter(lambda: sock.recv(65536), b""))  # up to the end of the connection

    def close(self) -> None:
        """End it."""
        self.connection.close()


def error(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, str]:
    """Return status and code of an error, whose shape is checked."""
    status, headers, body = answer
    said = json.loads(body)["error"]
    assert said.keys() == {"message", "type", "param", "code"}
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["server"] == "nginx"  # the name stays; the version does not
    return status, said["code"]
