"""`windhover inspect` says what a file is, to a person and to a script."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from appliance.cli.main import run
from engine.vqf import open_vqf

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appliance.cli.workshop import Workshop


def test_a_person_reads_what_it_is(weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_vqf(weights) as file:
        digest_hex = file.model_digest.hex()
    assert run(["inspect", str(weights)]) == 0
    out = capsys.readouterr().out
    assert f"  model digest  {digest_hex}\n" in out
    assert "  architecture  llama, 2 layers\n" in out
    assert "  form          plain, not signed\n" in out
    assert "not checked" in out
    assert "  vectors       none\n" in out
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
    assert value["config"]["pooling"] is None
    assert value["tokenizer"] == {
        "bos_id": None,
        "eos_ids": [2],
        "add_bos": False,
        "embedding_end_id": None,
    }
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


def test_signatures_are_shown_and_not_believed(
    shop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shop.weights()
    words = ("--line", "demo", "--release", 2, "--not-before", "2020-01-01")
    key_ids = shop.done("sign", path, "--key", shop.path("vendor.pem"), *words).value["key_ids"]
    value = shop.done("inspect", path).value
    assert (value["form"], value["signed"], value["signatures_checked"]) == ("signed", True, False)
    (signature,) = value["signatures"]
    assert signature["key_id"] == key_ids[0]
    assert (signature["line"], signature["release"]) == ("demo", 2)
    assert (signature["not_before"], signature["expires"]) == (1_577_836_800, None)
    assert run(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert "not verified: release 2 of line demo, valid from 2020-01-01T00:00:00Z\n" in out
    assert f"by key {key_ids[0]}\n" in out


@pytest.mark.parametrize("secret", [False, True])
def test_a_sealed_file_tells_what_anybody_may_know(
    shop: Workshop, capsys: pytest.CaptureFixture[str], secret: bool
) -> None:
    path, sealed = shop.weights(), shop.path("sealed.vqf")
    words = ("--line", "demo", "--release", 2)
    shop.done("sign", path, "--key", shop.path("vendor.pem"), *words)
    to = ("--passphrase-file", shop.secret("pass", b"x"))
    made = shop.done("seal", path, sealed, *(to if secret else ("--to", shop.public("appliance"))))
    value = shop.done("inspect", sealed).value
    assert value == {
        "file": str(sealed),
        "size_bytes": sealed.stat().st_size,
        "form": "sealed",
        "authenticated": False,
        "file_id": made.value["file_id"],
        "recipients": made.value["recipients"],
        "manifest_length_bytes": value["manifest_length_bytes"],
        "signatures_length_bytes": value["signatures_length_bytes"],
        "data_length_bytes": value["data_length_bytes"],
        "num_chunks": 5,
    }
    assert run(["inspect", str(sealed)]) == 0
    out = capsys.readouterr().out
    labels = [line[:15].strip() for line in out.splitlines()[1:]]
    who = "sealed under" if secret else "sealed for"
    assert labels == ["form", "file id", who, "size", "data", "manifest", "signatures"]
    assert made.value["model_digest"] not in out


def test_with_a_key_a_sealed_file_tells_everything(shop: Workshop) -> None:
    path, sealed = shop.weights(), shop.path("sealed.vqf")
    shop.done("sign", path, "--key", shop.path("vendor.pem"), "--line", "demo", "--release", 2)
    shop.done("seal", path, sealed, "--to", shop.public("appliance"))
    plain = shop.done("inspect", path).value
    value = shop.done("inspect", sealed, "--key", shop.path("appliance.pem")).value
    assert value["form"] == "sealed"
    same = ("model_digest", "config", "tokenizer", "extents", "signatures", "kinds")
    assert {name: value[name] for name in same} == {name: plain[name] for name in same}
