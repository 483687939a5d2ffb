"""A client outside of the machine: TLS 1.3 to nginx, trusting the certificate that it exported."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import secrets
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHAT = "/v1/chat/completions"
_TEXT = re.compile(r'"content": ?"[^"]')


class RefusedError(Exception):
    """An answer with another status than 200."""

    def __init__(self, status: int, text: str) -> None:
        """Keep both."""
        super().__init__(f"{status}: {text[:300]}")
        self.status, self.text = status, text


@dataclass
class Stream:
    """A streaming answer, as far as it came.

    name: of its attestation, None until the head of the answer is there. nonce: hexadecimal.
    events: what follows `data: `, in order.
    """

    request: bytes
    nonce: str
    name: str | None = None
    events: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the server said that nothing follows."""
        return self.events[-1:] == ["[DONE]"]

    @property
    def num_tokens(self) -> int:
        """How many events had text in them."""
        return sum(_TEXT.search(event) is not None for event in self.events)

    @property
    def has_attestation(self) -> bool:
        """Whether the attestation of the whole answer came, which is after its last token."""
        return any('"attestation"' in event for event in self.events)


@dataclass(frozen=True)
class Answer:
    """A whole answer: the bytes of the request and of the body, and what the body says."""

    request: bytes
    nonce: str
    response: bytes
    said: dict[str, Any]

    @property
    def name(self) -> str:
        """Return what its attestation is called."""
        name: str = self.said["attestation"]["id"]
        return name


class Client:
    """Asks one machine; each question has a connection of its own."""

    def __init__(self, port: int, certificate: Path, key: str, *, model: str, timeout_s: float):
        """Trust one certificate and no authority.

        Args:
            port: on this machine, forwarded to 443 of the guest.
            certificate: PEM, what the machine exported.
            key: of the API.
            model: its name.
            timeout_s: for each read.
        """
        self._port, self._key, self._model, self._timeout_s = port, key, model, timeout_s
        self._context = ssl.create_default_context(cafile=certificate)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # this one, whoever issued it
        self._context.check_hostname = False  # compared as a whole instead: see _connect
        pem = certificate.read_text(encoding="ascii")
        self._expected = hashlib.sha256(ssl.PEM_cert_to_DER_cert(_first(pem))).digest()
        self.host = _host_of(certificate)

    def get(self, path: str) -> bytes:
        """Return the body of what lies there.

        Raises:
            RefusedError: with another status than 200.
            OSError, http.client.HTTPException: nothing came.
        """
        connection = self._connect()
        try:
            connection.request("GET", path, headers=self._headers())
            return _whole(connection.getresponse())
        finally:
            connection.close()

    def is_ready(self) -> bool:
        """Ask whether requests are answered; what is not there is not ready."""
        try:
            return bool(json.loads(self.get("/ready"))["ready"])
        except (OSError, http.client.HTTPException, RefusedError, ValueError, KeyError):
            return False

    def ask(self, question: str, **options: Any) -> Answer:
        """Ask, with a nonce of its own, and wait for the whole answer."""
        body, nonce = self._body(question, options), secrets.token_hex(32)
        connection = self._connect()
        try:
            connection.request("POST", CHAT, body, self._headers(nonce))
            response = _whole(connection.getresponse())
        finally:
            connection.close()
        return Answer(body, nonce, response, json.loads(response))

    def stream(
        self, question: str, watch: Callable[[Stream], None] = lambda _: None, **options: Any
    ) -> Stream:
        """Ask for a stream; return what came until it ended or broke.

        Args:
            question: of the user.
            watch: is called when the request was sent, with the head, and with each event.
            options: of the request.
        """
        body = self._body(question, options | {"stream": True})
        found = Stream(body, secrets.token_hex(32))
        connection = self._connect()
        try:
            connection.request("POST", CHAT, body, self._headers(found.nonce))
            watch(found)
            response = connection.getresponse()
            if response.status != 200:
                raise RefusedError(response.status, response.read().decode(errors="replace"))
            found.name = response.getheader("Windhover-Attestation")
            watch(found)
            for event in _events(response):
                found.events.append(event)
                watch(found)
        except (OSError, http.client.HTTPException):
            pass  # cut: what came is what the client has
        finally:
            connection.close()
        return found

    def bundle(self, name: str) -> bytes:
        """Return the bundle of an answer."""
        return self.get(f"/v1/attestations/{name}?format=bundle")

    def statement(self, name: str) -> bytes:
        """Return the signed statement of a request, as it stands in the log."""
        return base64.b64decode(json.loads(self.get(f"/v1/attestations/{name}"))["statement"])

    def consistency(self, first: int) -> dict[str, Any]:
        """Return what shows that the log still extends what it was with `first` entries."""
        proof: dict[str, Any] = json.loads(self.get(f"/v1/log/consistency?first={first}"))
        return proof

    def checkpoint(self) -> dict[str, Any]:
        """Return the newest head of the log."""
        head: dict[str, Any] = json.loads(self.get("/v1/log/checkpoint"))
        return head

    def _body(self, question: str, options: dict[str, Any]) -> bytes:
        said = {"model": self._model, "messages": [{"role": "user", "content": question}]}
        return json.dumps(said | options).encode()

    def _headers(self, nonce: str | None = None) -> dict[str, str]:
        headers = {"Host": self.host, "Authorization": f"Bearer {self._key}"}
        if nonce is not None:
            headers |= {"Content-Type": "application/json", "Windhover-Nonce": nonce}
        return headers

    def _connect(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._port, context=self._context, timeout=self._timeout_s
        )
        connection.connect()
        shown = connection.sock.getpeercert(binary_form=True)
        if hashlib.sha256(shown or b"").digest() != self._expected:
            connection.close()
            raise ConnectionError("the machine shows another certificate than it exported")
        return connection


def _events(response: http.client.HTTPResponse) -> Iterator[str]:
    """Yield what follows `data: ` in each event."""
    for line in response:
        if line.startswith(b"data: "):
            yield line[6:].decode().rstrip("\n")


def _whole(response: http.client.HTTPResponse) -> bytes:
    body = response.read()
    if response.status != 200:
        raise RefusedError(response.status, body.decode(errors="replace"))
    return body


def _first(pem: str) -> str:
    """Return the first certificate of a chain."""
    end = "-----END CERTIFICATE-----"
    return pem[: pem.index(end) + len(end)] + "\n"


def _host_of(certificate: Path) -> str:
    """Return the first name that a certificate is for."""
    from cryptography import x509

    found = x509.load_pem_x509_certificate(certificate.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.DNSName)[0]
