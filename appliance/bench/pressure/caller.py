"""Asks a service in the ways that the load test needs, as somebody who waits when told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from appliance.bench.pressure.exchange import Got, Manner, exchange
from engine.errors import ConfigError

BUSY: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class Caller:
    """A service, and a key for it."""

    url: str
    key: str | None

    def headers(self, nonce: str | None = None) -> dict[str, str]:
        """Return the headers of a request with a body."""
        headers = {"Content-Type": "application/json"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        return headers if nonce is None else headers | {"Windhover-Nonce": nonce}

    def send(self, path: str, body: bytes | None, manner: Manner, nonce: str | None) -> Got:
        """Send a request once."""
        if body is None:
            headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
            return exchange(self.url, "GET", path, headers=headers, manner=manner)
        headers = self.headers(nonce)
        return exchange(self.url, "POST", path, headers=headers, body=body, manner=manner)

    def ask(self, path: str, fields: Mapping[str, Any] | None = None) -> Got:
        """Ask until it is neither too busy nor too early.

        Raises:
            ConfigError: it is not answered with 200.
        """
        body = None if fields is None else json.dumps(fields).encode("utf-8")
        while True:
            got = self.send(path, body, Manner(), None)
            if got.status == HTTPStatus.OK and got.failure is None:
                return got
            wait_s = got.retry_after_s
            if got.status not in BUSY or wait_s is None:
                what = got.failure or f"status {got.status}, {got.code}"
                raise ConfigError(f"{self.url}{path}: {what}")
            threading.Event().wait(wait_s)
