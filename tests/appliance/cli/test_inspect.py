"""`windhover inspect` says what a file is, to a person and to a script."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from appliance.cli.main import run
from engine.vqf import open_vqf

if TYPE_CHECKING:
    from pathlib import Path


def test_a_person_reads_what_it_is(weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_vqf(weights) as file:
        digest_hex = file.model_digest.hex()
    assert run(["inspect", str(weights)]) == 0
    out = capsys.readouterr().out
    assert f"  model digest  {digest_hex}\n" in out
    assert "  architecture  llama, 2 layers\n" in out
    assert "  form          plain, not signed\n" in out
    assert "not checked" in out
    # embedding, and seven matrices in each of two layers
    assert "  matrices      15 F32 (" in out


def test_every_tensor_on_request(weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(weights), "--tensors"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (gate,) = [line.split() for line in lines if line.startswith("  layers.1.gate ")]
    assert gate[1:] == ["F32", "64", "x", "32", "8.19", "kB"]


def test_a_script_reads_one_object(weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(weights), "--json", "--tensors"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["size_bytes"] == weights.stat().st_size
    assert value["contents_checked"] is False
    assert value["config"]["hidden_size"] == 32
    assert value["tokenizer"] == {"bos_id": None, "eos_ids": [2], "add_bos": False}
    assert value["kinds"].keys() == {"F32"}
    layer = 2 * (32 * 32 + 32 * 16) + 3 * 64 * 32 + 2 * 32
    assert value["num_parameters"] == 20 * 32 + 2 * layer + 32
    names = [extent["name"] for extent in value["extents"]]
    assert names == ["embedding", "layers.0", "layers.1", "final", "tokenizer"]
    assert value["extents"][3]["tensors"][0]["name"] == "final_norm"


def test_without_the_option_the_object_has_no_tensors(
    weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", str(weights), "--json"]) == 0
    assert all("tensors" not in e for e in json.loads(capsys.readouterr().out)["extents"])


@pytest.mark.parametrize(
    ("content", "exit_code"), [(None, 2), (b"", 1), (b"GGUF" + bytes(4096), 1)]
)
def test_what_is_no_weight_file_is_refused_in_one_line(
    content: bytes | None, exit_code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.vqf"
    if content is not None:
        path.write_bytes(content)
    assert run(["inspect", str(path)]) == exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
