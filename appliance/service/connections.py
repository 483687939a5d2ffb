"""Connections as waitress handles them, with what it leaves open closed.

Whatever it refuses itself comes in the shape of all errors; a body of unknown length is refused,
also beside a Content-Length; headers that decide something stand once; what another program could
read in another way is refused; and a client that sends or takes nothing for too long is cut off, so
that it holds neither a thread nor a place.

Source: RFC 9112 sections 3.2 (target), 5.2 (folded lines) and 6.1 to 6.3 (message length), RFC 9110
section 10.1.1 (Expect).
"""

from __future__ import annotations

import json
import re
import secrets
import socket
import sys
import time
from collections import Counter
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer, UnixWSGIServer
from waitress.task import ErrorTask
from waitress.utilities import BadRequest, Error

from appliance.api.errors import ApiError, error_of_status, request_too_large
from appliance.service.access_log import AccessRecord
from appliance.service.app import place_of
from appliance.service.headers import ANSWER_HEADERS
from appliance.service.service import Service

MAX_HEADERS: Final = 100
ONCE: Final = frozenset(
    {
        *(b"host", b"content-length", b"content-type", b"content-encoding", b"transfer-encoding"),
        *(b"authorization", b"windhover-nonce", b"x-request-id", b"origin", b"accept"),
        *(b"x-windhover-client-certificate", b"x-windhover-client-verify"),
    }
)
"""Headers of which a second one would let two programs read a request differently."""

_OVERFLOW_IDLE_S: Final = 2
_PATH: Final = re.compile(r'/(?!/)[!-"$-~]*')
_ABSOLUTE: Final = re.compile(r'https?://([^/?#]+)(/(?!/)[!-"$-~]*)', re.IGNORECASE)


class _LengthError(Error):  # type: ignore[misc]
    code = 411
    reason = "Length Required"


class _HeadersError(Error):  # type: ignore[misc]
    code = 431
    reason = "Request Header Fields Too Large"


class Parser(HTTPRequestParser):  # type: ignore[misc]
    """Reads one request."""

    def received(self, data: bytes) -> int:
        """Take bytes; return how many belong to this request."""
        count: int = super().received(data)
        if self.error is not None:
            # Else a client that waits for `100 Continue` would be told to send the body.
            self.expect_continue = False
        return count

    def parse_header(self, header_plus: bytes) -> None:
        """Read the head of a request, and refuse what has more than one meaning.

        Raises:
            ParsingError, TransferEncodingNotImplemented: it cannot be read; both are answered.
        """
        first, *lines = header_plus.split(b"\r\n")
        names = Counter(line.partition(b":")[0].strip().lower() for line in lines if line)
        try:
            super().parse_header(header_plus)
        except ValueError as error:
            # An address of broken brackets, or a length of more digits than Python reads.
            raise ParsingError("a value that cannot be read") from error
        if names.total() > MAX_HEADERS:
            self._refuse(_HeadersError("too many headers"))
        elif first != first.strip() or any(line[:1] in (b" ", b"\t") for line in lines):
            self._refuse(BadRequest("white space around the request line, or a folded header"))
        elif not self._is_ours():
            self._refuse(BadRequest("another form of target, or of another host"))
        elif b"transfer-encoding" in names:
            self._refuse(_LengthError("no Transfer-Encoding"))
        elif any(names[name] > 1 for name in ONCE):
            self._refuse(BadRequest("a header stands twice"))
        elif self.version not in ("1.0", "1.1"):
            self._refuse(BadRequest("another version of HTTP"))

    def _is_ours(self) -> bool:
        """Return whether the target is a path, alone or behind the very name in Host."""
        target: str = self.request_uri
        if target == "*":
            return True
        if self.path.startswith("//"):  # which waitress would take for one slash
            return False
        match = _ABSOLUTE.fullmatch(target)
        if match is not None:
            host: str = self.headers.get("HOST", "")
            return match[1].lower() == host.lower()
        return _PATH.fullmatch(target) is not None

    def _refuse(self, error: Error) -> None:
        """End the request here: nothing of a body is read."""
        self.error = error
        self.chunked = False
        self.content_length = 0
        self.body_rcv = None
        self.expect_continue = False


class RefusalTask(ErrorTask):  # type: ignore[misc]
    """Answers what the parser refused, and anything that broke where the application could not."""

    def execute(self) -> None:
        """Write the error in the shape of all errors."""
        begun_ns = time.monotonic_ns()
        server = self.channel.server
        service: Service = server.service
        status = int(self.request.error.code)
        error = _error_of(status, service.settings.limits.body_bytes)
        record = AccessRecord(
            time_ms=time.time_ns() // 1_000_000,
            request_id=secrets.token_hex(16),
            status=error.status,
            code=error.code,
        )
        body = (json.dumps(error.body(), ensure_ascii=True) + "\n").encode("ascii")
        self.status = f"{error.status} {HTTPStatus(error.status).phrase}"
        self.response_headers.extend(
            [
                ("Content-Type", "application/json"),
                ("X-Request-Id", record.request_id),
                *ANSWER_HEADERS.items(),
                *error.headers().items(),
            ]
        )
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)
        record.duration_ms = (time.monotonic_ns() - begun_ns) // 1_000_000
        service.metrics.record(record)
        service.access_log.write(record)


class Channel(HTTPChannel):  # type: ignore[misc]
    """One connection."""

    parser_class = Parser
    error_task_class = RefusalTask
    arriving_since: float | None = None

    def received(self, data: bytes) -> bool:
        """Take bytes of the client, and note since when a request has been arriving."""
        taken: bool = super().received(data)
        if self.request is None:
            self.arriving_since = None
        elif self.arriving_since is None:
            self.arriving_since = time.time()
        return taken

    def handle_error(self) -> None:
        """Close a connection over which something broke, and note class and place of the error."""
        error = sys.exc_info()[1]
        if error is not None:
            self.server.service.note_error(type(error).__name__, place_of(error))
        self.handle_close()

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered, or an answer has not left yet."""
        return bool(self.requests) or self.total_outbufs_len > 0


class _Watched:
    """What both servers do besides: cut off clients that hold a connection for nothing."""

    channel_class = Channel
    service: Service

    def maintenance(self: Any, now: float) -> None:
        """Mark connections to be closed that took too long over something."""
        settings = self.service.settings.server
        for channel in list(self.active_channels.values()):
            idle_s = now - channel.last_activity
            arriving = channel.arriving_since
            if channel.total_outbufs_len > 0:
                is_over = idle_s > settings.stall_s
            elif channel.requests:
                is_over = False
            elif arriving is not None:
                is_over = now - arriving > settings.receive_s
            else:
                is_over = idle_s > (
                    _OVERFLOW_IDLE_S if self.in_connection_overflow else settings.idle_s
                )
            if is_over:
                channel.will_close = True
                # A socket whose client takes nothing never becomes writable: this wakes it.
                with suppress(OSError):
                    channel.socket.shutdown(socket.SHUT_RDWR)

    def log_info(self, message: str, type: str = "info") -> None:
        """Say nothing: waitress's lines hold addresses, and not in our form."""


class TcpServer(_Watched, TcpWSGIServer):  # type: ignore[misc]
    """Listens on an address."""


class UnixServer(_Watched, UnixWSGIServer):  # type: ignore[misc]
    """Listens on a unix socket."""


def _error_of(status: int, body_bytes: int) -> ApiError:
    if status == 413:
        return request_too_large(body_bytes)
    if status in (501, 505):
        # Codings that are not known, which no other attempt changes.
        return error_of_status(400)
    return error_of_status(status)
