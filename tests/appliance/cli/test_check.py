"""`windhover check` finds every changed byte, and says what it accepted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from appliance.cli.main import run
from engine.vqf import open_vqf

if TYPE_CHECKING:
    from pathlib import Path


def flip(path: Path, offset: int) -> None:
    """Change one bit of one byte of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_a_good_file_passes(weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_vqf(weights) as file:
        digest_hex = file.model_digest.hex()
    assert run(["check", str(weights), "--dev"]) == 0
    captured = capsys.readouterr()
    assert "all 5 chunks verified" in captured.out
    assert digest_hex in captured.out
    assert "--dev" in captured.err


def test_a_script_reads_one_object(weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(weights), "--dev", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["verified"] is True
    assert value["signed"] is False
    assert value["num_chunks"] == 5
    assert value["size_bytes"] == weights.stat().st_size


def test_unsigned_weights_are_refused(weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(weights)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "--dev" in captured.err
    assert captured.err.count("\n") == 1


def test_every_changed_byte_is_found(weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = weights.stat().st_size
    # each page once, at a place that differs from page to page, and both ends
    offsets = {0, size - 1, *(page + page // 4096 * 37 % 4096 for page in range(0, size, 4096))}
    for offset in sorted(offsets):
        flip(weights, offset)
        assert run(["check", str(weights), "--dev"]) == 1, offset
        flip(weights, offset)
    capsys.readouterr()
    assert run(["check", str(weights), "--dev"]) == 0


@pytest.mark.parametrize("change", ["shorter", "longer"])
def test_another_length_is_found(
    change: str, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] if change == "shorter" else data + b"\0")
    assert run(["check", str(weights), "--dev", "--json"]) == 1
    value = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert value["kind"] == "FormatError"
    assert value["rule"].startswith("R")


def test_a_missing_file_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.vqf"
    assert run(["check", str(path), "--dev"]) == 2
    assert capsys.readouterr().err == f"windhover: {path}: No such file or directory\n"
