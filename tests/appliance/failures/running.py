"""A service as a process of its own, asked over its socket, for tests of what goes wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.appliance.cli.test_serve import DEV, ended
from tests.appliance.service.child import CHECKOUT, environment
from tests.appliance.service.site import Site, windhover

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHAT = "/v1/chat/completions"
LOG_AND_ANCHOR = 'log = "log"\nanchor = "anchor"'

SCOPES = ("generate", "models", "attestations", "log", "status", "metrics")
PROGRAM = """
import sys
from appliance.cli.main import main
from appliance.service import start
start.begin_software_digest = lambda: lambda: bytes(range(32))
sys.argv[0] = "windhover"
main()
"""
"""The command as it is, but for the seconds that every start reads all software around it."""


def serve(site: Site, *words: str, **settings: str) -> subprocess.Popen[str]:
    """Start the service of a site."""
    config = str(site.path("appliance.toml"))
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "serve", "--config", config, "--json", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
        env=environment(**settings),
    )


class Running:
    """The service of a site, and its address."""

    def __init__(self, site: Site, **settings: str) -> None:
        """Start it, and wait until it says that it is ready."""
        self.site = site
        self.process: subprocess.Popen[str] = serve(site, **settings)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.ready = json.loads(line or "{}")
        if "ready" not in self.ready:
            pytest.fail(ended(self.process)[2])
        self.url: str = self.ready["ready"]
        self.headers = {"Authorization": f"Bearer {site.key}"}

    def get(self, path: str) -> httpx.Response:
        """Ask for something."""
        return httpx.get(self.url + path, headers=self.headers, timeout=30)

    def body(self, **options: Any) -> dict[str, Any]:
        """Return a request for a short answer."""
        messages = [{"role": "user", "content": "Why?"}]
        return {"model": "model", "messages": messages, "max_tokens": 4} | options

    def ask(self, **options: Any) -> httpx.Response:
        """Ask for an answer as a whole."""
        body = self.body(**options)
        return httpx.post(self.url + CHAT, headers=self.headers, json=body, timeout=60)

    def events(self, **options: Any) -> Iterator[str]:
        """Ask for a stream, and return the data of its events as they come.

        Raises:
            TransportError: the connection was cut.
        """
        body = self.body(stream=True, **options)
        with httpx.stream(
            "POST", self.url + CHAT, headers=self.headers, json=body, timeout=60
        ) as response:
            if response.status_code != 200:
                response.read()
                yield response.text
                return
            self_id = response.headers["windhover-attestation"]
            yield json.dumps({"announced": self_id})
            for line in response.iter_lines():
                if line.startswith("data: "):
                    yield line.removeprefix("data: ")

    def wait_for(self, status: int) -> dict[str, Any]:
        """Return what /ready says once it answers so."""
        for _ in range(300):
            response = self.get("/ready")
            if response.status_code == status:
                value: dict[str, Any] = response.json()
                return value
            time.sleep(0.1)
        pytest.fail(f"/ready never answered {status}: {response.text}")

    def status(self) -> dict[str, Any]:
        """Return what the operator sees."""
        response = self.get("/v1/status")
        assert response.status_code == 200, response.text
        value: dict[str, Any] = response.json()
        return value

    def end(self) -> tuple[int, str]:
        """Ask it to end; return the exit code and what it said to a person."""
        self.process.send_signal(signal.SIGTERM)
        exit_code, _, err = ended(self.process)
        return exit_code, err


@contextmanager
def running(site: Site, **settings: str) -> Iterator[Running]:
    """Start the service and stop it, whatever happens."""
    service = Running(site, **settings)
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.end()


def make_site(folder: Path, weights: Path) -> Site:
    """Make a site whose kernels come from the user's cache, with an operator's key."""
    site = Site(folder, weights)
    site.key = site.new_key(*SCOPES)
    site.configure(DEV)
    return site


def configure_production(site: Site, kernels: Path) -> None:
    """Write the configuration of mode production, with prepared kernels."""
    lines = f'context_tokens = 512\nkernel_cache = "{kernels}"'
    site.configure(old="context_tokens = 256", new=lines)


def refusal(site: Site, *words: str, **settings: str) -> tuple[int, str]:
    """Start a service that cannot start; return its exit code and the one line that it says."""
    exit_code, out, err = ended(serve(site, *words, **settings))
    assert "ready" not in out
    (line,) = err.splitlines()
    return exit_code, line.removeprefix("windhover: ")


def reasons(value: dict[str, Any]) -> dict[str, str]:
    """Return the reasons of /ready or /v1/status by their codes."""
    return {each["code"]: each["message"] for each in value["reasons"]}


def assert_closed(response: httpx.Response) -> None:
    """Require a refusal of the service that has nothing of an answer."""
    assert response.status_code == 503, response.text
    assert response.json().keys() == {"error"}
    assert response.headers["retry-after"]


def log_is_whole(site: Site, log: Path | None = None, anchor: Path | None = None) -> dict[str, Any]:
    """Check the log as a person does, and return what the command says."""
    out = windhover(
        "log", "check", log or site.path("log"), "--anchor", anchor or site.path("anchor"),
        "--trust", site.path("trust.toml"), "--json",
    )  # fmt: skip
    value: dict[str, Any] = json.loads(out.splitlines()[-1])
    return value
