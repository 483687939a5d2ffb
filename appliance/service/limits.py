"""What one principal may take: requests, tokens, and how much at once.

A bucket holds what may be taken now, and fills by the minute's amount in a minute; all of it is
whole numbers, so that no rounding adds up. What is only known afterwards (generated tokens) is
taken afterwards and can leave a debt, which the next request waits for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from appliance.api.errors import rate_limit_exceeded
from appliance.service.principals import KeyLimits, Principal
from appliance.service.sections import LimitSettings

MINUTE_MS: Final = 60_000
BUSY_RETRY_S: Final = 5
"""When to ask again while too many requests of a key are running: nobody knows when one ends."""


class Bucket:
    """An allowance that refills. Not for several threads at once."""

    __slots__ = ("_level", "_per_minute", "_seen_ms")

    def __init__(self, per_minute: int, now_ms: int) -> None:
        """Begin full; `per_minute` is at least 1."""
        self._per_minute = per_minute
        self._level = per_minute * MINUTE_MS
        self._seen_ms = now_ms

    @property
    def per_minute(self) -> int:
        """How much comes in a minute, and how much there is at most."""
        return self._per_minute

    def wait_ms(self, amount: int, now_ms: int) -> int:
        """Return how long it takes until `amount` can be taken; one above the most waits for full.

        Args:
            amount: at least 1.
            now_ms: the time.
        """
        self._fill(now_ms)
        missing = min(amount, self._per_minute) * MINUTE_MS - self._level
        return max(0, -(-missing // self._per_minute))

    def take(self, amount: int, now_ms: int) -> None:
        """Take `amount`, also what is not there."""
        self._fill(now_ms)
        self._level -= amount * MINUTE_MS

    def _fill(self, now_ms: int) -> None:
        passed_ms = max(0, now_ms - self._seen_ms)
        self._seen_ms = max(self._seen_ms, now_ms)
        full = self._per_minute * MINUTE_MS
        self._level = min(full, self._level + passed_ms * self._per_minute)


class _Account:
    """What one principal has taken."""

    __slots__ = ("buckets", "running")

    def __init__(self) -> None:
        self.buckets: dict[str, Bucket] = {}
        self.running = 0


class Slot:
    """A request that was let in: it counts among those of its principal until it is released.

    Attributes:
        is_open: whether it was not released yet; the limiter's to change.
    """

    __slots__ = ("_limiter", "_principal", "is_open")

    def __init__(self, limiter: RateLimiter, principal: Principal) -> None:
        """Keep what `RateLimiter.open` has counted."""
        self._limiter = limiter
        self._principal = principal
        self.is_open = True

    def __enter__(self) -> Self:
        """Return the slot."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release it."""
        self.release()

    def generated(self, num_tokens: int) -> None:
        """Charge generated tokens."""
        self._limiter.charge(self._principal, num_tokens)

    def release(self) -> None:
        """Give the place back; nothing happens the second time."""
        self._limiter.close(self, self._principal)


class RateLimiter:
    """The limits of all principals of a service. Any thread may call."""

    def __init__(
        self,
        defaults: LimitSettings,
        *,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        """Limit by what keys say, and by the defaults where they say nothing.

        Args:
            defaults: limits per minute and at once, 0 for none.
            clock_ms: a clock that only moves forward, in milliseconds.
        """
        self._defaults = defaults
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._accounts: dict[bytes, _Account] = {}

    @property
    def num_running(self) -> int:
        """Number of slots that are open."""
        with self._lock:
            return sum(account.running for account in self._accounts.values())

    def request(self, principal: Principal) -> None:
        """Count a request.

        Raises:
            ApiError: 429, with the time to wait.
        """
        name, now_ms = "requests_per_minute", self._clock_ms()
        with self._lock:
            bucket = self._bucket(principal, name, now_ms)
            if bucket is None:
                return
            self._refuse_empty(bucket, 1, now_ms, "requests")
            bucket.take(1, now_ms)

    def open(self, principal: Principal, prompt_tokens: int) -> Slot:
        """Let a request with so many prompt tokens in; nothing is counted where it is refused.

        Raises:
            ApiError: 429, with the time to wait.
        """
        now_ms = self._clock_ms()
        with self._lock:
            account = self._account(principal)
            most = self._most(principal.limits, "concurrent_requests")
            if most and account.running >= most:
                raise rate_limit_exceeded(f"{most} requests at once", BUSY_RETRY_S)
            generated = self._bucket(principal, "generated_tokens_per_minute", now_ms)
            if generated is not None:
                self._refuse_empty(generated, 1, now_ms, "generated tokens")
            prompt = self._bucket(principal, "prompt_tokens_per_minute", now_ms)
            if prompt is not None and prompt_tokens > 0:
                self._refuse_empty(prompt, prompt_tokens, now_ms, "prompt tokens")
                prompt.take(prompt_tokens, now_ms)
            account.running += 1
        return Slot(self, principal)

    def charge(self, principal: Principal, num_tokens: int) -> None:
        """Take generated tokens from the allowance of a principal."""
        now_ms = self._clock_ms()
        with self._lock:
            bucket = self._bucket(principal, "generated_tokens_per_minute", now_ms)
            if bucket is not None:
                bucket.take(num_tokens, now_ms)

    def close(self, slot: Slot, principal: Principal) -> None:
        """Count a slot out, once."""
        with self._lock:
            if slot.is_open:
                slot.is_open = False
                self._account(principal).running -= 1

    def _account(self, principal: Principal) -> _Account:
        # One account for each entry of the file of keys at most: their number has a bound.
        return self._accounts.setdefault(principal.id, _Account())

    def _most(self, limits: KeyLimits, name: str) -> int:
        own: int | None = getattr(limits, name)
        default: int = getattr(self._defaults, name)
        return default if own is None else own

    def _bucket(self, principal: Principal, name: str, now_ms: int) -> Bucket | None:
        """Return an allowance, a new one where the limit has changed; None without a limit."""
        most = self._most(principal.limits, name)
        buckets = self._account(principal).buckets
        if most == 0:
            buckets.pop(name, None)
            return None
        bucket = buckets.get(name)
        if bucket is None or bucket.per_minute != most:
            bucket = buckets[name] = Bucket(most, now_ms)
        return bucket

    @staticmethod
    def _refuse_empty(bucket: Bucket, amount: int, now_ms: int, what: str) -> None:
        wait_ms = bucket.wait_ms(amount, now_ms)
        if wait_ms:
            limit = f"{bucket.per_minute} {what} a minute"
            raise rate_limit_exceeded(limit, -(-wait_ms // 1000))
