"""`windhover synth`: what it prints; every failure is one line and the right exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.cli.main import run
from engine.vqf import open_vqf
from tests.appliance.cli.test_disk_full import file_size_limit
from tests.appliance.cli.workshop import Workshop

SMALL = ("--shape", "smollm2-135m", "--layers", "1")


def test_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "m.vqf"
    assert run(["synth", str(target), *SMALL, "--context", "64"]) == 0
    captured = capsys.readouterr()
    with open_vqf(target) as file:
        assert file.model_digest.hex() in captured.out
        assert file.manifest.config.context_length_tokens == 64
    assert "smollm2-135m, 1 layers, seed 0" in captured.out
    assert captured.err == ""


def test_for_a_script(shop: Workshop) -> None:
    target = shop.path("m.vqf")
    value = shop.done("synth", target, *SMALL, "--kind", "q4_0", "--seed", 9).value
    with open_vqf(target) as file:
        assert value["model_digest"] == file.model_digest.hex()
    assert value["size_bytes"] == target.stat().st_size
    assert (value["shape"], value["architecture"]) == ("smollm2-135m", "llama")
    assert (value["num_layers"], value["seed"]) == (1, 9)
    assert value["parameters_by_kind"].keys() == {"F32", "Q4_0"}
    assert value["num_parameters"] == sum(value["parameters_by_kind"].values())


def test_an_existing_file_stays(shop: Workshop) -> None:
    target = shop.path("m.vqf")
    target.write_bytes(b"precious")
    result = shop("synth", target, *SMALL)
    assert (result.exit_code, result.value["kind"]) == (2, "WriteError")
    assert "exists" in result.err
    assert target.read_bytes() == b"precious"


def test_a_limit_on_file_sizes(shop: Workshop) -> None:
    before = {*shop.folder.iterdir()}
    with file_size_limit(1 << 20):
        result = shop("synth", shop.path("m.vqf"), *SMALL)
    assert (result.exit_code, result.value["kind"]) == (3, "WriteError")
    assert "File too large" in result.err
    assert {*shop.folder.iterdir()} == before


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (("--shape", "qwen3-30b-a3b"), "UnsupportedError", "joins with its architecture"),
        (("--shape", "qwen3.8-27b"), "UnsupportedError", "joins with its architecture"),
        (("--shape", "qwen9"), "ConfigError", "no shape 'qwen9'"),
        ((*SMALL, "--kind", "q4_k"), "ConfigError", "columns come in 256"),
        ((*SMALL, "--kind", "q9"), "UsageError", "--kind"),
        ((*SMALL, "--seed", "-1"), "UsageError", "--seed"),
        (("--shape", "qwen3-8b", "--layers", "0"), "UsageError", "--layers"),
        (("--shape", "qwen3-8b", "--layers", "5000"), "ConfigError", "layers must be in"),
        ((*SMALL, "--context", "9999999"), "ConfigError", "context must be in"),
        ((), "UsageError", "--shape"),
    ],
)
def test_requests_that_make_no_sense(
    shop: Workshop, words: tuple[str, ...], kind: str, message: str
) -> None:
    before = {*shop.folder.iterdir()}
    result = shop("synth", shop.path("m.vqf"), *words)
    assert (result.exit_code, result.value["kind"]) == (2, kind)
    assert message in result.err
    assert result.err.count("\n") == 1
    assert {*shop.folder.iterdir()} == before


def test_a_folder_that_is_not_there(shop: Workshop) -> None:
    result = shop("synth", shop.path("none") / "m.vqf", *SMALL)
    assert (result.exit_code, result.value["kind"]) == (2, "WriteError")
