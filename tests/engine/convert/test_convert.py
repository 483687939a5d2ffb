"""The whole conversion: the file that comes out, and that nothing half-written stays behind."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__

from crypto.errors import WriteError
from engine.convert.convert import convert
from engine.convert.gguf import GgufFile
from engine.convert.gguf_model import read_gguf
from engine.errors import ConfigError, ConversionError, UnsupportedError
from engine.vqf import open_vqf
from tests.engine.convert.support import CONVERT, TINY, edit_json, small_gguf, tiny_folder

CHECKOUT = Path(__file__).resolve().parents[3]


def stored_tensors(path: Path) -> dict[str, bytes]:
    """Every tensor of a VQF file, all chunks verified."""
    out = {}
    with open_vqf(path) as file:
        for extent in file.manifest.extents:
            if extent.tensors:
                data = file.read_extent(extent.name)
                for tensor in extent.tensors:
                    start = tensor.offset_bytes
                    out[tensor.name] = data[start : start + tensor.length_bytes].tobytes()
    return out


@pytest.mark.parametrize("name", TINY)
def test_what_is_in_the_file(tmp_path: Path, name: str):
    source, target = CONVERT / f"{name}-f32.gguf", tmp_path / "m.vqf"
    steps: list[tuple[int, int]] = []
    done = convert(source, target, progress=lambda *step: steps.append(step))
    with GgufFile(source) as file:
        checkpoint = read_gguf(file)
        expected = {key: tensor.whole().tobytes() for key, tensor in checkpoint.tensors.items()}
    assert stored_tensors(target) == expected
    with open_vqf(target) as file:
        assert file.manifest.config == checkpoint.config
        assert file.manifest.tokenizer == checkpoint.text.config
        assert bytes(file.read_bytes("tokenizer")) == checkpoint.text.tokenizer_json
        assert bytes(file.read_bytes("template")) == checkpoint.text.template
        assert file.model_digest == done.model_digest
    assert done.file_bytes == target.stat().st_size
    assert done.architecture == name.removesuffix("_tiny")
    assert done.num_parameters == sum(np.prod(t.shape) for t in checkpoint.tensors.values())
    assert sum(done.kinds.values()) == done.num_parameters
    assert steps == sorted(steps)
    assert steps[-1][0] == steps[-1][1]
    assert list(tmp_path.iterdir()) == [target]


def test_a_model_without_a_template(tmp_path: Path):
    folder = tiny_folder(tmp_path / "m", "qwen3_tiny")
    edit_json(folder / "tokenizer_config.json", chat_template=...)
    convert(folder, tmp_path / "m.vqf")
    with open_vqf(tmp_path / "m.vqf") as file:
        assert not file.has_extent("template")


@pytest.mark.parametrize("quant", ["q4", "q8"])
def test_quantising_one_piece_at_a_time_changes_nothing(tmp_path: Path, monkeypatch, quant):
    folder = tiny_folder(tmp_path / "m", "llama_tiny")
    whole = convert(folder, tmp_path / "whole.vqf", quant=quant)
    monkeypatch.setattr("engine.convert.checkpoint._PIECE_VALUES", 1)
    monkeypatch.setattr("engine.convert.quantize._TILE_GROUPS", 61)
    pieces = convert(folder, tmp_path / "pieces.vqf", quant=quant)
    assert pieces == whole


def test_importing_one_piece_at_a_time_changes_nothing(tmp_path: Path, monkeypatch):
    source = CONVERT / "llama_tiny-f32.gguf"
    whole = convert(source, tmp_path / "whole.vqf")
    monkeypatch.setattr("engine.convert.checkpoint._PIECE_VALUES", 1)
    assert convert(source, tmp_path / "pieces.vqf") == whole


CONVERT_ALL = """
import sys
from pathlib import Path
from engine.convert.convert import convert
folder, target = Path(sys.argv[1]), Path(sys.argv[2])
for quant in ("keep", "q4", "q8"):
    print(convert(folder, target / f"{quant}.vqf", quant=quant).model_digest.hex())
