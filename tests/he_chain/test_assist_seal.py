"""Protocol `assist` on SEAL at 128 bits: five layers, two processes, two folders, kill -9."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from he_chain.backends.seal import SealEvaluator, SealHolder
from he_chain.calib import calibrate, public_ids
from he_chain.errors import RangeError
from he_chain.parameters import Parameters
from he_chain.plaintext import PlainModel
from he_chain.records.flow import check_flow, check_levels
from he_chain.records.run_folder import Run
from he_chain.reports.measure import measure
from he_chain.roles.session import load_session
from tests.he_chain.assist_processes import NOBODY
from tests.he_chain.assist_run import carry_on, open_holder, prepare
from tests.he_chain.models import write_model
from tests.structure.source import CHECKOUT

pytestmark = [pytest.mark.slow, pytest.mark.ci]
pytest.importorskip("tenseal")

IDS = [3, 77, 410]
RING = Parameters(8192, 2)
WAIT_S = 120.0


@pytest.fixture
def folder():
    """A folder that another user can walk through."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.he_chain.assist_processes", *map(str, arguments)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for(condition) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_two_processes_and_kill_9(folder):
    path = write_model(folder)
    model = PlainModel(path)
    prepare(folder, model, IDS, max_positions=4, parameters=RING, backend=SealHolder)
    if os.getuid() == 0:
        for owned in ("EVALUATOR", "RUN"):
            for one in [folder / owned, *(folder / owned).rglob("*")]:
                os.chown(one, NOBODY, -1)
    holder = start("hold", folder)
    try:
        wait_for((folder / "socket").exists)
        for hops in (2, 7, 13):
            evaluator = start("evaluate", folder, path)
            wait_for(lambda hops=hops: len(list((folder / "RUN/records").iterdir())) > hops)
            evaluator.kill()  # SIGKILL, wherever it is
            evaluator.communicate()
        finished = start("evaluate", folder, path)
        output, _ = finished.communicate(timeout=WAIT_S)
        assert finished.returncode == 0
    finally:
        holder.kill()
        holder.communicate()
    assert output.splitlines()[-1] == "opened in HOLDER: []"
    if os.getuid() == 0:
        assert output.splitlines()[0] == "closed"
    run = Run.open(folder / "RUN")
    check_levels(run.begin, run.records)
    assert check_flow(run.begin, run.records).finished
    assert len(run.records) == 4 * 6
    ids = load_session(folder / "HOLDER").ids
    references = {
        "exact": model.exact_forward(ids),
        "wh1-float": model.float_profile_forward(ids),
    }
    found = measure(run, SealHolder.open(folder / "HOLDER"), references)
    assert all(c.passes(15) for c in found.checkpoints)
    assert not secret_pieces(folder)


def secret_pieces(folder: Path) -> list[str]:
    """Return the names of files in which a piece of the secret key stands, HOLDER left out."""
    secret = (folder / "HOLDER" / "secret.key").read_bytes()
    pieces = [secret[i : i + 32] for i in range(len(secret) // 4, len(secret) - 32, 4096)]
    assert len(pieces) > 20
    files = [p for name in ("EVALUATOR", "RUN") for p in (folder / name).rglob("*") if p.is_file()]
    assert len(files) > 30
    return [p.name for p in files if any(piece in p.read_bytes() for piece in pieces)]


def test_the_wrong_key_ends_the_run(tmp_path):
    model = PlainModel(write_model(tmp_path, num_layers=1))
    ranges = calibrate(model, public_ids(model)[:32])
    prepare(
        tmp_path, model, IDS, max_positions=3, parameters=RING, backend=SealHolder, ranges=ranges
    )
    holder = open_holder(tmp_path, SealHolder)
    holder._holder = SealHolder.create(RING)
    evaluator = SealEvaluator.open(tmp_path / "EVALUATOR")
    with pytest.raises(RangeError, match="canary"):
        carry_on(tmp_path, model, holder, evaluator=evaluator)
