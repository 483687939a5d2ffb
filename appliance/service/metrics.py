"""Numbers for Prometheus: what was asked and answered, how long it took, what failed.

Labels have few values each (routes, statuses, finish reasons): never a name, a key or a prompt.

Source: Prometheus text exposition format 0.0.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from appliance.service.access_log import AccessRecord

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_LONG_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_SHORT_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """The numbers of one service. Any thread may call.

    Attributes:
        registry: all of them.
        requests: by route, status and finish reason.
        prompt_tokens: of prompts that were answered.
        generated_tokens: of answers.
        cached_tokens: of prompts, not computed again.
        duration: of a request, in seconds, by route.
        first_token: until the first token, in seconds.
        step: of the engine, in seconds.
        weight_failures: weights that did not verify.
        attestation_failures: answers that could not be attested.
        disconnects: clients that left before the end.
    """

    def __init__(self) -> None:
        """Begin at nothing."""
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"namespace": "windhover", "registry": self.registry}
        self.requests = Counter(
            "requests", "Requests by route, status and finish reason",
            ["route", "status", "finish"], **made,
        )  # fmt: skip
        self.prompt_tokens = Counter("prompt_tokens", "Prompt tokens answered", **made)
        self.generated_tokens = Counter("generated_tokens", "Tokens generated", **made)
        self.cached_tokens = Counter("cached_tokens", "Prompt tokens found in the cache", **made)
        self.duration = Histogram(
            "request_seconds", "Time of a request", ["route"], buckets=_LONG_S, **made
        )
        self.first_token = Histogram(
            "first_token_seconds", "Time until the first token", buckets=_LONG_S, **made
        )
        self.step = Histogram(
            "step_seconds", "Time of a step of the engine", buckets=_SHORT_S, **made
        )
        self.weight_failures = Counter("weight_failures", "Weights that did not verify", **made)
        self.attestation_failures = Counter(
            "attestation_failures", "Answers that could not be attested", **made
        )
        self.disconnects = Counter("disconnects", "Clients that left before the end", **made)

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Add a number that is asked for when it is wanted; the callable must not wait."""
        Gauge(name, text, namespace="windhover", registry=self.registry).set_function(read)

    def record(self, record: AccessRecord) -> None:
        """Count a request that is over."""
        finish = record.finish or record.code or "none"
        self.requests.labels(record.route, str(record.status), finish).inc()
        self.duration.labels(record.route).observe(record.duration_ms / 1000)
        self.prompt_tokens.inc(record.prompt_tokens or 0)
        self.generated_tokens.inc(record.generated_tokens or 0)
        self.cached_tokens.inc(record.cached_tokens or 0)
        if record.first_token_ms is not None:
            self.first_token.observe(record.first_token_ms / 1000)

    def text(self) -> bytes:
        """Return all numbers in the text format."""
        return generate_latest(self.registry)
