"""Whether requests are answered, and if not, why: for load balancers as codes, for people in words.

A phase moves forward only: loading, ready, draining; `failed` ends everything but draining.
Problems come and go beside it (a file of keys that cannot be read), and while there is one nothing
is answered either.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from appliance.api.errors import ApiError, not_ready

Phase: TypeAlias = Literal["loading", "ready", "draining", "failed"]

RETRY_AFTER_S: Final = 5
"""When to ask again while loading or draining."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why nothing is answered: a stable code, and a line without secrets for a person."""

    code: str
    message: str


class Readiness:
    """The state of one service. Any thread may call."""

    def __init__(self) -> None:
        """Begin with loading."""
        self._lock = threading.Lock()
        self._phase: Phase = "loading"
        self._step = Reason("starting", "the service is starting")
        self._problems: dict[str, Reason] = {}

    @property
    def phase(self) -> Phase:
        """Where it is."""
        return self._phase

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered."""
        return self._phase == "ready" and not self._problems

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why not, the most important first; empty when it is ready."""
        with self._lock:
            steps = () if self._phase == "ready" else (self._step,)
            return (*steps, *self._problems.values())

    def loading(self, code: str, message: str) -> None:
        """Say which step of the start is going on; nothing happens once that is over."""
        with self._lock:
            if self._phase == "loading":
                self._step = Reason(code, message)

    def ready(self) -> bool:
        """End the start well; return False where it was ended otherwise before."""
        with self._lock:
            if self._phase == "loading":
                self._phase = "ready"
            return self._phase == "ready"

    def failed(self, code: str, message: str) -> None:
        """Say that nothing will be answered any more, and why; the first failure stays."""
        with self._lock:
            if self._phase in ("loading", "ready"):
                self._phase, self._step = "failed", Reason(code, message)

    def draining(self) -> None:
        """Say that the process is about to end."""
        with self._lock:
            self._phase = "draining"
            self._step = Reason("draining", "the service is stopping")

    def problem(self, code: str, message: str) -> None:
        """Note what stands in the way until it is cleared."""
        with self._lock:
            self._problems[code] = Reason(code, message)

    def clear(self, code: str) -> None:
        """Note that it does not any more."""
        with self._lock:
            self._problems.pop(code, None)

    def require(self) -> None:
        """Let a request pass.

        Raises:
            ApiError: 503 not_ready, with the first reason.
        """
        if self.is_ready:
            return
        reasons = self.reasons
        if reasons:
            raise self.error(reasons[0])

    @staticmethod
    def error(reason: Reason) -> ApiError:
        """Return the refusal for a reason."""
        return not_ready(reason.message, RETRY_AFTER_S)
