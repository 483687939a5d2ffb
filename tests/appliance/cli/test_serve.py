"""`windhover serve` as a process: it says when it is ready, answers, and ends as asked."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from tests.appliance.cli.workshop import PROGRAM
from tests.appliance.service.child import CHECKOUT, environment
from tests.appliance.service.site import Site

if TYPE_CHECKING:
    from pathlib import Path

DEV = 'mode = "dev"\n'  # kernels from the user's cache: nothing else is left out


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, tiny_file: Path) -> Site:
    """A folder that a service starts from."""
    made = Site(tmp_path_factory.mktemp("site"), tiny_file)
    made.configure(DEV)
    return made


def serve(site: Site, *words: str, **settings: str) -> subprocess.Popen[str]:
    """Start the command."""
    config = str(site.path("appliance.toml"))
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "serve", "--config", config, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
        env=environment(**settings),
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for its end; return exit code, stdout and stderr."""
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def ask(url: str, key: str | None = None, body: object = None) -> tuple[int, Any]:
    """Send a request; return the status and the object."""
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)  # noqa: S310  (loopback)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_from_start_to_sigterm(site: Site) -> None:
    process = serve(site, "--json", OPENSSL_CONF="/nowhere/openssl.cnf")
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        pytest.fail(ended(process)[2])
    ready = json.loads(line)
    try:
        assert ready["write_xor_execute"] == "locked"
        assert list(ready["steps"]) == [
            "self-tests", "log-check", "policy", "kernels", "weights", "known-answers",
            "warm-up", "lock", "software", "log", "engine",
        ]  # fmt: skip
        assert ready["known_answers"] == 1
        assert sum(ready["steps"].values()) <= ready["seconds"] + 0.1
        (note,) = ready["notes"]
        assert note.startswith("OPENSSL_CONF in the environment is not used")
        where = ready["ready"]
        assert ask(f"{where}/ready")[0] == 200
        body = {
            "model": "model",
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 4,
            "temperature": 0,
        }
        status, answer = ask(f"{where}/v1/chat/completions", site.key, body)
        assert status == 200, answer
        assert answer["attestation"]["sequence"] > 1
        assert ask(f"{where}/v1/chat/completions", None, body)[0] == 401
    finally:
        process.send_signal(signal.SIGTERM)
        exit_code, _, err = ended(process)
    assert exit_code == 0, err
    assert "OPENSSL_CONF" in err
    # the process is over, and a second one finds everything where it was
    assert ended(serve(site, "--check"))[0] == 0


def test_a_start_that_fails_ends_the_process_with_its_code(site: Site) -> None:
    site.path("keys.json").rename(site.path("away.json"))
    try:
        exit_code, out, err = ended(serve(site, "--json"))
    finally:
        site.path("away.json").rename(site.path("keys.json"))
    assert exit_code == 2
    assert "windhover apikey new" in err
    assert json.loads(out.splitlines()[-1])["exit_code"] == 2


def test_a_port_that_is_taken(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        site.configure(DEV, old="127.0.0.1:0", new=f"127.0.0.1:{port}")
        try:
            exit_code, _, err = ended(serve(site))
        finally:
            site.configure(DEV)
    assert exit_code == 2
    assert f"server.listen: 127.0.0.1:{port}: Address already in use" in err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("threads = 2", "treads = 2", "model.treads: no such field"),
        ("[log]", 'nonsense"', "no TOML"),
        ('key = "attest.pem"', 'key = "absent.pem"', "absent.pem"),
        ('file = "model.vqf"', 'file = "absent.vqf"', "absent.vqf"),
    ],
)
def test_check_finds_what_is_wrong_and_serves_nothing(
    site: Site, old: str, new: str, words: str
) -> None:
    site.configure(DEV, old=old, new=new)
    try:
        exit_code, out, err = ended(serve(site, "--check"))
    finally:
        site.configure(DEV)
    assert exit_code == 2
    assert words in err
    assert "ready" not in out


def test_sigterm_while_it_loads_ends_it(site: Site) -> None:
    process = serve(site)
    while not site.path("access.jsonl").exists() and process.poll() is None:
        os.sched_yield()
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] in (0, -signal.SIGTERM)
