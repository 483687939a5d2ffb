"""A service whose engine waits, fails or is full when a test says so, behind a relay."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx
import openai

from tests.appliance.conformance.relay import Relay
from tests.appliance.service.test_chat import Served

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from appliance.attestation import Attestor
    from appliance.log.log import Log
    from appliance.service.service import Service
    from engine.model import Model

LIMITS = "[limits]\nmax_queued = 1\n"


class Stage:
    """The service, the relay in front of it, and its engine.

    Attributes:
        served: the service in this process; its address is a real socket.
        relay: what the SDK talks to.
    """

    def __init__(
        self,
        folder: Path,
        model: Model,
        log: Log,
        attestor: Attestor,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Keep what it is made of; it begins with `with`."""
        self._made = (folder / "service", model, log, attestor)
        self._monkeypatch = monkeypatch
        self._steps = threading.Semaphore(0)
        self._is_held = False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start it."""
        self.served = Served(*self._made, more=LIMITS)
        self._stack.callback(self.served.service.stop)
        self.address = self._stack.enter_context(self.served.serving())
        self._stack.callback(self.let_go)
        self.relay = Relay(*self.address.server.address)
        self._stack.callback(self.relay.close)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it; every place was given back."""
        self._stack.close()
        if kind is None:
            assert self.service.worker.numbers.places == 0

    @property
    def service(self) -> Service:
        """The service."""
        return self.served.service

    def client(self, key: str | None = None, **options: Any) -> openai.OpenAI:
        """Return OpenAI's SDK as it is, connected to the relay."""
        headers = {"Host": self.relay.host} | options.pop("headers", {})
        made = {"max_retries": 2, "timeout": 60.0, "default_headers": headers} | options
        client = openai.OpenAI(base_url=self.relay.url, api_key=key or self.served.key.text, **made)
        return self._stack.enter_context(client)

    def get(self, path: str) -> httpx.Response:
        """Get something else."""
        url = f"http://{self.relay.host}{path}"
        return httpx.get(url, headers=self.served.headers, timeout=20)

    def ask(self, client: openai.OpenAI | None = None, **options: Any) -> Any:
        """Ask for a short answer."""
        given = {"model": "tiny", "max_tokens": 4, "seed": 5} | options
        given.setdefault("messages", [{"role": "user", "content": "Why?"}])
        return (client or self.client()).chat.completions.create(**given)

    def hold(self) -> None:
        """Have the engine wait before each step, until it is allowed."""
        self._is_held = True
        step = self._engine.step

        def waiting(engine: Any, *args: Any, **options: Any) -> Any:
            if self._is_held:
                self._steps.acquire()
            return step(engine, *args, **options)

        self._monkeypatch.setattr(self._engine, "step", waiting)

    def allow(self, num_steps: int = 1) -> None:
        """Let the engine make some steps more."""
        self._steps.release(num_steps)

    def let_go(self) -> None:
        """Let the engine go on as it likes."""
        self._is_held = False
        self._steps.release(1000)

    def fail(self, error: Exception, *, after: int = 0) -> None:
        """Have the engine fail from its next step on, or some steps later."""
        step, left = self._engine.step, [after]

        def failing(engine: Any, *args: Any, **options: Any) -> Any:
            if left[0] == 0:
                raise error
            left[0] -= 1
            return step(engine, *args, **options)

        self._monkeypatch.setattr(self._engine, "step", failing)

    @property
    def _engine(self) -> Any:
        return type(self._made[1].engine)