"""


def test_the_same_bytes_whatever_the_cpu_has(tmp_path: Path):
    """NumPy chooses loops by what the CPU has; none of them may show in a file."""
    folder = tiny_folder(tmp_path / "m", "llama_tiny")
    wide = [name for name in __cpu_dispatch__ if "AVX512" in name or name == "X86_V4"]
    found = []
    for number, disabled in enumerate([[], wide, __cpu_dispatch__]):
        target = tmp_path / str(number)
        target.mkdir()
        settings = {"NPY_DISABLE_CPU_FEATURES": " ".join(disabled)} if disabled else {}
        run = subprocess.run(
            [sys.executable, "-c", CONVERT_ALL, str(folder), str(target)],
            capture_output=True,
            check=True,
            cwd=CHECKOUT,
            env={**os.environ, **settings},
        )
        found.append(
            (run.stdout, [(target / f"{q}.vqf").read_bytes() for q in ("keep", "q4", "q8")])
        )
    assert found[0] == found[1] == found[2]


DIGESTS = json.loads((CONVERT / "digests.json").read_text())["model_digests"]


@pytest.mark.parametrize("name", DIGESTS)
def test_one_source_gives_one_digest(tmp_path: Path, name: str):
    """On every machine, and in every later version."""
    if name.endswith(".gguf"):
        done = convert(CONVERT / name, tmp_path / "m.vqf")
    else:
        checkpoint, quant = name.split()
        done = convert(tiny_folder(tmp_path / "m", checkpoint), tmp_path / "m.vqf", quant=quant)
    assert done.model_digest.hex() == DIGESTS[name]


def assert_nothing_left(folder: Path, *allowed: Path) -> None:
    assert sorted(folder.iterdir()) == sorted(allowed)


def test_an_existing_target_is_replaced_only_when_asked(tmp_path: Path):
    target = tmp_path / "m.vqf"
    target.write_bytes(b"mine")
    source = CONVERT / "qwen3_tiny-q8_0.gguf"
    with pytest.raises(ConfigError, match="exists"):
        convert(source, target)
    assert target.read_bytes() == b"mine"
    convert(source, target, force=True)
    with open_vqf(target) as file:
        assert file.manifest.config.architecture == "qwen3"
    assert_nothing_left(tmp_path, target)


def test_a_failed_replacement_leaves_what_was_there(tmp_path: Path):
    target = tmp_path / "m.vqf"
    target.write_bytes(b"mine")
    source = tmp_path / "bad.gguf"
    source.write_bytes(small_gguf().encode()[:-4000])
    with pytest.raises(ConversionError):
        convert(source, target, force=True)
    assert target.read_bytes() == b"mine"
    assert_nothing_left(tmp_path, target, source)


def test_the_source_is_never_replaced(tmp_path: Path):
    source = small_gguf().write(tmp_path / "m.gguf")
    before = source.read_bytes()
    with pytest.raises(ConfigError, match="is the source"):
        convert(source, source, force=True)
    assert source.read_bytes() == before


def test_damage_that_shows_late_leaves_nothing(tmp_path: Path):
    file = small_gguf()
    tensor = next(tensor for tensor in file.tensors if "ffn_down" in tensor.name)
    tensor.data = tensor.data[:-4] + np.float32(np.inf).tobytes()
    source = file.write(tmp_path / "m.gguf")
    with pytest.raises(ConversionError, match="ffn_down"):
        convert(source, tmp_path / "m.vqf")
    assert_nothing_left(tmp_path, source)


def test_an_interrupt_leaves_nothing(tmp_path: Path):
    def interrupt(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(CONVERT / "llama_tiny-f32.gguf", tmp_path / "m.vqf", progress=interrupt)
    assert_nothing_left(tmp_path)


def test_a_gguf_file_is_not_quantised(tmp_path: Path):
    with pytest.raises(ConfigError, match="imported as it is"):
        convert(CONVERT / "llama_tiny-f32.gguf", tmp_path / "m.vqf", quant="q4")


def test_sources_that_are_nothing(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "missing", tmp_path / "m.vqf")
    with pytest.raises(UnsupportedError, match=r"model\.safetensors"):
        convert(tmp_path, tmp_path / "m.vqf")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ConversionError, match="not a GGUF"):
        convert(tmp_path / "empty", tmp_path / "m.vqf")


def test_a_disk_that_is_full(tmp_path: Path):
    """The limit on file sizes stands in for it: the kernel refuses in the same places."""
    source = CONVERT / "qwen3_tiny-q8_0.gguf"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(WriteError, match=r"m\.vqf") as caught:
            convert(source, tmp_path / "m.vqf")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EFBIG
    assert_nothing_left(tmp_path)


def test_a_disk_that_fills_up_while_writing(tmp_path: Path, monkeypatch):
    real, calls = os.pwrite, []

    def refuse(*arguments):
        calls.append(arguments)
        if len(calls) > 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(WriteError, match=r"m\.vqf.*No space") as caught:
        convert(CONVERT / "qwen3_tiny-q8_0.gguf", tmp_path / "m.vqf")
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC
    assert_nothing_left(tmp_path)


@pytest.mark.parametrize("target", ["missing/m.vqf", "file/m.vqf"])
def test_targets_that_cannot_be_written(tmp_path: Path, target: str):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WriteError, match=r"m\.vqf"):
        convert(CONVERT / "qwen3_tiny-q8_0.gguf", tmp_path / target)
    assert_nothing_left(tmp_path, tmp_path / "file")
