"""The bytes of a request on the wire: how they may be framed, and which are attested."""

from __future__ import annotations

import json
import socket

import pytest

from tests.appliance.service.shell import read_answer
from verifier.expectations import Expectations
from verifier.verify import read_trust, verify

PATH = "/v1/chat/completions"
LIMIT = 1 << 20


def send(live, body, *headers):
    """Send a request as it is; return the answer."""
    host, _, port = live.url.removeprefix("http://").rpartition(":")
    head = (
        f"POST {PATH} HTTP/1.1", f"Host: {host}:{port}", "Content-Type: application/json",
        *(f"{name}: {value}" for name, value in live.headers.items()), *headers, "", "",
    )  # fmt: skip
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall("\r\n".join(head).encode() + body)
        return read_answer(connection.makefile("rb"))


def body_of(length):
    """Return a request of so many bytes, with spaces where JSON allows them."""
    asked = {"model": "model", "max_tokens": 2, "messages": [{"role": "user", "content": "Why?"}]}
    body = json.dumps(asked, separators=(" ,", "\t: ")).encode()
    return body + b" " * (length - len(body))


@pytest.mark.parametrize("over", [-LIMIT + 400, 0, 1, 1000])
def test_a_body_in_chunks_is_refused_however_long_it_is(live, over):
    body = body_of(LIMIT + over)
    halves = (body[: len(body) // 2], body[len(body) // 2 :])
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(half), half) for half in halves) + b"0\r\n\r\n"
    answer = send(live, chunks, "Transfer-Encoding: chunked")
    assert answer.status in ((411,) if over <= 0 else (411, 413))
    assert answer.code in ("length_required", "request_too_large")


def test_a_body_of_the_limit_is_answered_and_one_byte_more_is_refused(live):
    answer = send(live, body_of(LIMIT), f"Content-Length: {LIMIT}")
    assert answer.status == 200
    refused = send(live, body_of(LIMIT + 1), f"Content-Length: {LIMIT + 1}")
    assert (refused.status, refused.code) == (413, "request_too_large")


def test_the_attested_digest_covers_exactly_the_bytes_that_were_sent(live):
    body = body_of(300) + b"\n"
    answer = send(live, body, f"Content-Length: {len(body)}")
    assert answer.status == 200
    bundle = live.bundle(answer.headers["windhover-attestation"])
    trust = "version = 1\n" + live.site.path("trust.toml").read_text().split("\n", 1)[1]

    def verdict(sent):
        expected = Expectations(
            need=frozenset({"A0", "A1", "A2"}),
            request=PATH.encode() + b"\0" + sent,
            response=answer.body,
        )
        return verify(bundle, read_trust(trust.encode()), expected).verdict

    # the log of a test is not pinned by a trust file, and the mode is dev: no step is false
    assert verdict(body) == "INCOMPLETE"
    same_values = json.dumps(json.loads(body)).encode()
    for other in (body[:-1], body + b"\n", body.rstrip(), same_values, b" " + body):
        assert verdict(other) == "FAIL"


def test_bytes_behind_the_length_are_another_request_and_no_part_of_the_first(live):
    body = body_of(200)
    answer = send(live, body + b"GET /health", f"Content-Length: {len(body)}")
    assert answer.status == 200
    cut = send(live, body, f"Content-Length: {len(body) - 60}")
    assert cut.status == 200
    shown = live.bundle(cut.headers["windhover-attestation"])
    assert PATH.encode() + b"\0" + body[:-60] in shown
    assert body[:-59] not in shown
