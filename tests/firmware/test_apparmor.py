"""The AppArmor profile: its parser accepts it, and it names what the units and files name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.firmware.aare import allowed, permissions
from tests.firmware.tools import run, said, statements, text_of, without

NAME = "apparmor/windhover"
RULES = [line for line in statements(NAME) if line.startswith("  ")]

# What may be opened and how, and what is refused whatever else is written.
REQUIRED = {
    "the program": "/usr/bin/windhover rix,|/usr/bin/{da,}sh rix,|"
    "/usr/{,local/}bin/python3* rix,|/usr/{,local/}lib/python3*/ r,|"
    "/usr/{,local/}lib/python3*/** mr,|/usr/lib/windhover/ r,|/usr/lib/windhover/** mr,|"
    "/usr/lib/windhover/{,**/}bin/* rix,|audit deny /usr/** wl,|include <abstractions/base>",
    "what the operator wrote": "/etc/windhover/ r,|/etc/windhover/*.{toml,pem,cose} r,|"
    "audit deny /etc/windhover/credentials/** rwlkx,|"
    "/{run,dev}/credentials/windhover{,-check}.service/{,*} r,|/srv/windhover/{,**} r,",
    "its state": "owner /var/lib/windhover/{,**} rwlk,|"
    "owner /var/lib/windhover-anchor/{,**} rwlk,|owner /var/cache/windhover/{,**} rw,|"
    "owner /var/log/windhover/{,*} rw,|owner /run/windhover/{,*} rw,|owner /{,var/}tmp/{,**} rw,",
    "the machine": "/proc/cpuinfo r,|/proc/meminfo r,|owner /proc/@{pid}/fd/ r,|"
    "owner /proc/@{pid}/{statm,maps,status,mounts,mountinfo,cgroup,limits,stat} r,|"
    "/sys/fs/cgroup/{,**/}cpu.max r,|"
    "owner /proc/@{pid}/fd/* rw,|/sys/devices/system/cpu/{,**} r,|/etc/mime.types r,|"
    "/etc/{passwd,group,nsswitch.conf,localtime,machine-id} r,|/etc/ssl/openssl.cnf r,",
    "networks": "unix (create, bind, listen, accept, connect, send, receive, getattr, setattr, "
    "getopt, setopt, shutdown) type=stream,|deny network inet,|deny network inet6,|"
    "deny network netlink,|deny network packet,|deny capability,",
    "signals": "signal receive peer=unconfined,|signal peer=windhover,",
}


def missing(text: str) -> list[str]:
    """Return required rules that a profile does not have."""
    found = {line.strip() for line in text.splitlines()}
    return [rule for rules in REQUIRED.values() for rule in rules.split("|") if rule not in found]


def refused(folder: Path, text: str) -> list[str]:
    """Return what the parser has against a profile; nothing is loaded."""
    path = folder / "profile"
    path.write_text(text)
    return said(run("apparmor_parser", "--skip-kernel-load", "--skip-cache", path))


def test_the_parser_accepts_it(tmp_path: Path) -> None:
    text = text_of(NAME)
    assert refused(tmp_path, text) == []
    assert missing(text) == []
    for old, new in (("deny capability,", "deny capabilities,"), ("/proc/cpuinfo r,", "r cpuinfo")):
        assert refused(tmp_path, text.replace(old, new)) != []


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_dropped_is_missed(rule: str) -> None:
    assert missing(without(NAME, rule)) != []


def test_nothing_is_allowed_that_is_not_listed() -> None:
    listed = {rule for rules in REQUIRED.values() for rule in rules.split("|")}
    assert {rule.strip() for rule in RULES} == listed
    # Whatever it may write it owns, and no code is among it.
    for rule in listed:
        path, _, permissions = rule.removesuffix(",").rpartition(" ")
        if "w" in permissions and path.startswith(("/", "owner /")):
            assert path.startswith("owner "), rule
            assert not path.removeprefix("owner ").startswith(("/usr", "/etc", "/srv")), rule


@pytest.mark.parametrize(
    ("path", "letters"),
    [
        ("/usr/lib/windhover/lib/python3.11/site-packages/numba/_dispatcher.so", "mr"),
        ("/usr/lib/windhover/bin/python3", "mrix"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "mr"),
        ("/etc/windhover/unseal.pem", "r"),
        ("/etc/windhover/unseal.pem.bak", ""),
        ("/etc/shadow", ""),
        ("/srv/windhover/model.vqf", "r"),
        ("/var/lib/windhover/log/0000000000000000.log", "rwlk"),
        ("/run/credentials/windhover.service/unseal", "r"),
        ("/run/credentials/nginx.service/key", ""),
        ("/etc/nginx/windhover/server.key", ""),
        ("/proc/7/mem", ""),
        ("/proc/cpuinfo", "r"),
        ("/usr/bin/curl", ""),
    ],
)
def test_what_it_allows(path: str, letters: str) -> None:
    assert permissions(allowed(text_of(NAME)), path) == set(letters)
