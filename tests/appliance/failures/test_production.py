"""Mode production: locked, verified by others, and ended without loss."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.appliance.failures.running import (
    CHAT,
    Running,
    configure_production,
    log_is_whole,
    make_site,
    running,
)
from tests.appliance.service.child import CHECKOUT, environment
from tests.appliance.service.site import Site, windhover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, tiny_file: Path, prepared_kernels: Path) -> Site:
    made = make_site(tmp_path_factory.mktemp("site"), tiny_file)
    configure_production(made, prepared_kernels)
    return made


@pytest.fixture(scope="module")
def service(site: Site) -> Iterator[Running]:
    with running(site) as started:
        yield started


def verified(service: Running, attestation: str, *words: object) -> dict[str, Any]:
    """Fetch a bundle, and return what the verifier says about it."""
    site = service.site
    bundle, trust = site.path("a.bundle"), site.path("verifier.toml")
    content = service.get(f"/v1/attestations/{attestation}?format=bundle")
    assert content.status_code == 200, content.text
    bundle.write_bytes(content.content)
    log_id = service.status()["log"]["log_id"]
    trust.write_text(site.path("trust.toml").read_text() + f'\n[logs.tiny]\nid = "{log_id}"\n')
    result = subprocess.run(
        [sys.executable, "-m", "verifier", str(bundle), "--trust", str(trust), "--json"]
        + [str(word) for word in words],
        check=False, capture_output=True, text=True, cwd=CHECKOUT, env=environment(),
    )  # fmt: skip
    value: dict[str, Any] = json.loads(result.stdout)
    return value


@pytest.mark.ci
def test_it_is_locked_and_reads_prepared_kernels(service: Running) -> None:
    assert service.ready["write_xor_execute"] == "locked"
    assert service.ready["kernels"] == "prepared"
    status = service.status()
    assert (status["mode"], status["ready"]) == ("production", True)
    assert status["model"]["verdict"] == "signed"
    assert status["model"]["write_xor_execute"] == "locked"


@pytest.mark.ci
def test_an_answer_passes_the_verifier_and_an_altered_one_does_not(service: Running) -> None:
    request = json.dumps(service.body(max_tokens=8)).encode()
    headers = service.headers | {"Content-Type": "application/json"}
    response = httpx.post(service.url + CHAT, headers=headers, content=request, timeout=60)
    attestation = response.headers["windhover-attestation"]
    site = service.site
    site.path("request").write_bytes(request)
    site.path("response").write_bytes(response.content)
    words = ("--request", site.path("request"), "--response", site.path("response"))
    assert verified(service, attestation, *words)["verdict"] == "PASS"
    site.path("request").write_bytes(request.replace(b"Why?", b"Who?"))
    assert verified(service, attestation, *words)["verdict"] == "FAIL"


@pytest.mark.ci
def test_a_stream_that_was_cut_can_be_proved_cut(service: Running) -> None:
    prefix = service.site.path("stream")
    for _ in range(20):
        attestation, received = cut_stream(service)
        prefix.write_text(received)
        wait_until_closed(service, attestation)
        said = verified(service, attestation, "--response-prefix", prefix)
        if said["appliance_says"]["outcome"] != "answered":  # it was quicker than its client
            break
    assert said["verdict"] == "PASS"
    assert said["appliance_says"]["outcome"] == "disconnected"
    assert "[DONE]" not in received
    assert '"finish_reason":null' in received
    # the prefix of another answer is none of this one
    first = next(line for line in received.splitlines() if '"content":"' in line)
    content = json.loads(first.removeprefix("data: "))
    content["choices"][0]["delta"]["content"] = "something else"
    prefix.write_text(received.replace(first, f"data: {json.dumps(content)}"))
    assert verified(service, attestation, "--response-prefix", prefix)["verdict"] == "FAIL"


def cut_stream(service: Running) -> tuple[str, str]:
    """Ask for a stream and leave in the middle; return its attestation and what came."""
    body = service.body(stream=True, max_tokens=400)
    events = []
    with httpx.stream(
        "POST", service.url + CHAT, headers=service.headers, json=body, timeout=60
    ) as response:
        for line in response.iter_lines():
            events.append(line)
            if sum('"content":"' in each for each in events) == 5:
                break
    return response.headers["windhover-attestation"], "\n".join(events) + "\n\n"


def wait_until_closed(service: Running, attestation: str) -> None:
    """Wait until an answer has its statement."""
    for _ in range(300):
        if service.get(f"/v1/attestations/{attestation}").status_code == 200:
            return
        time.sleep(0.05)
    pytest.fail("it was never closed")


@pytest.mark.ci
def test_a_key_that_is_revoked_while_it_runs(service: Running) -> None:
    keys = service.site.path("keys.json")
    made = windhover("apikey", "new", keys, "--name", "a guest", "--json")
    guest = json.loads(made.splitlines()[-1])
    ask = {"headers": {"Authorization": f"Bearer {guest['key']}"}, "json": service.body()}
    assert until(lambda: httpx.post(service.url + CHAT, **ask).status_code == 200)
    windhover("apikey", "revoke", keys, guest["id"])
    assert until(lambda: httpx.post(service.url + CHAT, **ask).status_code == 401)
    assert service.ask().status_code == 200


def until(happens: Callable[[], bool]) -> bool:
    """Wait a few seconds for something."""
    for _ in range(50):
        if happens():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.ci
def test_sigterm_lets_streams_end_and_closes_everything(
    tmp_path: Path, tiny_file: Path, prepared_kernels: Path
) -> None:
    site = make_site(tmp_path, tiny_file)
    configure_production(site, prepared_kernels)
    streams: list[list[str]] = []
    with running(site) as service:

        def read() -> None:
            events: list[str] = []
            streams.append(events)
            events.extend(service.events(max_tokens=300))

        threads = [threading.Thread(target=read) for _ in range(12)]
        for thread in threads:
            thread.start()
        assert until(lambda: service.status()["requests"]["open"] >= 8)
        exit_code, err = service.end()
        assert exit_code == 0, err
        for thread in threads:
            thread.join()
    begun = [events for events in streams if "announced" in events[0]]
    assert len(begun) >= 8
    for events in begun:
        assert events[-1] == "[DONE]"
        assert json.loads(events[-2])["attestation"]["statement"]
    assert log_is_whole(site)["open_admissions"] == 0
