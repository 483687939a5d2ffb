"""Every command of README.md's walk-throughs, in their order, by a shell."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.convert.convert import convert
from tests.appliance.cli.workshop import PROGRAM
from tests.engine.convert.support import tiny_folder

BASH = shutil.which("bash") or "bash"
CHECKOUT = Path(__file__).resolve().parents[3]


def blocks(section: str, kind: str) -> list[str]:
    """Return the blocks of one language in a section, but for those about services."""
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    text = readme.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def lines(section: str) -> list[str]:
    """Return the commands of a section."""
    found = [line for block in blocks(section, "sh") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in found)
    return [line[2:] for line in found]


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[bytes]]:
    """Return what runs one line in a folder with `model.vqf` and the README's trust file."""
    convert(tiny_folder(tmp_path / "qwen2_tiny", "qwen2_tiny"), tmp_path / "model.vqf")
    (trust,) = blocks("Signing and sealing", "toml")
    (tmp_path / "trust.toml").write_text(trust)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("windhover", ["-c", PROGRAM]), ("python", [])):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *words])} "$@"\n')
        program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(CHECKOUT),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }

    def run(line: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [BASH, "-euo", "pipefail", "-c", line],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env=environment,
        )

    return run


@pytest.mark.slow
@pytest.mark.ci
def test_signing_and_sealing(
    tmp_path: Path, shell: Callable[[str], subprocess.CompletedProcess[bytes]]
) -> None:
    *commands, last = lines("Signing and sealing")
    assert len(commands) > 15
    for line in commands:
        result = shell(line)
        assert result.returncode == 0, (line, result.stderr)
    result = shell(last)
    assert result.returncode == 1
    assert json.loads(result.stdout)["reason"] == "key-revoked"
    assert (tmp_path / "state" / "windhover" / "floors").exists()


@pytest.mark.slow
@pytest.mark.ci
def test_attesting_and_auditing(
    tmp_path: Path, shell: Callable[[str], subprocess.CompletedProcess[bytes]]
) -> None:
    for line in (
        "windhover keygen vendor.pem --role weights --no-passphrase >> trust.toml",
        "windhover keygen appliance.pem --role unseal --no-passphrase",
        "windhover sign model.vqf --key vendor.pem --line demo --release 1",
        "windhover seal model.vqf model.sealed.vqf --to appliance.pub.pem",
        *lines("Attesting and auditing"),
    ):
        result = shell(line)
        assert result.returncode == 0, (line, result.stdout, result.stderr)
        if line.startswith("python"):
            assert result.stdout.startswith(b"PASS"), line
    assert b"PASS" in result.stdout
    assert (tmp_path / "public.bundle").stat().st_size < (tmp_path / "answer.bundle").stat().st_size
