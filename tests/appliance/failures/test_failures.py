"""What goes wrong around a service that runs: it fails closed, says why, and loses nothing."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from appliance.log.anchor import FileAnchor
from appliance.log.clock import now_ms
from appliance.log.create import create_log
from crypto.keys import load_private_key
from crypto.signer import SoftwareSigner
from tests.appliance.cli.test_serve import DEV, ended, serve
from tests.appliance.service.site import Site, windhover

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.ci]

CHAT = "/v1/chat/completions"
HOUR_MS = 3_600_000


class Running:
    """A service as a process, and its address."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.process: subprocess.Popen[str] = serve(site, "--json")
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            pytest.fail(ended(self.process)[2])
        self.ready = json.loads(line)
        self.url: str = self.ready["ready"]

    def get(self, path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.site.key}"}
        return httpx.get(self.url + path, headers=headers, timeout=30)

    def body(self, **options: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": "Why?"}]
        return {"model": "model", "messages": messages, "max_tokens": 4} | options

    def ask(self, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.site.key}"}
        return httpx.post(self.url + CHAT, headers=headers, json=self.body(**options), timeout=60)

    def wait_for(self, status: int) -> dict[str, Any]:
        """Return what /ready says once it answers so."""
        for _ in range(300):
            response = self.get("/ready")
            if response.status_code == status:
                value: dict[str, Any] = response.json()
                return value
            time.sleep(0.1)
        pytest.fail(f"/ready never answered {status}: {response.text}")


@contextmanager
def running(site: Site) -> Iterator[Running]:
    """Start the service and stop it, whatever happens."""
    service = Running(site)
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.process.send_signal(signal.SIGTERM)
            ended(service.process)


@pytest.fixture
def site(tmp_path: Path, tiny_file: Path) -> Site:
    made = Site(tmp_path, tiny_file)
    made.configure(DEV)
    return made


def log_is_whole(site: Site) -> dict[str, Any]:
    """Check the log as a person does, and return what the command says."""
    out = windhover(
        "log", "check", site.path("log"), "--anchor", site.path("anchor"), "--trust",
        site.path("trust.toml"), "--json",
    )  # fmt: skip
    value: dict[str, Any] = json.loads(out.splitlines()[-1])
    return value


def test_a_key_file_that_goes_away_and_comes_back(site: Site) -> None:
    with running(site) as service:
        assert service.ask().status_code == 200
        site.path("keys.json").rename(site.path("away.json"))
        why = service.wait_for(503)
        assert "keys" in json.dumps(why)
        assert service.ask().status_code == 503
        assert service.get("/health").status_code == 200
        site.path("away.json").rename(site.path("keys.json"))
        service.wait_for(200)
        assert service.ask().status_code == 200


def test_a_disk_without_room_answers_nothing_and_goes_on_when_it_has_some(site: Site) -> None:
    with running(site) as service:
        before = service.ask()
        assert before.status_code == 200
        size = max(path.stat().st_size for path in site.path("log").rglob("*") if path.is_file())
        pid = service.process.pid
        old = resource.prlimit(pid, resource.RLIMIT_FSIZE, (min(size, 512), -1))
        refused = [service.ask() for _ in range(3)]
        assert [response.status_code for response in refused] == [503] * 3
        for response in refused:
            assert set(response.json()) == {"error"}
        assert service.get("/health").status_code == 200
        resource.prlimit(pid, resource.RLIMIT_FSIZE, old)
        assert service.ask().status_code == 200
    with running(site) as service:
        assert service.ask().status_code == 200
    log_is_whole(site)


def test_a_clock_behind_the_log_is_not_ready(site: Site) -> None:
    key = load_private_key(site.path("attest.pem"), passphrase=None, role="attest")
    create_log(
        site.path("later"),
        signer=SoftwareSigner(key),
        issuer="an appliance",
        anchor=FileAnchor(site.path("later-anchor")),
        clock=lambda: now_ms() + HOUR_MS,
    )
    site.configure(
        DEV, old='log = "log"\nanchor = "anchor"', new='log = "later"\nanchor = "later-anchor"'
    )
    with running(site) as service:
        assert "clock" in json.dumps(service.wait_for(503))
        refused = service.ask()
        assert refused.status_code == 503
        assert refused.headers["retry-after"]
        assert service.get("/health").status_code == 200


def test_a_second_service_does_not_write_the_same_log(site: Site) -> None:
    with running(site) as service:
        exit_code, out, err = ended(serve(site, "--json"))
        assert exit_code != 0
        assert "log" in out + err
        assert service.ask().status_code == 200


def test_killed_under_load_nothing_released_is_lost(site: Site) -> None:
    released: list[tuple[str, int, str]] = []
    refused: list[str] = []
    lost = 0
    for _ in range(3):
        service = Running(site)
        lost += service.ready["lost_admissions"]

        def client(number: int, service: Running = service) -> None:
            try:
                for turn in range(500):
                    response = service.ask(seed=number * 1000 + turn, max_tokens=6)
                    if response.status_code != 200:
                        refused.append(response.text)
                        continue
                    said = response.json()["attestation"]
                    released.append((said["id"], said["sequence"], said["statement"]))
            except httpx.TransportError:
                pass  # killed while it answered, or before it was asked

        threads = [threading.Thread(target=client, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        time.sleep(1.5)
        os.kill(service.process.pid, signal.SIGKILL)
        for thread in threads:
            thread.join()
        service.process.communicate()
    assert len(released) > 20
    assert refused == []
    with running(site) as service:
        lost += service.ready["lost_admissions"]
        for attestation, sequence, statement in released:
            found = service.get(f"/v1/attestations/{attestation}").json()
            assert (found["sequence"], found["statement"]) == (sequence, statement)
    # a request that was admitted when its process ended is closed by the next one
    assert lost > 0
    assert log_is_whole(site)["open_admissions"] == 0
