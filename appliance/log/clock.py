"""The time that the log writes down, which never falls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from appliance.log.errors import LogUnavailableError

BEHIND_MS: Final = 300_000
AHEAD_MS: Final = 86_400_000


def now_ms() -> int:
    """Return the clock's time in milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


class LogClock:
    """A clock beside the last time in the log."""

    def __init__(self, read: Callable[[], int], last_ms: int) -> None:
        """Read the time with `read`, in milliseconds; the log's last time is `last_ms`."""
        self._read = read
        self._last_ms = last_ms

    @property
    def is_right(self) -> bool:
        """Whether the clock is not too far behind the log."""
        return self._read() >= self._last_ms - BEHIND_MS

    def next(self) -> tuple[int, int]:
        """Return the time that comes next in the log, and by how much it jumps ahead, or 0.

        Raises:
            LogUnavailableError: `clock`: the clock is more than 300 s behind the log.
        """
        now = self._read()
        if now < self._last_ms - BEHIND_MS:
            behind_s = (self._last_ms - now) // 1000
            message = f"the clock is {behind_s} s behind the last time in the log"
            raise LogUnavailableError("clock", message)
        jump = now - self._last_ms
        return max(now, self._last_ms), jump if jump > AHEAD_MS else 0

    def wrote(self, time_ms: int) -> None:
        """Remember a time that the log has now."""
        self._last_ms = time_ms
