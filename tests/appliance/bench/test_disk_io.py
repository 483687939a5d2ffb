"""The benchmark of a disk on a tiny model: all its parts, and the fields that it documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appliance.bench.disk import Disk
from appliance.bench.disk_io import SCHEMA, IoPlan, measure_io
from appliance.cli.main import run
from engine.vqf import open_vqf
from tests.appliance.bench.test_resident import documented, names_in


@pytest.fixture(autouse=True)
def on_a_disk(tmp_path: Path) -> None:
    """Skip where files are in memory anyway."""
    if Disk.of(tmp_path).device is None:
        pytest.skip("a disk is measured only where files are on one: none here")


def test_everything_once(tiny_vqf: Path) -> None:
    announced: list[tuple[int, int, float]] = []
    full = {
        "plan": {"mode": "full", "state": "cached"},
        "file": {"form": "plain"},
        "timings": {"s_per_token": {"median": 0.5}},
    }
    with open_vqf(tiny_vqf) as file:
        results = measure_io(
            file,
            IoPlan(threads=(1,), rounds=1),
            [full],
            announce=lambda *needed: announced.append(needed),
            progress=lambda _done, _total: None,
        )
    assert announced[0][0] > 0
    assert all(each.work_s["compute"] == 0.5 for each in results.predictions)
    evidence = json.loads(json.dumps(results.as_json(), allow_nan=False))
    assert evidence["file"]["name"] == "tiny.vqf"
    told = set(names_in(evidence, ("machine", "versions", "bytes_per_s", "work_s", "disk"))) - {
        "schema"
    }
    words = documented(SCHEMA)
    assert told - {"s_per_token", "of_least", "of_most"} <= words
    assert words - told == {"s_per_token", "of_least", "of_most"}


def test_too_long(tiny_vqf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "io", str(tiny_vqf), "--max-minutes", "1e-9", "--json"]
    assert run(arguments) == 3
    assert json.loads(capsys.readouterr().out)["reason"] == "time"


def test_the_report(tiny_vqf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "io", str(tiny_vqf), "--threads", "1", "--rounds", "1"]) == 0
    shown = capsys.readouterr()
    assert "writes nothing" in shown.err
    assert "verified-stream, sealed, cached" in shown.out


def test_where_files_are(tmp_path: Path) -> None:
    found = Disk.of(tmp_path)
    assert found.device
    assert found.file_system
    assert Disk.of(Path("/proc/self/status")) == Disk(None, None, None, "proc")
