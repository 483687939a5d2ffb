"""Headers of requests that are looked at before a route is asked, and those of every answer.

Source: RFC 9110 (Host, Content-Type, Content-Length, Content-Encoding), the Fetch standard (CORS).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

from flask import Request, Response

from appliance.api.errors import (
    invalid_api_key,
    length_required,
    refused,
    request_too_large,
    unsupported_media_type,
)

CERTIFICATE: Final = "X-Windhover-Client-Certificate"
VERIFIED: Final = "X-Windhover-Client-Verify"
"""What nginx sets from $ssl_client_escaped_cert and $ssl_client_verify, and takes from nobody."""

ANSWER_HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
"""On every answer, unless a page sets its own."""

_BEARER: Final = re.compile(r"Bearer +([A-Za-z0-9._~+/=-]{1,200})", re.IGNORECASE)
_JSON: Final = re.compile(r'application/json(?: *; *charset="?utf-8"?)? *', re.IGNORECASE)
_PEM: Final = re.compile(
    rb"\s*-----BEGIN CERTIFICATE-----\s([A-Za-z0-9+/=\s]{1,16000})-----END CERTIFICATE-----\s*"
)
_CORS_METHODS: Final = "GET, POST"
_CORS_HEADERS: Final = "Authorization, Content-Type, Windhover-Nonce, X-Request-Id"
_CORS_EXPOSED: Final = "Windhover-Attestation, X-Request-Id, Retry-After"
_CORS_AGE_S: Final = 600


def check_host(request: Request, hosts: frozenset[str]) -> None:
    """Refuse a name that is not ours: somebody's page may have made its own name point here.

    Raises:
        ApiError: 400 invalid_host.
    """
    host = request.environ.get("HTTP_HOST", "")
    if host.lower() not in hosts:
        raise refused("invalid_host", "the Host header names none of the hosts of this service")


def bearer(request: Request) -> str | None:
    """Return the key that a request shows; None where there is none.

    Raises:
        ApiError: 401: the header is of another form.
    """
    text = request.environ.get("HTTP_AUTHORIZATION")
    if text is None:
        return None
    match = _BEARER.fullmatch(text)
    if match is None:
        raise invalid_api_key()
    return match[1]


def certificate(request: Request, *, is_believed: bool) -> bytes | None:
    """Return the client certificate in DER that nginx has verified; None where there is none.

    Raises:
        ApiError: 400 where such a header came from elsewhere; 401 where it was not verified.
    """
    text, verified = request.headers.get(CERTIFICATE), request.headers.get(VERIFIED)
    if not is_believed:
        if text is not None or verified is not None:
            message = "headers about client certificates are not accepted on this connection"
            raise refused("certificate_header", message)
        return None
    if not text:
        return None
    match = _PEM.fullmatch(unquote_to_bytes(text))
    if verified != "SUCCESS" or match is None:
        raise invalid_api_key()
    try:
        return base64.b64decode(b"".join(match[1].split()), validate=True)
    except binascii.Error:
        raise invalid_api_key() from None


def check_query(request: Request, known: frozenset[str]) -> None:
    """Refuse names in the query string that the route does not have, and any that stand twice.

    Raises:
        ApiError: 400 unknown_parameter or invalid_value.
    """
    for name, values in request.args.lists():
        if name not in known:
            raise refused("unknown_parameter", "the query string has a name that is not known here")
        if len(values) != 1:
            raise refused("invalid_value", f"{name} stands twice in the query string", name)


def read_body(request: Request, *, is_taken: bool, most_bytes: int) -> bytes:
    """Return the body, as many bytes as its header says.

    Args:
        request: the request.
        is_taken: whether the route takes one, which then is JSON.
        most_bytes: how long it may be.

    Raises:
        ApiError: 400, 411, 413 or 415.
    """
    environ = request.environ
    text = environ.get("CONTENT_LENGTH", "")
    if not is_taken:
        if text not in ("", "0"):
            raise refused("unexpected_body", "this address takes no body")
        return b""
    if not re.fullmatch("[0-9]{1,18}", text) or "HTTP_TRANSFER_ENCODING" in environ:
        raise length_required()
    if int(text) > most_bytes:
        raise request_too_large(most_bytes)
    encoding = environ.get("HTTP_CONTENT_ENCODING")
    if encoding is not None or _JSON.fullmatch(environ.get("CONTENT_TYPE", "")) is None:
        raise unsupported_media_type()
    body: bytes = environ["wsgi.input"].read(int(text))
    if len(body) != int(text):
        raise refused("incomplete_body", "the body is shorter than its Content-Length")
    return body


def is_preflight(request: Request) -> bool:
    """Return whether a browser asks if a page elsewhere may call."""
    return request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers


def add_answer_headers(
    request: Request, response: Response, *, request_id: str, origins: tuple[str, ...]
) -> None:
    """Give an answer the headers that all of them have, and those for an origin that is listed."""
    for name, value in ANSWER_HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["X-Request-Id"] = request_id
    response.headers.pop("Server", None)
    if not origins:
        return
    response.headers.add("Vary", "Origin")
    origin = request.headers.get("Origin")
    if origin not in origins or origin is None:
        return
    response.headers["Access-Control-Allow-Origin"] = origin
    response.headers["Access-Control-Expose-Headers"] = _CORS_EXPOSED
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    if is_preflight(request):
        response.headers["Access-Control-Allow-Methods"] = _CORS_METHODS
        response.headers["Access-Control-Allow-Headers"] = _CORS_HEADERS
        response.headers["Access-Control-Max-Age"] = str(_CORS_AGE_S)
