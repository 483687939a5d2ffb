"""A wheelhouse as it is collected from the package index, and installed without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from firmware.wheelhouse.collect import collect
from tests.firmware.tools import FIRMWARE

pytestmark = pytest.mark.slow

CHECKOUT = FIRMWARE.parent


def run(*words: object, **settings: str) -> str:
    """Run a program that has to succeed, without a network where this user may do that."""
    alone = ["unshare", "--net"] if os.geteuid() == 0 and shutil.which("unshare") else []
    done = subprocess.run(
        [*alone, *map(str, words)], check=False, capture_output=True, text=True, cwd="/",
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **settings},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_installs_and_runs_without_a_network(tmp_path: Path) -> None:
    house = Path(os.environ.get("WINDHOVER_WHEELHOUSE") or tmp_path / "wheelhouse")
    if not house.exists():
        collect(CHECKOUT, house, extras=(), machine=None)
    sums = (house / "SHA256SUMS").read_text("utf-8").splitlines()
    assert {line.split("  ", 1)[1].split("/")[0] for line in sums} == {
        "components.json", "components.txt", "firmware", "licences", "requirements.txt", "wheels"
    }  # fmt: skip
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], check=True, cwd=house)  # noqa: S607
    listed = json.loads((house / "components.json").read_text("utf-8"))["components"]
    assert [each["file"] for each in listed] == sorted(p.name for p in (house / "wheels").iterdir())
    assert [each["name"] for each in listed if each["licence"] == "not stated"] == []
    assert len([each for each in listed if each["name"] == "windhover"]) == 1

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    programs = tmp_path / "venv/bin"
    run(
        programs / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
        "--find-links", house / "wheels", "--require-hashes", "-r", house / "requirements.txt",
    )  # fmt: skip
    assert "No broken requirements" in run(programs / "pip", "check")
    assert run(programs / "windhover", "--version").startswith("windhover ")
    key = tmp_path / "key.pem"
    said = run(
        programs / "windhover", "keygen", key, "--role", "attest", "--no-passphrase", "--json"
    )
    assert json.loads(said)["role"] == "attest"
    where = run(programs / "python", "-c", "import engine; print(engine.__file__)")
    assert where.startswith(str(tmp_path / "venv"))
