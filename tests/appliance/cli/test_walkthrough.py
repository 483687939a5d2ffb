"""Every command of README.md's section "Signing and sealing", in its order, by a shell."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.convert.convert import convert
from tests.appliance.cli.workshop import PROGRAM
from tests.engine.convert.support import tiny_folder

BASH = shutil.which("bash") or "bash"
CHECKOUT = Path(__file__).resolve().parents[3]


def blocks(kind: str) -> list[str]:
    """Return the blocks of one language in the section, but for those about services."""
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("\n## Signing and sealing\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{kind}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.ci
def test_the_readme_is_true(tmp_path: Path) -> None:
    convert(tiny_folder(tmp_path / "qwen2_tiny", "qwen2_tiny"), tmp_path / "model.vqf")
    (trust,) = blocks("toml")
    (tmp_path / "trust.toml").write_text(trust)
    program = tmp_path / "bin" / "windhover"
    program.parent.mkdir()
    command = shlex.join([sys.executable, "-c", PROGRAM])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(CHECKOUT),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    lines = [line[2:] for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) > 15
    assert all(line.startswith("$ ") for block in blocks("sh") for line in block.splitlines())
    for line in lines:
        result = subprocess.run(
            [BASH, "-euo", "pipefail", "-c", line],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env=environment,
        )
        if line is lines[-1]:
            assert result.returncode == 1
            assert json.loads(result.stdout)["reason"] == "key-revoked"
        else:
            assert result.returncode == 0, (line, result.stderr)
    assert (tmp_path / "state" / "windhover" / "floors").exists()
