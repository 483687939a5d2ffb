"""`windhover check` finds every changed byte, and says what it accepted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from appliance.cli.main import run
from engine.vqf import open_vqf, outline
from tests.appliance.cli.workshop import line_table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appliance.cli.workshop import Workshop


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
    assert value["form"] == "plain"
    assert value["verdict"] == {"mode": "dev"}
    assert value["num_chunks"] == 5
    assert value["size_bytes"] == weights.stat().st_size


def test_unsigned_weights_are_refused(weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(weights)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "--dev" in captured.err
    assert captured.err.count("\n") == 1


def test_a_person_reads_who_vouches(shop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    path, sealed = shop.weights(), shop.path("sealed.vqf")
    words = ("--line", "demo", "--release", 4, "--expires", "2090-01-01")
    key_ids = shop.done("sign", path, "--key", shop.path("vendor.pem"), *words).value["key_ids"]
    shop.done("seal", path, sealed, "--to", shop.public("appliance"))
    trust = shop.trust(line_table("demo", "vendor"), keys={"vendor": "weights"}, sealed=True)
    key = shop.path("appliance.pem")
    assert run(["check", str(sealed), "--trust", str(trust), "--key", str(key)]) == 0
    out = capsys.readouterr().out
    assert "  form          sealed\n" in out
    assert "  release       4 of line demo, until 2090-01-01T00:00:00Z\n" in out
    assert f"  vouched by    vendor ({key_ids[0]})\n" in out


@pytest.mark.parametrize("place", ["preamble", "recipients", "header tag", "manifest", "tags"])
def test_every_part_of_a_sealed_head_is_checked(shop: Workshop, place: str) -> None:
    offsets = {"preamble": 96, "recipients": 200, "header tag": 16_520, "manifest": 16_600}
    sealed = shop.path("sealed.vqf")
    shop.done("seal", shop.weights(), sealed, "--to", shop.public("appliance"))
    preamble = outline(sealed).preamble
    end = 16_576 + preamble.manifest_length + preamble.signatures_length
    flip(sealed, {**offsets, "tags": end + 40}[place])
    result = shop("check", sealed, "--dev", "--key", shop.path("appliance.pem"))
    assert result.exit_code == 1
    assert result.value["kind"] in {"WeightsError", "FormatError"}


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
