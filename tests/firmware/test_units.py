"""The units: systemd understands and rates them, and notices every line that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.firmware.tools import FIRMWARE, run, statements, without
from tests.firmware.units import OPEN, SERVICES, checks_of, exposure, problems, settings, unit

LINES = [
    (name, line)
    for name in SERVICES
    for line in statements(f"systemd/{name}")
    if not line.startswith(("[", "Description=", "Documentation="))
]
# Programs that a machine without the appliance does not have: what is verified has others.
PROGRAM = re.compile(r"/usr/(bin/windhover|lib/systemd/system-generators/windhover-cores)\b")


def verified(folder: Path, *names: str, **texts: str) -> list[str]:
    """Return what systemd says about units; `texts` replace those of the files, by their stem."""
    paths = []
    for name in names:
        text = texts.get(name.partition(".")[0].replace("-", "_"), unit(name))
        path = folder / name
        path.write_text(PROGRAM.sub("/bin/true", text))
        paths.append(path)
    result = run("systemd-analyze", "verify", "--man=no", *paths, SYSTEMD_UNIT_PATH=f"{folder}:")
    return result.stderr.splitlines() + ["failed"] * bool(result.returncode)


@pytest.mark.parametrize("name", SERVICES)
def test_a_unit_is_rated_0_3_or_less_and_says_what_it_has_to(tmp_path: Path, name: str) -> None:
    assert problems(tmp_path, name, unit(name)) == []


@pytest.mark.parametrize(("name", "line"), LINES)
def test_a_line_that_is_dropped_is_missed(tmp_path: Path, name: str, line: str) -> None:
    assert problems(tmp_path, name, without(f"systemd/{name}", line)) != []


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_open_is_open(tmp_path: Path, name: str) -> None:
    checks = checks_of(tmp_path, name, unit(name))
    assert {key for key in OPEN[name] if checks[key]["set"] is False} == OPEN[name]


def test_the_service_keeps_what_its_program_needs() -> None:
    said = settings(unit("windhover.service"))
    # /proc/cpuinfo chooses the kernels, which are loaded as code; a group is not given by chown
    assert not {"ProcSubset", "MemoryDenyWriteExecute", "SupplementaryGroups"} & set(said)


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    names = [path.name for path in sorted((FIRMWARE / "systemd").glob("windhover*"))]
    assert len(names) == 4
    assert verified(tmp_path, *names) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ProtectSystem=strict", "ProtectSystem=strickt"),
        ("PrivateTmp=yes", "PrivateTemp=yes"),
        ("RestrictAddressFamilies=AF_UNIX", "RestrictAddressFamilies=AF_UNICS"),
        ("SystemCallFilter=setpriority", "SystemCallFilter=setprio"),
        ("RestartSec=10s", "RestartSec=10 apples"),
    ],
)
def test_a_word_that_systemd_does_not_know_is_seen(tmp_path: Path, old: str, new: str) -> None:
    text = unit("windhover.service")
    assert old in text
    assert verified(tmp_path, "windhover.service", windhover=text.replace(old, new)) != []


def test_the_check_runs_every_night() -> None:
    said = settings(unit("windhover-check.timer"))
    assert said["OnCalendar"] == "*-*-* 02:00:00"
    assert said["Persistent"] == "yes"
    assert said["RandomizedDelaySec"] == "2h"
    assert said["FixedRandomDelay"] == "yes"
    assert said["WantedBy"] == "timers.target"
    result = run("systemd-analyze", "calendar", said["OnCalendar"])
    assert result.returncode == 0, result.stderr


def test_the_unit_of_nginx(tmp_path: Path) -> None:
    drop_in = tmp_path / "nginx.service.d"
    drop_in.mkdir()
    (drop_in / "windhover.conf").write_text(unit("nginx.conf"))
    bare = "[Service]\nType=forking\nPIDFile=/run/nginx.pid\nExecStart=/bin/true\n"
    assert exposure(tmp_path, "nginx.service", bare) <= 2.5
    result = run(
        "systemd-analyze", "verify", "--man=no", tmp_path / "nginx.service",
        SYSTEMD_UNIT_PATH=f"{tmp_path}:",
    )  # fmt: skip
    # It wants windhover.service, which a machine without the appliance need not have.
    assert result.stderr.splitlines() == []


# Of what nginx is told, what systemd does not rate.
UNRATED = {
    "Wants": "windhover.service", "Restart": "on-failure", "RestartSec": "5s",
    "LimitNOFILE": "4096", "LimitCORE": "0", "MemoryMax": "512M", "MemorySwapMax": "0",
    "TasksMax": "64", "ReadWritePaths": "/var/log/nginx /var/lib/nginx",
    "RuntimeDirectory": "nginx", "PIDFile": "/run/nginx/nginx.pid", "DevicePolicy": "closed",
    "InaccessiblePaths": "-/etc/windhover -/var/lib/windhover -/var/lib/windhover-anchor "
    "-/srv/windhover",
    "SystemCallErrorNumber": "EPERM",
}  # fmt: skip
NGINX = [line for line in statements("systemd/nginx.conf") if not line.startswith("[")]


def test_nginx_is_told_what_is_not_rated() -> None:
    said = settings(unit("nginx.conf"))
    assert {name: said.get(name) for name in UNRATED} == UNRATED


@pytest.mark.parametrize("line", [line for line in NGINX if line.split("=")[0] not in UNRATED])
def test_a_line_that_nginx_loses_opens_something(tmp_path: Path, line: str) -> None:
    def opened(folder: Path, text: str) -> set[str]:
        (folder / "nginx.service.d").mkdir(parents=True)
        (folder / "nginx.service.d" / "windhover.conf").write_text(text)
        bare = "[Service]\nType=forking\nPIDFile=/run/nginx.pid\nExecStart=/bin/true\n"
        checks = checks_of(folder, "nginx.service", bare)
        return {key for key, check in checks.items() if check["set"] is False}

    before = opened(tmp_path / "whole", unit("nginx.conf"))
    assert opened(tmp_path / "less", without("systemd/nginx.conf", line)) - before


GOVERNOR = {
    "Type": "oneshot", "RemainAfterExit": "yes", "Before": "windhover.service",
    "ConditionPathExistsGlob": "/sys/devices/system/cpu/cpufreq/policy*",
    "ExecStart": "/usr/lib/systemd/system-generators/windhover-cores governor",
    "WantedBy": "multi-user.target", "SystemCallErrorNumber": "EPERM",
}  # fmt: skip


def test_the_unit_of_the_governors(tmp_path: Path) -> None:
    name = "windhover-governor.service"
    said = settings(unit(name))
    assert {key: said.get(key) for key in GOVERNOR} == GOVERNOR
    assert exposure(tmp_path, name, unit(name)) <= 1.4
    before = {key for key, check in checks_of(tmp_path, name, unit(name)).items() if check["set"]}
    lines = [
        line
        for line in statements(f"systemd/{name}")
        if line.split("=")[0] not in {*GOVERNOR, "Description"} and not line.startswith("[")
    ]
    assert len(lines) > 10
    for line in lines:
        checks = checks_of(tmp_path, name, without(f"systemd/{name}", line))
        assert before - {key for key, check in checks.items() if check["set"]}, line
