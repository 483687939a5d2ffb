"""Programs of Debian that the files of firmware/ are for: found, or the test says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FIRMWARE = Path(__file__).parents[2] / "firmware"

_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
_PACKAGES = {
    "apparmor_parser": "apparmor",
    "logrotate": "logrotate",
    "nft": "nftables",
    "nginx": "nginx-light",
    "systemd-analyze": "systemd",
    "systemd-sysusers": "systemd",
    "systemd-tmpfiles": "systemd",
    "unshare": "util-linux",
}


def tool(name: str) -> str:
    """Return the path of a program, or fail; where it cannot be installed, skip."""
    found = shutil.which(name, path=_PATH)
    if found is not None:
        return found
    what = f"{name} is not here: it is in Debian's package {_PACKAGES[name]}"
    if shutil.which("apt-get") is None:
        pytest.skip(f"{what}, and this system has no apt-get")
    if os.geteuid() != 0:
        pytest.skip(f"{what}; `make tools` as root installs it")
    pytest.fail(f"{what}; `make tools` installs it")


def run(name: str, *words: object, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever it says."""
    return subprocess.run(
        [tool(name), *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PATH": _PATH} | settings,
    )


def said(result: subprocess.CompletedProcess[str]) -> list[str]:
    """Return what a program complains about; nothing where it is content."""
    lines = [line for line in (result.stderr + result.stdout).splitlines() if line.strip()]
    return lines if result.returncode else []


def text_of(name: str) -> str:
    """Return a file of firmware/."""
    return (FIRMWARE / name).read_text(encoding="utf-8")


def statements(name: str) -> list[str]:
    """Return the lines of a file that say something."""
    lines = text_of(name).splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith(("#", "//"))]


def without(name: str, line: str) -> str:
    """Return a file without one of its lines, the first of that text."""
    before, found, after = text_of(name).partition(f"\n{line}\n")
    assert found, line
    return f"{before}\n{after}"
