"""`windhover open` answers a challenge, or says why not, and leaves nothing half written."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from appliance.audit.claimed import read_claimed
from appliance.audit.opening import decode_opening
from appliance.bundle import decode_bundle
from appliance.cli import attested_answer
from engine.convert.convert import convert
from tests.appliance.cli.test_attest import SOFTWARE, Appliance
from tests.appliance.cli.workshop import Workshop
from tests.engine.convert.support import tiny_folder

DRAWN = "5a" * 32


@pytest.fixture
def appliance(tmp_path: Path, tiny_file: Path, monkeypatch: pytest.MonkeyPatch) -> Appliance:
    """An appliance that has answered once."""
    monkeypatch.setattr(attested_answer, "begin_software_digest", lambda: lambda: SOFTWARE)
    appliance = Appliance(Workshop(tmp_path), tiny_file)
    appliance.generate("--prompt", "hi", "--max-tokens", 6)
    return appliance


def open_it(appliance: Appliance, target: Path, *words: object):
    return appliance.shop(
        *("open", appliance.bundle, target, "--weights", appliance.model),
        *("--challenge", DRAWN, "--count", 5, "--threads", 1, *words),
    )


def test_an_opening_is_written_for_its_reader_alone(appliance: Appliance, tmp_path: Path) -> None:
    target = tmp_path / "opening"
    result = open_it(appliance, target)
    assert result.exit_code == 0, result.err
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    claimed = read_claimed(appliance.bundle.read_bytes())
    width = claimed.statement.trace_shape[2]
    opening = decode_opening(target.read_bytes(), claimed.extent, width)
    assert (opening.challenge.hex(), opening.count) == (DRAWN, 5)
    assert len(opening.units) == result.value["units"]
    assert open_it(appliance, target).exit_code == 2
    assert open_it(appliance, target, "--force").exit_code == 0


def test_without_the_ids_there_is_no_opening(appliance: Appliance, tmp_path: Path) -> None:
    bundle = decode_bundle(appliance.bundle.read_bytes())
    appliance.bundle.write_bytes(bundle.strip(["prompt_ids", "trace"]).encode())
    result = open_it(appliance, tmp_path / "opening")
    assert (result.value["opened"], result.value["reason"]) == (False, "no-output-ids")
    assert not (tmp_path / "opening").exists()


def test_other_weights_cannot_open(appliance: Appliance, tmp_path: Path) -> None:
    other = tmp_path / "q4.vqf"
    convert(tiny_folder(tmp_path / "qwen2_tiny", "qwen2_tiny"), other, quant="q4")
    result = open_it(appliance, tmp_path / "opening", "--weights", other)
    assert (result.value["opened"], result.value["reason"]) == (False, "other-model")
    assert not (tmp_path / "opening").exists()


def test_a_challenge_is_32_bytes(appliance: Appliance, tmp_path: Path) -> None:
    assert open_it(appliance, tmp_path / "opening", "--challenge", "5a").exit_code == 2
