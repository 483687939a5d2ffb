"""Requests that are wrong, hostile or odd, each with what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tests.appliance.hostile.wire import BODY, Site

if TYPE_CHECKING:
    from collections.abc import Callable

Made: TypeAlias = "Callable[[Site], bytes]"
CL = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
TE = b"Transfer-Encoding: chunked\r\n"
GO = b"Expect: 100-continue\r\n"
WAITS = "waits"
"""Nothing is answered, since the request is not over; the time for it runs out."""

LENGTHS: dict[bytes, int | str] = {
    **dict.fromkeys((b"-1", b"+47", b"0x2f", b"4_7", b"47.0", b"4e1", b"", b" ", b"4 7"), 400),
    **dict.fromkeys((b"\xb2", b"1e1000", b"47;", b"47\x0b", b"\x0c47", b"47,47", b"47, 48"), 400),
    b"9" * 20: 413,
    b"9" * 4000: 413,
    b"9" * 5000: 400,
    b"047": 200,
    b"47 \t": 200,
    b"48": WAITS,
}
CODINGS: dict[bytes, int] = {
    **dict.fromkeys((b"chunked", b" chunked", b"Chunked", b"chunked, chunked", b"chunked,"), 411),
    **dict.fromkeys((b"", b" ", b","), 411),
    **dict.fromkeys((b"chunked, identity", b"xchunked", b"identity", b"chunked;q=1"), 400),
    **dict.fromkeys((b"gzip, chunked", b'"chunked"', b"\xc4\x8bhunked"), 400),
    **dict.fromkeys((b"\x0bchunked", b"chunked\x00", b"chu\rnked"), 400),
}
LINES: dict[bytes, int] = {
    **dict.fromkeys((b"GET", b"GET ", b"GET /health", b"GET / ", b"GET / HTTP/", b"A" * 9000), 400),
    **dict.fromkeys((b"GET /health HTTP/1.2", b"GET /health HTTP/2.0"), 400),
    **dict.fromkeys((b"GET /health HTTP/0.9", b"GET /health http/1.1"), 400),
    **dict.fromkeys((b"GET  /health HTTP/1.1", b"GET /health  HTTP/1.1"), 400),
    **dict.fromkeys((b"GET\t/health\tHTTP/1.1", b"GET /health HTTP/1.1 "), 400),
    **dict.fromkeys((b"GET /health HTTP/1.1\r", b"G\xffT /health HTTP/1.1"), 400),
    **dict.fromkeys((b"get /health HTTP/1.1", b"GET\x00 /health HTTP/1.1"), 400),
    **dict.fromkeys((b"GET /hea\x00lth HTTP/1.1", b"GET /health\x7f HTTP/1.1"), 400),
    **dict.fromkeys((b"GET /health# HTTP/1.1", b"GET health HTTP/1.1"), 400),
    **dict.fromkeys((b"GET //health HTTP/1.1", b"GET //[/health HTTP/1.1"), 400),
    **dict.fromkeys((b"GET /\xe2\x84\x80 HTTP/1.1", b"GET /health?\xff HTTP/1.1"), 400),
    **dict.fromkeys((b"GET http://evil.example/health HTTP/1.1",), 400),
    **dict.fromkeys((b"GET https://[::1/health HTTP/1.1", b"GET http://[/health HTTP/1.1"), 400),
    **dict.fromkeys((b"GET http://a:b:c/health HTTP/1.1", b"GET ftp://a/health HTTP/1.1"), 400),
    **dict.fromkeys((b"GET http://\xe2\x84\x80@/health HTTP/1.1",), 400),
    **dict.fromkeys((b"CONNECT 127.0.0.1:80 HTTP/1.1", b"GET file:///health HTTP/1.1"), 400),
    **dict.fromkeys((b"GET /health?x=1 HTTP/1.1", b"GET /health?%00 HTTP/1.1"), 400),
    **dict.fromkeys((b"GET * HTTP/1.1", b"OPTIONS * HTTP/1.1", b"GET /%00 HTTP/1.1"), 404),
    **dict.fromkeys((b"GET /health%00 HTTP/1.1", b"GET /health/ HTTP/1.1"), 404),
    **dict.fromkeys((b"GET /./health HTTP/1.1", b"GET /x/../health HTTP/1.1"), 404),
    **dict.fromkeys((b"GET /%2e%2e/health HTTP/1.1", b"GET /assets/../health HTTP/1.1"), 404),
    **dict.fromkeys((b"GET /assets/%2e%2e%2fapi HTTP/1.1",), 404),
    **dict.fromkeys((b"GET /assets/..%2f..%2fetc%2fpasswd HTTP/1.1",), 404),
    **dict.fromkeys((b"GET /assets/%c0%ae%c0%ae/x HTTP/1.1", b"GET /%zz HTTP/1.1"), 404),
    **dict.fromkeys((b"GET /[/health HTTP/1.1",), 404),
    **dict.fromkeys((b"GET /%2fhealth HTTP/1.1",), 400),
    **dict.fromkeys((b"GET /health;x HTTP/1.1", b"GET /healt%25h HTTP/1.1"), 404),
    **dict.fromkeys((b"GET /\\health HTTP/1.1", b"GET /health" + b"a" * 9000 + b" HTTP/1.1"), 404),
    **dict.fromkeys((b"TRACE /health HTTP/1.1", b"PUT /health HTTP/1.1"), 405),
    **dict.fromkeys((b"BREW /health HTTP/1.1", b"POST /health HTTP/1.1"), 405),
    **dict.fromkeys((b"GET /health HTTP/1.1", b"GET /health HTTP/1.0"), 200),
    **dict.fromkeys((b"GET /he%61lth HTTP/1.1", b"GET /health? HTTP/1.1"), 200),
}


def with_length(value: bytes) -> Made:
    return lambda to: to.post(b"Content-Length: " + value + b"\r\n")


def with_coding(value: bytes, also: bytes = b"") -> Made:
    return lambda to: to.post(also + b"Transfer-Encoding: " + value + b"\r\n", CHUNKED)


def with_line(line: bytes) -> Made:
    return lambda to: to.get(line)


ROWS: list[tuple[str, Made, int | str]] = [
    ("a valid request", Site.valid, 200),
    ("nothing at all", lambda to: b"", WAITS),
    ("line feeds alone", lambda to: to.valid().replace(b"\r\n", b"\n"), WAITS),
    ("a line feed alone", lambda to: to.post(CL + b"X: 1\nY: 2\r\n"), 400),
    ("a carriage return alone", lambda to: to.post(CL + b"X: 1\r2\r\n"), 400),
    ("empty lines before", lambda to: b"\r\n\r\n" + to.valid(), 200),
    ("empty lines alone", lambda to: b"\r\n" * 5000, WAITS),
    ("a folded header", lambda to: to.post(CL + b"X: 1\r\n 2\r\n"), 400),
    ("a folded length", lambda to: to.post(b"Content-Length:\r\n %d\r\n" % len(BODY)), 400),
    ("a folded host", lambda to: to.get().replace(b"Host: ", b"Host:\r\n ", 1), 400),
    ("a folded coding", lambda to: to.post(CL + TE.replace(b" ", b"\r\n ")), 400),
    ("a coding in a fold", lambda to: to.post(CL + b"X: 1\r\n " + TE), 400),
    ("a fold before any header", lambda to: to.get().replace(b"Host", b" X: 1\r\nHost", 1), 400),
    ("NUL in a value", lambda to: to.post(CL + b"X: a\x00b\r\n"), 400),
    ("NUL in a name", lambda to: to.post(CL + b"X\x00: 1\r\n"), 400),
    ("a value beyond ASCII", lambda to: to.post(CL + b"X: \xff\xfe\r\n"), 200),
    ("a name beyond ASCII", lambda to: to.post(CL + b"X\xff: 1\r\n"), 400),
    ("space before a colon", lambda to: to.post(b"Content-Length : %d\r\n" % len(BODY)), 400),
    ("no name", lambda to: to.post(CL + b": 1\r\n"), 400),
    ("no colon", lambda to: to.post(CL + b"X\r\n"), 400),
    ("a length with underscore", lambda to: to.post(b"Content_Length: 3\r\n" + CL), 200),
    ("a length with underscore alone", lambda to: to.post(b"Content_Length: 3\r\n"), 411),
    ("a coding with underscore", lambda to: to.post(CL + b"Transfer_Encoding: chunked\r\n"), 200),
    ("two lengths", lambda to: to.post(CL + CL), 400),
    ("two lengths that differ", lambda to: to.post(CL + b"Content-Length: 3\r\n"), 400),
    ("no length", Site.post, 411),
    ("a header of 20 kB", lambda to: to.post(CL + b"X: " + b"y" * 20_000 + b"\r\n"), 431),
    ("2,000 headers", lambda to: to.post(CL + b"X: 1\r\n" * 2000), 431),
    ("101 headers", lambda to: to.post(CL + b"X: 1\r\n" * 97), 431),
    ("100 headers", lambda to: to.post(CL + b"X: 1\r\n" * 96), 200),
    ("two hosts", lambda to: to.post(CL + b"Host: evil.example\r\n"), 400),
    ("two keys", lambda to: to.post(CL + b"Authorization: Bearer x\r\n"), 400),
    ("two nonces", lambda to: to.post(CL + b"Windhover-Nonce: 00\r\n" * 2), 400),
    ("another host", lambda to: to.get().replace(b"Host: ", b"Host: evil.", 1), 400),
    ("a host with user", lambda to: to.get().replace(b"Host: ", b"Host: a@", 1), 400),
    ("an empty host", lambda to: b"GET /health HTTP/1.1\r\nHost:\r\n\r\n", 400),
    ("no host", lambda to: b"GET /health HTTP/1.1\r\n\r\n", 400),
    ("no host, HTTP/1.0", lambda to: b"GET /health HTTP/1.0\r\n\r\n", 400),
    ("HTTP/0.9", lambda to: b"GET /health\r\n", WAITS),
    ("our address whole", lambda to: to.get(b"GET %b HTTP/1.1" % to.address), 200),
    ("the beginning of HTTP/2", lambda to: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), 400),
    ("h2c", lambda to: to.get(headers=b"Connection: Upgrade\r\nUpgrade: h2c\r\n"), 200),
    ("websocket", lambda to: to.get(headers=b"Connection: Upgrade\r\nUpgrade: websocket\r\n"), 400),
    ("a hello of TLS", lambda to: bytes.fromhex("16030100c8010000c40303") + bytes(200), WAITS),
    ("a hello of TLS with line ends", lambda to: b"\x16\x03\x01\x00\xc8\r\n\r\n", 400),
    ("100-continue", lambda to: to.post(CL + b"Expect: 100-continue\r\n"), 200),
    ("another expectation", lambda to: to.post(CL + b"Expect: 200-ok\r\n"), 200),
    ("100-continue, HTTP/1.0", lambda to: to.post(CL + GO, version="1.0"), 200),
    ("a body where none is taken", lambda to: to.get(headers=CL) + BODY, 400),
    ("a body of no bytes", lambda to: to.get(headers=b"Content-Length: 0\r\n"), 200),
    ("chunks where none are taken", lambda to: to.get(headers=TE) + b"0\r\n\r\n", 411),
    ("an encoding", lambda to: to.post(CL + b"Content-Encoding: identity\r\n"), 415),
    ("another charset", lambda to: to.valid().replace(b"/json", b"/json; charset=utf-16"), 415),
    ("no type", lambda to: to.valid().replace(b"Content-Type", b"X"), 415),
    ("a certificate", lambda to: to.post(CL + b"X-Windhover-Client-Certificate: x\r\n"), 400),
    ("another method", lambda to: to.post(CL + b"X-HTTP-Method-Override: GET\r\n"), 200),
    ("another host in a header", lambda to: to.post(CL + b"X-Forwarded-Host: evil\r\n"), 200),
    ("half of a request line", lambda to: b"POST /v1/com", WAITS),
    ("half of a head", lambda to: to.valid()[:60], WAITS),
    ("half of a body", lambda to: to.valid()[:-9], WAITS),
    *((f"length {v[:24]!r}", with_length(v), wanted) for v, wanted in LENGTHS.items()),
    *((f"coding {v!r}", with_coding(v), wanted) for v, wanted in CODINGS.items()),
    *((f"{v!r} and length", with_coding(v, CL), wanted) for v, wanted in CODINGS.items()),
    *((f"line {v[:60]!r}", with_line(v), wanted) for v, wanted in LINES.items()),
]  # fmt: skip
