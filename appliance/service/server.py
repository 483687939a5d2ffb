"""The server around the application: it listens, and it ends without losing what is under way.

The first SIGTERM or SIGINT drains: new requests are refused, running ones have `drain_s` seconds,
what is left then is cancelled, and what was said is delivered before the sockets close. A second
signal cancels at once. SIGHUP, after the file of the access log was renamed, begins a new one.
"""

from __future__ import annotations

import grp
import os
import signal
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from flask import Flask
from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.task import ThreadedTaskDispatcher

from appliance.service.connections import Channel, TcpServer, UnixServer
from appliance.service.service import Service
from appliance.service.settings import loopback_hosts
from engine.errors import ConfigError

SPARE_THREADS: Final = 4
"""For what is refused at once, and for /health and /metrics, while all others are taken."""

HEADER_BYTES: Final = 16 << 10
HIGH_WATERMARK_BYTES: Final = 128 << 10
"""So much of an answer waits for a slow client; then the one who makes it waits."""

_LOOK_S: Final = 0.25
_FLUSH_S: Final = 10
_CANCELLED_S: Final = 10
_BACKLOG: Final = 256
_ENDINGS: Final = (signal.SIGTERM, signal.SIGINT)


class Server:
    """A service that listens.

    Attributes:
        address: host and port, or the path of the unix socket and 0.
    """

    def __init__(self, service: Service, app: Flask) -> None:
        """Open the socket; `run` answers.

        Raises:
            ConfigError: the address cannot be used.
        """
        self._service = service
        settings = service.settings
        self._sockets: dict[int, Any] = {}
        self._ending = threading.Event()
        self._cancelling = threading.Event()
        self._drained = threading.Event()
        self._is_log_moved = False
        threads = settings.model.max_running + settings.limits.max_queued + SPARE_THREADS
        self._dispatcher = ThreadedTaskDispatcher()
        try:
            self._server = self._listen(app, self._adjustments(threads))
        except OSError as error:
            message = f"{settings.server.listen}: {error.strerror or error}"
            raise ConfigError(f"{settings.path}: server.listen: {message}") from error
        self._server.service = service
        self._dispatcher.set_thread_count(threads)
        self.address = self._address()

    def run(self, *, signals: bool = True) -> int:
        """Answer until a signal, or `stop`; return the exit code 0.

        Args:
            signals: whether to take signals, which only the main thread can.
        """
        handlers = self._handlers() if signals else {}
        before = {number: signal.signal(number, call) for number, call in handlers.items()}
        try:
            while not self._ending.is_set():
                self._turn()
            drain = threading.Thread(target=self._drain, name="windhover-drain", daemon=True)
            drain.start()
            while not self._drained.is_set():
                self._turn()
            self._flush()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self.close()
        return 0

    def stop(self) -> None:
        """End `run` as a first signal does; called again, as a second one does. Any thread."""
        if self._ending.is_set():
            self._cancelling.set()
        self._ending.set()

    def close(self) -> None:
        """Close every socket, and remove the unix socket from its folder."""
        self._server.accepting = False
        for channel in list(self._server.active_channels.values()):
            channel.handle_close()
        self._dispatcher.shutdown(timeout=1)
        self._server.close()
        wasyncore.close_all(self._sockets, ignore_all=True)
        if self._service.settings.server.is_unix:
            Path(self.address[0]).unlink(missing_ok=True)

    @property
    def num_busy(self) -> int:
        """Number of connections on which something is still to be answered or delivered."""
        return sum(channel.is_busy for channel in self._channels())

    def _channels(self) -> list[Channel]:
        return list(self._server.active_channels.values())

    def _turn(self) -> None:
        """Wait for sockets once, and serve them."""
        wasyncore.poll2(_LOOK_S, self._sockets)
        if self._is_log_moved:
            self._is_log_moved = False
            self._service.access_log.reopen()

    def _handlers(self) -> dict[signal.Signals, Callable[[int, FrameType | None], None]]:
        """Return what is done at which signal.

        A process with a terminal gets SIGHUP when that is closed, and ends.
        """
        handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]]
        handlers = dict.fromkeys(_ENDINGS, self._on_ending)
        if self._service.settings.log.file is not None and not os.isatty(0):
            handlers[signal.SIGHUP] = self._on_hangup
        return handlers

    def _on_ending(self, number: int, frame: FrameType | None) -> None:
        self.stop()

    def _on_hangup(self, number: int, frame: FrameType | None) -> None:
        # Only noted: the log's lock may be held by what was interrupted.
        self._is_log_moved = True

    def _drain(self) -> None:
        """Wait for running requests, and cancel what is left."""
        service = self._service
        try:
            limit = time.monotonic() + service.settings.server.drain_s
            service.state.draining()
            service.access_log.event("drain", running=service.limits.num_running)
            work = threading.Thread(
                target=service.drain, args=(service.settings.server.drain_s,), daemon=True
            )
            work.start()
            self._wait(limit)
            if self._has_requests() or work.is_alive():
                service.cancel()
                self._wait(time.monotonic() + _CANCELLED_S, cancelled=True)
        except Exception as error:
            service.note_error(type(error).__name__, "appliance/service/server.py")
        finally:
            self._drained.set()

    def _wait(self, limit: float, *, cancelled: bool = False) -> None:
        while self._has_requests() and time.monotonic() < limit:
            if not cancelled and self._cancelling.is_set():
                return
            time.sleep(_LOOK_S / 10)

    def _has_requests(self) -> bool:
        return any(channel.requests for channel in self._channels())

    def _flush(self) -> None:
        """Accept nothing more, and deliver what is already said."""
        self._server.accepting = False
        limit = time.monotonic() + _FLUSH_S
        while self.num_busy and time.monotonic() < limit and not self._cancelling.is_set():
            self._turn()

    def _adjustments(self, threads: int) -> Adjustments:
        settings = self._service.settings
        server, body_bytes = settings.server, settings.limits.body_bytes
        common: dict[str, Any] = {
            "threads": threads,
            "backlog": _BACKLOG,
            "connection_limit": server.connections,
            "channel_timeout": server.idle_s,
            "cleanup_interval": 1,
            "channel_request_lookahead": 1,
            "max_request_header_size": HEADER_BYTES,
            "max_request_body_size": body_bytes + 1,
            "outbuf_high_watermark": HIGH_WATERMARK_BYTES,
            # Nothing of a prompt or an answer is written to a temporary file.
            "inbuf_overflow": body_bytes + 2,
            "outbuf_overflow": 1 << 40,
            "ident": None,
            "asyncore_use_poll": True,
            "expose_tracebacks": False,
            "log_socket_errors": False,
            "clear_untrusted_proxy_headers": True,
        }
        if server.is_unix:
            path = server.listen.removeprefix("unix:")
            return Adjustments(unix_socket=path, unix_socket_perms="600", **common)
        host, port = server.address
        return Adjustments(host=host, port=port, **common)

    def _listen(self, app: Flask, adjustments: Adjustments) -> Any:  # noqa: ANN401  (waitress)
        if not self._service.settings.server.is_unix:
            (socket_info,) = adjustments.listen[:1]
            return TcpServer(
                app, self._sockets, dispatcher=self._dispatcher, adj=adjustments,
                sockinfo=socket_info,
            )  # fmt: skip
        path = Path(adjustments.unix_socket)
        if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
            raise ConfigError(f"{path} exists, and is no socket")
        made = UnixServer(app, self._sockets, dispatcher=self._dispatcher, adj=adjustments)
        self._open_to_group(path)
        return made

    def _open_to_group(self, path: Path) -> None:
        """Let the group of nginx in; until here the socket is its owner's alone."""
        server = self._service.settings.server
        if server.unix_group:
            try:
                group = grp.getgrnam(server.unix_group).gr_gid
            except KeyError:
                where = f"{self._service.settings.path}: server.unix_group"
                raise ConfigError(f"{where}: there is no such group") from None
            os.chown(path, -1, group)
        path.chmod(int(server.unix_mode, 8))

    def _address(self) -> tuple[str, int]:
        settings = self._service.settings
        if settings.server.is_unix:
            return settings.server.listen.removeprefix("unix:"), 0
        host, port = self._server.socket.getsockname()[:2]
        if settings.server.address[1] == 0 and not settings.server.hosts:
            self._service.extra_hosts = loopback_hosts(port)
        return host, port
