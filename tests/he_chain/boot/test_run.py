"""The protocol `boot` on the real library in a toy ring, where that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from he_chain.backends import lattigo as client
from he_chain.backends.lattigo import LattigoEvaluator, LattigoHolder
from he_chain.backends.lattigo_library import GRAPHS, KEYS, find_library
from he_chain.backends.lattigo_parameters import BootParameters
from he_chain.backends.messages import Message
from he_chain.boot.layer import log_slots_of
from he_chain.boot.plan import BootPlan, plan
from he_chain.boot.ranges import calibrate
from he_chain.boot.run import INPUT_NAME, BootMeasure, begin, evaluate, write_keys
from he_chain.errors import (
    BackendError,
    CheckpointError,
    ProtocolError,
    RangeError,
    SecurityError,
)
from he_chain.plaintext import Forward, PlainModel
from he_chain.records.flow import check_flow, check_levels
from he_chain.records.run_folder import Run
from he_chain.reports.measure import measure
from tests.he_chain.models import write_model

TOKEN = 300
GATE_BITS = 12


def why_not() -> str:
    try:
        for package in (KEYS, GRAPHS):
            find_library(package)
    except BackendError as error:
        return str(error)
    return ""


needs_library = pytest.mark.skipif(bool(why_not()), reason=f"Lattigo: {why_not()}")


@dataclass
class World:
    """Everything of a run of one layer."""

    folder: Path
    plan: BootPlan
    exact: Forward
    run: Run

    @property
    def holder(self) -> Path:
        return self.folder / "holder"

    @property
    def evaluator(self) -> Path:
        return self.folder / "evaluator"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("boot")
    with PlainModel(write_model(folder, num_layers=1)) as model:
        ranges = calibrate(model, range(40), 2.0)
        parameters = BootParameters(10, 9, log_slots=log_slots_of(model.config))
        planned = plan(model, ranges, parameters)
        exact = model.exact_forward([TOKEN])
    world = World(folder, planned, exact, None)  # type: ignore[arg-type]
    written = write_keys(planned, world.holder, world.evaluator)
    assert written == sum(
        path.stat().st_size for path in world.evaluator.iterdir() if path.suffix == ".key"
    )
    begin(planned, world.holder, folder / "run", exact.residuals[0, 0], GATE_BITS)
    world.run = evaluate(planned, world.evaluator, folder / "run")
    return world


@needs_library
def test_a_layer_with_real_bootstraps_is_as_precise_as_its_gate(world: World) -> None:
    with LattigoHolder(world.plan.parameters, world.holder) as holder:
        found = measure(world.run, BootMeasure(holder, world.plan.ranges), {"exact": world.exact})
    assert [(c.tensor, c.layer, c.position) for c in found.checkpoints] == [("x", 0, 0)]
    assert found.checkpoints[0].passes(GATE_BITS)


@needs_library
def test_the_records_say_what_happened(world: World) -> None:
    run = Run.open(world.folder / "run")
    boot, lay = run.records
    assert [(r.kind, r.layer, r.position, r.exchanges) for r in run.records] == [
        ("boot", 0, 0, 0),
        ("lay", 0, 0, 0),
    ]
    assert boot.inputs[0].name == INPUT_NAME
    assert boot.outputs == lay.inputs
    assert [lay.inputs[0].level, lay.outputs[0].level] == [9, 1]
    assert boot.counts["bootstraps"] == lay.counts["bootstraps"] == 1
    assert (1, 1) in boot.levels
    assert boot.levels[-1] == (9, 1)
    assert lay.outputs[0].values == 64
    assert [sum(s.bits for s in r.seen_by_evaluator) for r in run.records] == [0, 0]
    assert [[s.values for s in r.seen_by_holder] for r in run.records] == [[], [64]]
    assert min(r.peak_rss_bytes for r in run.records) > 1 << 24
    assert "INSECURE" in run.begin.security
    assert check_flow(run.begin, run.records).finished
    check_levels(run.begin, run.records)


@needs_library
def test_the_evaluator_has_no_secret_and_no_way_to_decrypt(world: World) -> None:
    secret = (world.holder / "secret.key").read_bytes()
    assert (world.holder / "secret.key").stat().st_mode & 0o077 == 0
    names = sorted(path.name for path in world.evaluator.iterdir())
    assert names == ["bootstrap.key", "parameters.json", "switching.key"]
    pieces = [secret[place : place + 64] for place in range(64, len(secret) - 64, 4096)]
    for path in (*world.evaluator.iterdir(), *(world.folder / "run").rglob("*.ct")):
        data = path.read_bytes()
        assert not any(piece in data for piece in pieces), path.name
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", find_library(GRAPHS)],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    exported = {line.split()[2] for line in listed.splitlines() if " T " in line}
    assert "EvalForward" in exported
    assert not [n for n in exported if "ecrypt" in n or "Secret" in n or "KeyGen" in n]
    cipher = world.run.read_blob(world.run.records[-1].outputs[0])
    with LattigoEvaluator(world.evaluator) as evaluator:
        for name in ("decrypt", "create", "open_secret"):
            with pytest.raises(ProtocolError, match="knows no request"):
                evaluator._worker.call(Message(name, {}, [cipher]))


@needs_library
def test_a_folder_with_a_secret_is_refused(world: World, tmp_path: Path) -> None:
    for path in world.evaluator.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "secret.key").write_bytes(b"x")
    with pytest.raises(SecurityError, match="secret key in the evaluator's folder"):
        LattigoEvaluator(tmp_path)


@needs_library
def test_a_secret_that_others_may_read_is_refused(world: World, tmp_path: Path) -> None:
    shutil.copy(world.holder / "secret.key", tmp_path)
    (tmp_path / "secret.key").chmod(0o644)
    with pytest.raises(SecurityError, match="read by others"):
        LattigoHolder(world.plan.parameters, tmp_path)


@needs_library
def test_another_key_gives_no_number_that_could_be_believed(world: World, tmp_path: Path) -> None:
    cipher = world.run.read_blob(world.run.records[-1].outputs[0])
    with LattigoHolder(world.plan.parameters) as stranger, pytest.raises(RangeError):
        BootMeasure(stranger, world.plan.ranges).decrypt(cipher)


@needs_library
def test_damage_is_refused_before_the_library_sees_it(world: World) -> None:
    cipher = world.run.read_blob(world.run.records[-1].outputs[0])
    with LattigoHolder(world.plan.parameters, world.holder) as holder:
        for damaged in (cipher[:-1], cipher[:1000], b"", cipher[:-8] + b"\xff" * 8):
            with pytest.raises(ProtocolError):
                holder.decrypt(damaged)
        assert holder.decrypt(cipher).shape == (512,)


@needs_library
def test_a_stopped_run_goes_on_where_it_was(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(world.folder / "run", folder)
    (folder / "records" / "00001.rec").unlink()
    seen: list[str] = []
    run = evaluate(
        world.plan, world.evaluator, folder, progress=lambda hop, record: seen.append(hop.kind)
    )
    assert seen == ["lay"]
    assert run.records[0] == world.run.records[0]
    with LattigoHolder(world.plan.parameters, world.holder) as holder:
        measured = BootMeasure(holder, world.plan.ranges)
        old, new = (
            measured.decrypt(r.read_blob(r.records[1].outputs[0])) for r in (world.run, run)
        )
    assert np.abs(old - new).max() < 2.0**-GATE_BITS
    assert evaluate(world.plan, tmp_path / "nowhere", folder).next_number == 2


@needs_library
def test_a_run_of_another_plan_or_with_another_ciphertext_is_refused(
    world: World, tmp_path: Path
) -> None:
    other = replace(world.plan, model_digest=bytes(32))
    with pytest.raises(CheckpointError, match="another plan"):
        evaluate(other, world.evaluator, world.folder / "run")
    folder = tmp_path / "run"
    shutil.copytree(world.folder / "run", folder)
    (folder / "records" / "00001.rec").unlink()
    path = folder / "cts" / f"{world.run.records[0].outputs[0].name}.ct"
    data = bytearray(path.read_bytes())
    data[-8] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="not the one"):
        evaluate(world.plan, world.evaluator, folder)


@needs_library
def test_a_residual_outside_its_range_is_not_encrypted(world: World, tmp_path: Path) -> None:
    outlier = world.exact.residuals[0, 0].copy()
    outlier[7] = world.plan.ranges.residual * 1.01
    with pytest.raises(RangeError):
        begin(world.plan, world.holder, tmp_path / "run", outlier, GATE_BITS)
    assert not (tmp_path / "run").exists()


@needs_library
def test_keys_are_not_overwritten(world: World) -> None:
    with pytest.raises(BackendError, match="has a key already"):
        write_keys(world.plan, world.holder, world.evaluator)


@needs_library
def test_a_killed_library_is_an_error_with_words(world: World) -> None:
    with LattigoHolder(world.plan.parameters, world.holder) as holder:
        os.kill(holder._worker.pid, 9)
        with pytest.raises(BackendError, match=r"Lattigo \(holder\): the worker was ended by"):
            holder.usage()


@needs_library
@pytest.mark.slow  # it grows a stack to its limit of a gigabyte
def test_what_crashes_inside_lattigo_is_an_error_with_its_first_line(world: World) -> None:
    cipher = world.run.read_blob(world.run.records[-1].outputs[0])
    with (
        LattigoHolder(world.plan.parameters, world.holder) as holder,
        pytest.raises(BackendError, match=r"stack exceeds|stack overflow"),
    ):
        holder._worker.call(Message("decrypt", {}, [cipher[:1000]]))


def test_without_memory_no_keys_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = client.keys_bytes(BootParameters(16, 9), 33)
    assert 10 << 30 < wanted < 14 << 30
    monkeypatch.setattr("he_chain.backends.memory.available_bytes", lambda: wanted - 1)
    with pytest.raises(BackendError, match="MiB available"):
        client.check_memory(wanted, "the keys of bootstraps")


def test_folders_without_parameters_are_refused(tmp_path: Path) -> None:
    for text in (None, "{", '{"parameters": {}, "primes": []}', '{"parameters": 3}'):
        if text is not None:
            (tmp_path / "parameters.json").write_text(text)
        with pytest.raises(CheckpointError):
            client.read_parameters(tmp_path)
