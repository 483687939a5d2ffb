"""`windhover convert`: what it prints; every failure is one line and the right exit code."""

from __future__ import annotations

import errno
import json
import os
import resource
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.cli.main import run
from engine.vqf import open_vqf
from tests.engine.convert.support import CONVERT, Gguf, small_gguf, tiny_folder

CHECKOUT = Path(__file__).resolve().parents[3]
SOURCE = CONVERT / "qwen3_tiny-q8_0.gguf"


def test_a_gguf_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "m.vqf"
    assert run(["convert", str(SOURCE), str(target)]) == 0
    captured = capsys.readouterr()
    with open_vqf(target) as file:
        assert file.model_digest.hex() in captured.out
    assert "qwen3, 3 layers" in captured.out
    assert captured.err == ""


@pytest.mark.parametrize("quant", ["keep", "q4", "q8"])
def test_a_folder_for_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str], quant: str):
    folder, target = tiny_folder(tmp_path / "src", "llama_tiny"), tmp_path / "m.vqf"
    assert run(["convert", str(folder), str(target), "--quant", quant, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    value = json.loads(line)
    with open_vqf(target) as file:
        assert value["model_digest"] == file.model_digest.hex()
    assert value["architecture"] == "llama"
    assert value["num_parameters"] == sum(value["parameters_by_kind"].values())
    kinds = {"keep": {"F32"}, "q4": {"F32", "Q4_1", "Q8_0"}, "q8": {"F32", "Q8_0"}}
    assert value["parameters_by_kind"].keys() == kinds[quant]
    assert value["size_bytes"] == target.stat().st_size


def test_the_installed_command(tmp_path: Path) -> None:
    program = "import sys; from appliance.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "convert", str(SOURCE), str(tmp_path / "m.vqf"), "--json"],
        capture_output=True,
        check=True,
        cwd=CHECKOUT,
    )
    assert json.loads(done.stdout)["architecture"] == "qwen3"
    assert done.stderr == b""  # no progress where nobody looks


def fails(
    capsys: pytest.CaptureFixture[str], exit_code: int, words: str, *arguments: str | Path
) -> None:
    """The command fails with one line and leaves no output."""
    target = Path(arguments[1])
    assert run(["convert", *map(str, arguments)]) == exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err
    if target.parent.is_dir():
        assert not list(target.parent.glob("*.vqf"))
        assert not list(target.parent.glob(".*"))


def test_bad_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "m.vqf"
    path = tmp_path / "m.gguf"
    good = small_gguf().encode()

    path.write_bytes(good[: len(good) // 2])
    fails(capsys, 1, "truncated", path, out)
    path.write_bytes(good[:1000])
    fails(capsys, 1, "truncated", path, out)
    path.write_bytes(good[:100])
    fails(capsys, 1, "truncated", path, out)
    path.write_bytes(b"PK\x03\x04" + good[4:])
    fails(capsys, 1, "not a GGUF file", path, out)

    outside = small_gguf()
    outside.tensors[3].offset = 1 << 40
    fails(capsys, 1, "ends at byte", outside.write(path), out)
    overlapping = small_gguf()
    overlapping.tensors[3].offset = 0
    fails(capsys, 1, "overlaps", overlapping.write(path), out)
    huge = small_gguf()
    huge.num_tensors = 2**64 - 1
    fails(capsys, 1, "number of tensors", huge.write(path), out)

    short = small_gguf()
    for key in ("tokens", "token_type"):
        kind, values = short.metadata[f"tokenizer.ggml.{key}"]
        short.metadata[f"tokenizer.ggml.{key}"] = (kind, values[:-1])
    fails(capsys, 1, "263 tokens for an embedding of 264 rows", short.write(path), out)
    mute = small_gguf()
    mute.metadata = {k: v for k, v in mute.metadata.items() if not k.startswith("tokenizer.")}
    fails(capsys, 1, "no tokenizer", mute.write(path), out)


def test_bad_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "m.vqf"
    folder = tiny_folder(tmp_path / "src", "qwen3_tiny")
    (folder / "tokenizer.json").rename(tmp_path / "kept")
    fails(capsys, 1, "tokenizer.json", folder, out)
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    fails(capsys, 1, "tokenizer.json", folder, out)
    (tmp_path / "kept").rename(folder / "tokenizer.json")
    (folder / "config.json").write_text("{")
    fails(capsys, 1, "config.json", folder, out)


def test_what_is_not_supported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, path = tmp_path / "m.vqf", tmp_path / "m.gguf"
    other = Gguf({"general.architecture": ("str", "gemma3")})
    fails(capsys, 2, "gemma3", other.write(path), out)
    kind = small_gguf()
    kind.tensors[1].kind = 23
    fails(capsys, 2, "IQ4_XS", kind.write(path), out)
    spm = small_gguf()
    spm.metadata["tokenizer.ggml.model"] = ("str", "llama")
    fails(capsys, 2, "tokenizer model llama", spm.write(path), out)
    path.write_bytes(b"GGUF" + struct.pack(">IQQ", 3, 0, 0))
    fails(capsys, 2, "big-endian", path, out)


def test_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out" / "m.vqf"
    out.parent.mkdir()
    fails(capsys, 2, "No such file", tmp_path / "missing.gguf", out)
    fails(capsys, 2, "--quant", SOURCE, out, "--quant", "q5")
    fails(capsys, 2, "imported as it is", SOURCE, out, "--quant", "q4")
    fails(capsys, 2, "neither", out.parent, out)
    assert run(["convert", str(SOURCE)]) == 2


def test_an_existing_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "m.vqf"
    target.write_bytes(b"mine")
    assert run(["convert", str(SOURCE), str(target)]) == 2
    assert "exists" in capsys.readouterr().err
    assert target.read_bytes() == b"mine"
    assert run(["convert", str(SOURCE), str(target), "--force"]) == 0
    with open_vqf(target) as file:
        assert file.manifest.config.num_layers == 3


def test_targets_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(capsys, 2, "No such file", SOURCE, tmp_path / "missing" / "m.vqf")
    real = os.open

    def read_only(path, flags, *arguments, **named):
        if flags & (os.O_CREAT | os.O_TMPFILE) & ~os.O_DIRECTORY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return real(path, flags, *arguments, **named)

    monkeypatch.setattr(os, "open", read_only)
    fails(capsys, 2, "Read-only file system", SOURCE, tmp_path / "m.vqf")


def test_a_full_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    fails(capsys, 3, "No space left", SOURCE, tmp_path / "m.vqf")


def test_a_file_beyond_the_size_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        fails(capsys, 3, "File too large", SOURCE, tmp_path / "m.vqf")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
