"""What the rest of the system is told: users, folders, kernel, journal, rotation."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.firmware.tools import FIRMWARE, run, said, statements, text_of, tool, without

SYSCTL = statements("etc/sysctl.conf")
JOURNAL = [line for line in statements("etc/journald.conf") if not line.startswith("[")]
KERNEL = {
    "kernel.yama.ptrace_scope": "3", "kernel.core_pattern": "|/bin/false",
    "fs.suid_dumpable": "0", "vm.swappiness": "0", "kernel.kptr_restrict": "2",
    "kernel.dmesg_restrict": "1", "kernel.perf_event_paranoid": "3",
    "kernel.kexec_load_disabled": "1", "kernel.unprivileged_bpf_disabled": "1",
    "net.core.bpf_jit_harden": "2", "dev.tty.ldisc_autoload": "0", "kernel.sysrq": "0",
    "vm.unprivileged_userfaultfd": "0", "kernel.randomize_va_space": "2",
    "vm.mmap_min_addr": "65536", "fs.protected_symlinks": "1", "fs.protected_hardlinks": "1",
    "fs.protected_fifos": "2", "fs.protected_regular": "2", "kernel.panic": "10",
    "kernel.panic_on_oops": "1", "vm.panic_on_oom": "0", "net.ipv4.ip_forward": "0",
    "net.ipv6.conf.all.forwarding": "0", "net.ipv4.icmp_echo_ignore_broadcasts": "1",
    "net.ipv4.icmp_ignore_bogus_error_responses": "1", "net.ipv4.conf.all.log_martians": "1",
    "net.ipv4.tcp_syncookies": "1", "net.ipv4.tcp_rfc1337": "1",
    "net.ipv4.tcp_max_syn_backlog": "1024", "net.core.somaxconn": "512",
    "net.ipv6.conf.all.accept_ra": "0", "net.ipv6.conf.default.accept_ra": "0",
    **{f"net.ipv4.conf.{which}.rp_filter": "1" for which in ("all", "default")},
    **{
        f"net.{family}.conf.{which}.{name}": "0"
        for which in ("all", "default")
        for family, names in (
            ("ipv4", ("accept_redirects", "secure_redirects", "send_redirects",
                      "accept_source_route")),
            ("ipv6", ("accept_redirects", "accept_source_route")),
        )
        for name in names
    },
}  # fmt: skip
LIMITS = {
    "Storage": "persistent", "Compress": "yes", "SystemMaxUse": "256M", "SystemKeepFree": "1G",
    "SystemMaxFileSize": "16M", "RuntimeMaxUse": "32M", "MaxRetentionSec": "90day",
    "MaxFileSec": "7day", "RateLimitIntervalSec": "30s", "RateLimitBurst": "2000",
    "LineMax": "16K", "ForwardToSyslog": "no", "ForwardToConsole": "no", "ForwardToWall": "no",
    "SyncIntervalSec": "1m",
}  # fmt: skip


def pairs(text: str) -> dict[str, str]:
    """Return what a file of names and values says."""
    lines = [line for line in text.splitlines() if "=" in line and not line.startswith("#")]
    return {name.strip(): value.strip() for name, _, value in (x.partition("=") for x in lines)}


def root_with(folder: Path) -> Path:
    """Make a root with Debian's users alone, and the files of the appliance that make others."""
    for name, text in (
        ("etc/passwd", "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/var/www:/sbin/nologin\n"),
        ("etc/group", "root:x:0:\nwww-data:x:33:\n"),
        ("usr/lib/sysusers.d/windhover.conf", text_of("etc/sysusers.conf")),
        ("usr/lib/tmpfiles.d/windhover.conf", text_of("etc/tmpfiles.conf")),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def users(folder: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Return the names of users, and the members of groups."""
    names = [line.split(":")[0] for line in (folder / "etc/passwd").read_text().splitlines()]
    groups = (line.split(":") for line in (folder / "etc/group").read_text().splitlines())
    return names, {group[0]: sorted(filter(None, group[3].split(","))) for group in groups}


def sysusers_problems(folder: Path, text: str) -> list[str]:
    """Return what is not as it has to be after systemd-sysusers has run."""
    root = root_with(folder)
    (root / "usr/lib/sysusers.d/windhover.conf").write_text(text)
    complaints = said(run("systemd-sysusers", f"--root={root}"))
    names, groups = users(root)
    wanted = {"windhover": ["windhover"], "windhover-socket": ["windhover", "www-data"]}
    wrong = [name for name, members in wanted.items() if groups.get(name) != members]
    entries = [line.split(":") for line in (root / "etc/passwd").read_text().splitlines()]
    ours = [entry for entry in entries if entry[0] == "windhover"]
    if not ours or not ours[0][6].endswith("nologin") or ours[0][4] != "Windhover":
        wrong.append("windhover is no user without a shell")
    return (
        complaints
        + wrong
        + ["another user"] * (set(names) - {"root", "www-data", "windhover"} != set())
    )


def test_the_users_are_made(tmp_path: Path) -> None:
    root = root_with(tmp_path)
    dry = run("systemd-sysusers", f"--root={root}", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert users(root)[0] == ["root", "www-data"]  # only said
    assert sysusers_problems(tmp_path, text_of("etc/sysusers.conf")) == []


@pytest.mark.parametrize("line", statements("etc/sysusers.conf"))
def test_a_user_that_is_dropped_is_missed(tmp_path: Path, line: str) -> None:
    assert sysusers_problems(tmp_path, without("etc/sysusers.conf", line)) != []


def tmpfiles_problems(folder: Path, text: str) -> list[str]:
    """Return what is not as it has to be after systemd-tmpfiles has run."""
    root = root_with(folder)
    run("systemd-sysusers", f"--root={root}")
    (root / "usr/lib/tmpfiles.d/windhover.conf").write_text(text)
    for name in ("etc/windhover/a.toml", "etc/windhover/a.pem", "srv/windhover/a.vqf"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        path.chmod(0o644)
    words = (f"--root={root}", "--create", "--exclude-prefix=/dev")
    result = run("systemd-tmpfiles", *words, root / "usr/lib/tmpfiles.d/windhover.conf")
    names = {
        int(line.split(":")[2]): line.split(":")[0]
        for file in ("etc/passwd", "etc/group")
        for line in (root / file).read_text().splitlines()
    }
    wanted = {
        "etc/windhover": (0o750, "root", "windhover"),
        "etc/windhover/a.toml": (0o640, "root", "windhover"),
        "etc/windhover/a.pem": (0o600, "windhover", "windhover"),
        "etc/windhover/credentials": (0o700, "root", "root"),
        "srv/windhover": (0o750, "root", "windhover"),
        "srv/windhover/a.vqf": (0o640, "root", "windhover"),
        "var/lib/windhover": (0o700, "windhover", "windhover-socket"),
        "var/lib/windhover-anchor": (0o700, "windhover", "windhover-socket"),
        "var/cache/windhover": (0o700, "windhover", "windhover-socket"),
        "var/log/windhover": (0o750, "windhover", "windhover-socket"),
    }
    wrong = said(result)
    for name, (mode, user, group) in wanted.items():
        path = root / name
        if not path.exists():
            wrong.append(name)
            continue
        status = path.stat()
        found = (status.st_mode & 0o777, names.get(status.st_uid), names.get(status.st_gid))
        if found != (mode, user, group):
            wrong.append(f"{name}: {found}")
    return wrong


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="folders are given away by root alone")


@needs_root
def test_the_folders_are_made(tmp_path: Path) -> None:
    assert tmpfiles_problems(tmp_path, text_of("etc/tmpfiles.conf")) == []


@needs_root
@pytest.mark.parametrize("line", statements("etc/tmpfiles.conf"))
def test_a_folder_that_is_dropped_is_missed(tmp_path: Path, line: str) -> None:
    assert tmpfiles_problems(tmp_path, without("etc/tmpfiles.conf", line)) != []


@pytest.mark.parametrize("line", SYSCTL)
def test_a_setting_of_the_kernel_that_is_dropped_is_missed(line: str) -> None:
    assert pairs(text_of("etc/sysctl.conf")) == KERNEL
    assert pairs(without("etc/sysctl.conf", line)) != KERNEL


def test_the_kernel_knows_the_settings() -> None:
    absent = {name for name in KERNEL if not Path("/proc/sys", name.replace(".", "/")).exists()}
    # what a kernel can be built without
    optional = (
        "kernel.yama.", "net.ipv6.", "kernel.kexec", "kernel.sysrq", "vm.unprivileged", "dev.tty",
        "net.core.bpf", "kernel.unprivileged_bpf", "kernel.perf",
    )  # fmt: skip
    assert {name for name in absent if not name.startswith(optional)} == set()


@pytest.mark.parametrize("line", JOURNAL)
def test_a_limit_of_the_journal_that_is_dropped_is_missed(line: str) -> None:
    assert pairs(text_of("etc/journald.conf")) == LIMITS
    assert pairs(without("etc/journald.conf", line)) != LIMITS


def test_systemd_reads_the_limits_of_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "etc/systemd/journald.conf.d/windhover.conf"
    path.parent.mkdir(parents=True)
    shutil.copy(FIRMWARE / "etc/journald.conf", path)
    result = run("systemd-analyze", f"--root={tmp_path}", "cat-config", "systemd/journald.conf")
    assert result.returncode == 0, result.stderr
    assert "SystemMaxUse=256M" in result.stdout
    # it knows every name
    binary = Path("/lib/systemd/systemd-journald").read_bytes()
    assert [name for name in LIMITS if name.encode() not in binary] == []


SERVICE = """
import pathlib, signal, sys
from appliance.service.access_log import AccessLog
log = AccessLog(pathlib.Path(sys.argv[1]))
signal.signal(signal.SIGHUP, lambda number, frame: log.reopen())
for line in sys.stdin:
    log.event(line.strip())
    print("done", flush=True)
"""


def rotated(folder: Path, text: str) -> tuple[list[str], str]:
    """Rotate the log of a process that goes on; return the files, and what is in the new one."""
    logs = folder / "logs"
    logs.mkdir(mode=0o750)
    evidence = folder / "log"
    evidence.mkdir()
    (evidence / "0000000000000000.log").write_bytes(b"evidence")
    os.utime(evidence / "0000000000000000.log", (1, 1))
    words = [sys.executable, "-c", SERVICE, str(logs / "access.jsonl")]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=FIRMWARE.parent
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def say(word: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"

    try:
        say("before")
        # The only change: there is no systemd to ask for the process, nor the service's user.
        begin, end = text.find("        if systemctl"), text.find("    endscript")
        if begin >= 0:
            text = text[:begin] + f"        kill -HUP {process.pid}\n" + text[end:]
        text = text.replace("    su windhover windhover-socket\n", "")
        text = text.replace("/var/log/windhover/", f"{logs}/")
        path = folder / "logrotate.conf"
        path.write_text(text)
        path.chmod(0o644)
        result = run("logrotate", "--force", "--state", folder / "state", path)
        assert result.returncode == 0, result.stderr
        say("after")
    finally:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()
    assert (evidence / "0000000000000000.log").read_bytes() == b"evidence"
    new = logs / "access.jsonl"
    return sorted(path.name for path in logs.iterdir()), new.read_text() if new.exists() else ""


def test_the_access_log_is_rotated_and_goes_on(tmp_path: Path) -> None:
    tool("logrotate")
    names, text = rotated(tmp_path, text_of("etc/logrotate.conf"))
    assert len(names) == 2
    assert names[1].startswith("access.jsonl-")
    assert '"event":"after"' in text
    assert "before" not in text


def test_without_the_signal_it_would_not_go_on(tmp_path: Path) -> None:
    text = text_of("etc/logrotate.conf")
    begin, end = text.index("    sharedscripts"), text.index("}\n", text.index("endscript"))
    _, new = rotated(tmp_path, text[:begin] + text[end:])
    assert "after" not in new


ROTATION = [
    "su windhover windhover-socket", "daily", "maxsize 50M", "rotate 90", "maxage 90", "dateext",
    "dateformat -%Y%m%d-%s", "missingok", "notifempty", "compress", "delaycompress", "nocreate",
    "nocopytruncate", "sharedscripts", "postrotate",
    "if systemctl --quiet is-active windhover.service; then",
    "systemctl kill --kill-whom=main --signal=HUP windhover.service", "fi", "endscript",
]  # fmt: skip


def test_the_rotation_says_all_that_it_has_to() -> None:
    inside = [line.strip() for line in statements("etc/logrotate.conf")[1:-1]]
    assert inside == ROTATION
    assert signal.Signals["SIGHUP"] is signal.SIGHUP
