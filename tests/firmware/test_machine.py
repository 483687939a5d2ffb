"""The units as systemd starts them: it boots over a copy of this machine, in namespaces."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.appliance.conftest import tiny_file  # noqa: F401  (a fixture)
from tests.firmware.aare import allowed, permissions
from tests.firmware.front import HOST
from tests.firmware.machine import Machine, NotReadyError, booted, can_boot
from tests.firmware.tools import text_of, tool

pytestmark = [pytest.mark.slow, pytest.mark.ci]

QUESTION = {"model": "model", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest, tiny_file: Path) -> Iterator[Machine]:  # noqa: F811
    """A machine whose service is ready.

    Two of some sixty boots ended with a service that did not find the kernels which had just been
    prepared; why is not known. One such machine is told of and replaced, a second one fails.
    """
    if (why := can_boot()) is not None:
        pytest.skip(why)
    with ExitStack() as first:
        made = _boot(first, tiny_file)
        try:
            made.wait()
        except NotReadyError as story:
            reporter = request.config.pluginmanager.getplugin("terminalreporter")
            reporter.write_line(f"a machine did not become ready, and is replaced:\n{story}")
        else:
            yield made
            return
    with ExitStack() as second:
        made = _boot(second, tiny_file)
        made.wait()
        yield made


def _boot(stack: ExitStack, weights: Path) -> Machine:
    folder = tempfile.TemporaryDirectory(prefix="wh-", ignore_cleanup_errors=True)
    return stack.enter_context(booted(weights, Path(stack.enter_context(folder))))


def test_the_service_answers_and_attests(machine: Machine) -> None:
    status, answer = machine.ask("/v1/chat/completions", QUESTION)
    assert status == 200, answer
    assert answer["attestation"]["sequence"] > 1
    _, said = machine.ask("/v1/status")
    assert said["mode"] == "production"
    assert said["start"]["kernels"] == "prepared"
    assert said["model"]["write_xor_execute"] == "locked"
    assert machine.show("windhover", "NRestarts") == "0"


def test_it_has_no_network_no_capability_and_no_way_to_more(machine: Machine) -> None:
    process = machine.show("windhover", "MainPID")
    status = dict(
        line.split(":\t", 1)
        for line in machine.enter("cat", f"/proc/{process}/status").stdout.splitlines()
    )
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    for name in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb"):
        assert int(status[name], 16) == 0
    assert status["Uid"].split()[0] != "0"
    assert int(status["VmLck"].split()[0]) > 0  # the weights
    devices = machine.enter("nsenter", "-t", process, "-n", "cat", "/proc/net/dev").stdout
    assert [line.split(":")[0].strip() for line in devices.splitlines()[2:]] == ["lo"]
    mounts = machine.enter("cat", f"/proc/{process}/mountinfo").stdout.splitlines()
    (root,) = [line.split()[5] for line in mounts if line.split()[4] == "/"]
    assert "ro" in root.split(",")


def test_the_profile_allows_what_it_has_open(machine: Machine) -> None:
    rules = allowed(text_of("apparmor/windhover"))
    cgroup = machine.show("windhover", "ControlGroup")
    processes = machine.enter("cat", f"/sys/fs/cgroup{cgroup}/cgroup.procs").stdout.split()
    assert len(processes) > 1  # and the one that verifies bundles
    for process in processes:
        lines = machine.enter("cat", f"/proc/{process}/maps").stdout.splitlines()
        mapped = {tuple(line.split()[1::4]) for line in lines if len(line.split()) == 6}
        files = {(mode, path) for mode, path in mapped if path.startswith("/")}
        assert len(files) > 10
        for mode, path in files:
            assert permissions(rules, path) >= set("mr" if "x" in mode else "r"), path
        open_files = machine.enter("find", f"/proc/{process}/fd", "-printf", "%l\\n").stdout
        for path in open_files.splitlines():
            if path.startswith("/"):
                assert "r" in permissions(rules, path) or "w" in permissions(rules, path), path


def test_only_its_own_and_nginx_reach_it(machine: Machine) -> None:
    mode = machine.enter("stat", "-c", "%a %U %G", "/run/windhover/http.sock").stdout.split()
    assert mode == ["660", "windhover", "windhover-socket"]
    as_user = ("setpriv", "--init-groups", "--regid")
    for user, group, reaches in (("www-data", "www-data", True), ("nobody", "nogroup", False)):
        words = (*as_user, group, "--reuid", user, "test", "-w", "/run/windhover/http.sock")
        assert (machine.enter(*words).returncode == 0) == reaches, user
    for path in ("/var/lib/windhover", "/etc/windhover/attest.pem", "/srv/windhover/model.vqf"):
        words = (*as_user, "www-data", "--reuid", "www-data", "test", "-r", path)
        assert machine.enter(*words).returncode != 0, path


def test_nginx_in_its_own_unit_lets_clients_in(machine: Machine) -> None:
    tool("nginx")
    machine.enter("systemctl", "unmask", "nginx")
    started = machine.enter("systemctl", "start", "nginx")
    assert started.returncode == 0, machine.enter("journalctl", "-n", "30", "--no-pager").stdout
    program = (
        "import http.client, ssl, sys; c = ssl._create_unverified_context(); "
        "h = http.client.HTTPSConnection('127.0.0.1', context=c); "
        "h.request('GET', '/v1/models', headers={'Host': sys.argv[1], "
        "'Authorization': 'Bearer ' + sys.argv[2]}); r = h.getresponse(); "
        "print(r.status, h.sock.version() if h.sock else '-')"
    )
    words = ("/usr/lib/windhover/python/bin/python3", "-c", program, HOST, machine.key)
    asked = machine.enter("env", "LD_LIBRARY_PATH=/usr/lib/windhover/python/lib", *words)
    # the key is not for models, which the service says: the request went all the way
    assert asked.stdout.split()[:1] == ["403"], asked.stdout + asked.stderr
    process = machine.show("nginx", "MainPID")
    status = machine.enter("cat", f"/proc/{process}/status").stdout
    assert "NoNewPrivs:\t1" in status
    assert machine.enter("systemctl", "reload", "nginx").returncode == 0
    assert machine.enter("systemctl", "stop", "nginx").returncode == 0


def test_the_access_log_goes_on_after_it_was_rotated(machine: Machine) -> None:
    log = "/var/lib/windhover/log/0000000000000000.log"
    before = machine.enter("sha256sum", log).stdout
    rotated = machine.enter("logrotate", "--force", "/etc/logrotate.d/windhover")
    assert rotated.returncode == 0, rotated.stderr
    assert machine.ask("/health")[0] == 200
    lines: list[str] = []
    for _ in range(100):
        lines = machine.enter("cat", "/var/log/windhover/access.jsonl").stdout.splitlines()
        if lines:
            break
        machine.ask("/health")
    assert json.loads(lines[0])["route"] == "/health"
    assert machine.enter("sha256sum", log).stdout == before


def test_the_nightly_check_sees_what_has_changed(machine: Machine) -> None:
    good = machine.enter("systemctl", "start", "windhover-check")
    journal = ("journalctl", "--no-pager", "-o", "cat", "-u", "windhover-check")
    assert good.returncode == 0, machine.enter(*journal).stdout
    program = (
        "import sys; f = open(sys.argv[1], 'r+b'); f.seek(-5000, 2); b = f.read(1)[0] ^ 1; "
        "f.seek(-5000, 2); f.write(bytes([b]))"
    )
    model = "/srv/windhover/model.vqf"
    machine.enter("/usr/lib/windhover/python/bin/python3", "-c", program, model)
    assert machine.enter("systemctl", "start", "windhover-check").returncode != 0
    assert machine.show("windhover-check", "ExecMainStatus") == "1"
    # what is being served was verified when it was read, and is not the file
    assert machine.ask("/v1/chat/completions", QUESTION)[0] == 200


def test_the_check_of_large_weights_has_its_kernels(machine: Machine) -> None:
    # weights this small are hashed without compiled kernels: here they are loaded by themselves
    program = "from crypto.kernels.load import load_bulk; print(type(load_bulk()).__name__)"
    assert "Bulk" in machine.runs_in("windhover-check", program)


def test_what_lowers_its_own_priority_needs_a_call_of_its_own(machine: Machine) -> None:
    program = 'import os\ntry:\n    os.nice(1)\nexcept PermissionError:\n    print("refused")'
    assert "refused" in machine.runs_in("windhover-check", program)


def test_it_ends_when_it_is_told_to(machine: Machine) -> None:
    assert machine.enter("systemctl", "stop", "windhover").returncode == 0
    assert machine.show("windhover", "Result") == "success"
    assert not (machine.run / "windhover/http.sock").exists()


def test_it_does_not_start_where_it_cannot_see_the_processor(machine: Machine) -> None:
    folder = "/run/systemd/system/windhover.service.d"
    write = f"mkdir -p {folder} && printf '[Service]\\nProcSubset=pid\\n' > {folder}/test.conf"
    machine.enter("sh", "-c", f"{write} && systemctl daemon-reload")
    machine.enter("systemctl", "start", "windhover")
    for _ in range(200):
        if machine.show("windhover", "ExecMainCode") == "1":
            break
    journal = machine.enter("journalctl", "--no-pager", "-n", "20", "-u", "windhover").stdout
    assert "/proc/cpuinfo" in journal
