"""Every command of the operator's handbook, in its order, on a machine that systemd boots.

Packages are installed from a wheelhouse, without a network; then keys, weights, service, upgrade,
roll back, change of keys, revocation, backup and audit as they are written there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from firmware.wheelhouse.collect import collect
from tests.appliance.conftest import tiny_file  # noqa: F401  (a fixture)
from tests.firmware.handbook import ROLES, Block, blocks, read, script
from tests.firmware.machine import BOOT, CHECKOUT, Machine, can_boot
from tests.firmware.tools import tool

pytestmark = pytest.mark.slow

WALK = "/run/walk"


@contextmanager
def bare(folder: Path, weights: Path, wheelhouse: Path) -> Iterator[Machine]:
    """Boot a machine with nothing of ours on it; three people have a folder each, and a medium."""
    for name in ("upper", "root", "run", "files/usr/lib/windhover"):
        (folder / name).mkdir(parents=True)
    (folder / "files/usr/lib/windhover/first.sh").write_text(":\n")
    walk = folder / WALK.lstrip("/")
    shutil.copytree(wheelhouse, walk / "medium/wheelhouse")
    for role in ROLES:
        (walk / role).mkdir()
        (walk / role / "medium").symlink_to("../medium")
    shutil.copy(weights, walk / "signer/model.vqf")
    words = ["--mount", "--pid", "--fork", "--kill-child", "--cgroup", "--net", "--uts", "--ipc",
             "--propagation", "private"]  # fmt: skip
    goal = [str(folder), str(CHECKOUT), sys.base_prefix, "basic.target"]
    with (folder / "boot.log").open("wb") as log:
        process = subprocess.Popen(
            [tool("unshare"), *words, "sh", str(BOOT), *goal], stdout=log, stderr=log
        )
    machine = Machine(folder, process)
    try:
        for _ in range(120):
            if process.poll() is not None:
                pytest.skip(f"no machine can be made: {(folder / 'boot.log').read_text()[-300:]}")
            time.sleep(0.5)
            if (folder / "run/systemd/private").exists():
                break
        # nginx is only a program where `make tools` installed it
        machine.enter("systemctl", "unmask", "nginx.service")
        yield machine
    finally:
        process.kill()
        process.wait(30)


def run(machine: Machine, block: Block, before: str) -> subprocess.CompletedProcess[str]:
    """Run a block in the folder of whoever types it."""
    role = block.kind.split()[1]
    text = f"set -eu -o pipefail\ncd {WALK}/{role}\n{before}{script(block.text)}"
    environment = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"HOME={WALK}/{role}"]
    return machine.enter(*environment, "LC_ALL=C.UTF-8", "bash", "-c", text, timeout_s=1200)


def test_every_command_does_what_it_says(tmp_path: Path, tiny_file: Path) -> None:  # noqa: F811
    if (why := can_boot()) is not None:
        pytest.skip(why)
    wheelhouse = Path(os.environ.get("WINDHOVER_WHEELHOUSE") or tmp_path / "wheelhouse")
    if not wheelhouse.exists():
        collect(CHECKOUT, wheelhouse, extras=(), machine=None)
    shell, *steps = [block for block in blocks(read("en")) if block.kind.startswith("sh ")]
    assert "as_service()" in shell.text
    assert len(steps) > 40
    with (
        tempfile.TemporaryDirectory(prefix="wh-", ignore_cleanup_errors=True) as folder,
        bare(Path(folder), tiny_file, wheelhouse) as machine,
    ):
        for step in steps:
            begun = time.monotonic()
            # nobody does all of this in one hour, in which the unit allows five starts
            machine.enter("systemctl", "reset-failed", "windhover.service")
            done = run(machine, step, shell.text if step.kind == shell.kind else "")
            said = f"{step.section} {step.text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            print(f"{time.monotonic() - begun:6.1f} s  {said}")
            assert done.returncode == 0, said
