"""The real nginx before a stand-in for the service: what comes through, and what it says itself."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable

import pytest

from tests.firmware.client import Client, error
from tests.firmware.front import HOST, Front
from tests.firmware.tools import text_of
from tests.firmware.upstream import OK, Upstream

Connect = Callable[..., Client]
BODY = b'{"a": 1}'


def test_a_request_arrives_as_it_was_sent(
    front: Front, connect: Connect, upstream: Upstream
) -> None:
    with front.running():
        client = connect()
        assert client.ask("POST", "/v1/x?y=%20z", BODY, {"Authorization": "Bearer k"})[0] == 200
        assert client.ask()[0] == 200
    first = upstream.requests[0]
    assert first.line == "POST /v1/x?y=%20z HTTP/1.1"
    assert first.body == BODY
    assert first.headers["host"] == HOST
    assert first.headers["authorization"] == "Bearer k"


def test_what_a_client_says_about_itself_does_not_arrive(
    front: Front, connect: Connect, upstream: Upstream
) -> None:
    lies = dict.fromkeys(
        ("X-Windhover-Client-Certificate", "X-Windhover-Client-Verify", "X-Forwarded-For",
         "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Forwarded", "Proxy"),
        "SUCCESS",
    )  # fmt: skip
    with front.running():
        assert connect().ask(headers=lies)[0] == 200
    with front.running("optional"):
        assert connect().ask(headers=lies)[0] == 200
    without, optional = (request.headers for request in upstream.requests)
    assert not {name.lower() for name in lies} & without.keys()
    assert optional["x-windhover-client-verify"] == "NONE"
    assert "x-windhover-client-certificate" not in optional


@pytest.mark.parametrize("buffering", ["off", "on"])
def test_a_stream_arrives_event_by_event(
    front: Front, connect: Connect, upstream: Upstream, buffering: str
) -> None:
    arrived = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"
        )
        if not arrived.wait(10 if buffering == "off" else 1):
            connection.sendall(b"6\r\nlate\n\n\r\n")
        connection.sendall(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

    upstream.answer = answer
    text = text_of("nginx/nginx.conf").replace(
        "proxy_buffering off;", f"proxy_buffering {buffering};"
    )
    with front.running(text=text):
        client = connect()
        client.connection.request("GET", "/", headers={"Host": HOST})
        response = client.connection.getresponse()
        first = response.read1(100)
        arrived.set()
        rest = response.read()
    # with buffering the first event comes when the second is there, too
    assert ((first, rest) == (b"data: 1\n\n", b"data: 2\n\n")) == (buffering == "off")


def test_a_client_that_leaves_is_seen_by_the_service(
    front: Front, connect: Connect, upstream: Upstream
) -> None:
    gone = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.settimeout(10)
        if connection.recv(1) == b"":
            gone.set()

    upstream.answer = answer
    with front.running():
        client = connect()
        client.connection.request("GET", "/", headers={"Host": HOST})
        while not upstream.requests:
            gone.wait(0.01)
        client.connection.close()
        assert gone.wait(10)


def test_a_body_that_is_too_long_is_refused_before_the_service_sees_it(
    front: Front, connect: Connect, upstream: Upstream
) -> None:
    with front.running():
        assert connect().ask("POST", body=b" " * (1 << 20))[0] == 200
        answer = connect().ask("POST", body=b" " * ((1 << 20) + 1))
        assert error(answer) == (413, "request_too_large")
        header = f"POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 10000000000\r\n\r\n"
        assert b" 413 " in connect().raw(header.encode()).split(b"\r\n")[0]
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("size", ["1m", "16k"])
def test_a_prompt_is_never_in_a_temporary_file(
    front: Front, connect: Connect, upstream: Upstream, size: str
) -> None:
    log = front.folder / "error.log"
    log.unlink(missing_ok=True)
    text = text_of("nginx/nginx.conf").replace(
        "client_body_buffer_size 1m;", f"client_body_buffer_size {size};"
    )
    with front.running(text=text):
        assert connect().ask("POST", body=b" " * (1 << 20))[0] == 200
    assert ("buffered to a temporary file" in log.read_text()) == (size == "16k")


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"GARBAGE\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "bad_request"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400,
         "bad_request"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", 431,
         "headers_too_large"),
        (b"GET /" + b"y" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414, "uri_too_long"),
        (b"TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 405, "method_not_allowed"),
    ],
)  # fmt: skip
def test_garbage_is_answered_with_an_object(
    front: Front, connect: Connect, upstream: Upstream, data: bytes, status: int, code: str
) -> None:
    with front.running():
        answer = connect().raw(data)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert json.loads(body)["error"]["code"] == code
    assert b"nginx/" not in head
    assert upstream.requests == []


def test_http_without_tls_is_told_so(front: Front) -> None:
    with front.running(), socket.create_connection(("127.0.0.1", front.port), 10) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b'"code":"tls_required"' in plain.makefile("rb").read()


def test_tls_1_2_is_refused(front: Front, connect: Connect, upstream: Upstream) -> None:
    with front.running():
        with pytest.raises(ssl.SSLError, match=r"VERSION|version"):
            connect(most=ssl.TLSVersion.TLSv1_2).ask()
        client = connect()
        client.connection.connect()
        assert client.connection.sock.version() == "TLSv1.3"


def test_who_shows_a_certificate(front: Front, connect: Connect, upstream: Upstream) -> None:
    good = front.authority.issue("good")
    past = front.authority.issue("past", is_past=True)
    other = type(front.authority)(front.folder, "other").issue("stranger")
    for variant in ("optional", "required"):
        upstream.requests.clear()
        with front.running(variant):
            assert connect(good).ask()[0] == 200
            for bad in (past, other):
                assert error(connect(bad).ask()) == (403, "invalid_certificate")
            nobody = connect().ask()
        assert len(upstream.requests) == (2 if variant == "optional" else 1)
        shown = upstream.requests[0].headers
        assert shown["x-windhover-client-verify"] == "SUCCESS"
        assert shown["x-windhover-client-certificate"].startswith("-----BEGIN%20CERTIFICATE")
        if variant == "required":
            assert error(nobody) == (403, "certificate_required")
        else:
            assert nobody[0] == 200


def test_a_service_that_is_away(front: Front, connect: Connect) -> None:
    with front.running():
        answer = connect().ask()
        assert error(answer) == (502, "not_ready")
        assert answer[1]["retry-after"] == "10"


def test_a_request_is_computed_once(front: Front, connect: Connect, upstream: Upstream) -> None:
    upstream.answer = lambda connection: connection.shutdown(socket.SHUT_RDWR)
    with front.running():
        assert error(connect().ask("POST", body=BODY)) == (502, "not_ready")
        assert error(connect().ask()) == (502, "not_ready")
    assert len(upstream.requests) == 2


def test_what_the_service_says_about_an_error_comes_through(
    front: Front, connect: Connect, upstream: Upstream
) -> None:
    said = OK.replace(b"200 OK", b"503 Service Unavailable")
    upstream.answer = lambda connection: connection.sendall(said)
    with front.running():
        assert connect().ask()[::2] == (503, b"{}")


def test_a_flood_from_one_address_is_slowed(
    front: Front, connect: Connect, upstream: Upstream
) -> None:
    with front.running():
        client = connect()
        answers = [client.ask() for _ in range(120)]
    refused = [answer for answer in answers if answer[0] != 200]
    assert 40 <= len(answers) - len(refused) < 120
    assert {error(answer) for answer in refused} == {(429, "rate_limit_exceeded")}
    assert refused[0][1]["retry-after"] == "1"


def test_the_log_has_no_path_and_no_header(
    front: Front, connect: Connect, upstream: Upstream
) -> None:
    log = front.folder / "access.log"
    log.unlink(missing_ok=True)
    with front.running():
        connect().ask(path="/secret?secret", headers={"X-A": "secret", "Referer": "secret"})
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["status"] for line in lines if line["method"] == "GET"] == [200]
    assert "secret" not in log.read_text()
