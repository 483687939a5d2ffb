"""The one object that routes get: everything that belongs to a running service."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from appliance.attestation import Attestor
from appliance.log.log import Log
from appliance.service.access_log import AccessLog
from appliance.service.keys import KeyStore
from appliance.service.limits import RateLimiter
from appliance.service.metrics import Metrics
from appliance.service.readiness import Readiness
from appliance.service.settings import Settings

if TYPE_CHECKING:
    from appliance.service.answering import Answering
    from appliance.service.attestations import AttestationStore
    from appliance.service.start_report import StartReport
    from appliance.service.worker import EngineWorker
    from engine.model import Model

_MAX_ERRORS = 20


@dataclass(slots=True, kw_only=True, eq=False)
class Service:
    """A service; what is None while it loads is there from `begin` on.

    Attributes:
        settings: the configuration.
        state: whether requests are answered.
        keys: who may ask.
        limits: how much one may ask.
        metrics: what has happened, in numbers.
        access_log: the same, line by line.
        started_ms: milliseconds since 1970-01-01 UTC.
        extra_hosts: values of `Host` that are answered besides, of a port that was free.
        model: what answers.
        log: where statements go.
        attestor: what makes them.
        worker: the engine's thread.
        attestations: bundles that can be fetched.
        answering: what takes requests for text.
        report: how the start went so far.
        on_begin: called with the service when model, log and attestor are there.
        on_drain: called with the seconds that running requests have left, when the process is to
            end; each returns when it has seen to that.
        on_cancel: called when they have none left.
        on_stop: called at the end, the last one added first.
        errors: the last failures that nobody expected, for the operator's page.
    """

    settings: Settings
    state: Readiness
    keys: KeyStore
    limits: RateLimiter
    metrics: Metrics
    access_log: AccessLog
    started_ms: int
    extra_hosts: frozenset[str] = frozenset()
    model: Model | None = None
    log: Log | None = None
    attestor: Attestor | None = None
    worker: EngineWorker | None = None
    attestations: AttestationStore | None = None
    answering: Answering | None = None
    report: StartReport | None = None
    on_begin: list[Callable[[Service], None]] = field(default_factory=list)
    on_drain: list[Callable[[float], None]] = field(default_factory=list)
    on_cancel: list[Callable[[], None]] = field(default_factory=list)
    on_stop: list[Callable[[], None]] = field(default_factory=list)
    errors: deque[dict[str, str | int]] = field(default_factory=lambda: deque(maxlen=_MAX_ERRORS))
    _stopping: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def new(cls, settings: Settings) -> Self:
        """Return a service in the state `loading`."""
        service = cls(
            settings=settings,
            state=Readiness(),
            keys=KeyStore(settings.auth.keys),
            limits=RateLimiter(settings.limits),
            metrics=Metrics(),
            access_log=AccessLog(settings.log.file),
            started_ms=time.time_ns() // 1_000_000,
        )
        service.metrics.gauge("ready", "Whether requests are answered", service.ready_number)
        service.metrics.gauge(
            "lost_log_lines", "Lines of the access log that could not be written",
            lambda: service.access_log.lost,
        )  # fmt: skip
        service.metrics.gauge(
            "open_requests", "Requests that run or wait", lambda: service.limits.num_running
        )
        return service

    def begin(self, *, model: Model, log: Log, attestor: Attestor) -> None:
        """Take what answers and attests, and start what `on_begin` starts with it."""
        self.model, self.log, self.attestor = model, log, attestor
        for call in self.on_begin:
            call(self)

    @property
    def model_name(self) -> str:
        """What requests and answers call the model."""
        return self.settings.model_name

    def ready_number(self) -> float:
        """Return 1 while requests are answered, else 0."""
        return float(self.state.is_ready)

    def look(self) -> None:
        """Note or clear what stands in the way of answering: keys and log, as they are now."""
        failure = self.keys.failure
        if failure is None:
            self.state.clear("keys")
        else:
            # Without the path and the file system's words, which the operator finds on /v1/status.
            self.state.problem("keys", "the file of API keys cannot be used")
        self._look_at_log()

    def _look_at_log(self) -> None:
        log = self.log
        if log is None or (log.state == "ready" and log.has_room):
            self.state.clear("log")
        elif log.state == "ready":
            self.state.problem("log", "the log cannot be written: the disk is full")
        else:
            self.state.problem("log", f"the log cannot be written: {log.state}")

    def note_error(self, kind: str, where: str) -> None:
        """Keep a failure that nobody expected: its class and a place in our code, no text."""
        now_ms = time.time_ns() // 1_000_000
        self.errors.append({"time_ms": now_ms, "kind": kind, "where": where})

    def drain(self, seconds: float) -> None:
        """Refuse new requests, and give running ones so many seconds; waits for that."""
        self.state.draining()
        for call in self.on_drain:
            call(seconds)

    def cancel(self) -> None:
        """End what is still running."""
        for call in self.on_cancel:
            call()

    def stop(self) -> None:
        """End everything that was started, the last first; nothing happens the second time."""
        with self._stopping:
            while self.on_stop:
                self.on_stop.pop()()
        self.access_log.close()
