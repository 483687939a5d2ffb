"""The safetensors reader: what it reads, and every way of being wrong that it refuses."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from engine.convert.safetensors import SafetensorsFolder, read_rows
from engine.errors import ConversionError, UnsupportedError
from tests.engine.convert.support import REFERENCE, TINY, encode_safetensors, read_safetensors

SMALL = {"a": ("F32", (2, 3), bytes(range(24))), "b": ("BF16", (4,), bytes(8))}


def write(folder: Path, header: Any, body: bytes = bytes(32), length: int | None = None) -> None:
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(encoded) if length is None else length
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", size) + encoded + body)


def entry(dtype: Any = "F32", shape: Any = (8,), offsets: Any = (0, 32), **more: Any) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


def refused(folder: Path, error: type[Exception] = ConversionError) -> str:
    with pytest.raises(error) as caught:
        SafetensorsFolder(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", TINY)
def test_agrees_with_the_safetensors_package(name: str):
    expected = load_file(REFERENCE / name / "model.safetensors")
    with SafetensorsFolder(REFERENCE / name) as folder:
        assert folder.tensors.keys() == expected.keys()
        for key, tensor in folder.tensors.items():
            rows = tensor.shape[0] if len(tensor.shape) == 2 else 1
            assert tensor.shape == expected[key].shape
            assert read_rows(tensor, 0, rows).tobytes() == expected[key].tobytes()


def test_rows_of_every_kind(tmp_path: Path):
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    half = (values.view(np.uint32) >> 16).astype(np.uint16)
    save_file({"f": values, "h": values.astype(np.float16)}, tmp_path / "model.safetensors")
    stored = read_safetensors(tmp_path / "model.safetensors")
    stored["b"] = ("BF16", (4, 3), half.tobytes())
    (tmp_path / "model.safetensors").write_bytes(encode_safetensors(stored))
    with SafetensorsFolder(tmp_path) as folder:
        assert (read_rows(folder.tensors["f"], 1, 2) == values[1:3]).all()
        assert (read_rows(folder.tensors["h"], 3, 1) == values[3:]).all()
        assert (read_rows(folder.tensors["b"], 0, 4) == half).all()


def shards(folder: Path, *groups: dict, index: dict[str, str] | None = None) -> None:
    names = {}
    for number, tensors in enumerate(groups):
        file = f"model-{number}.safetensors"
        (folder / file).write_bytes(encode_safetensors(tensors))
        names |= dict.fromkeys(tensors, file)
    weight_map = names if index is None else index
    content = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))


def test_shards(tmp_path: Path):
    shards(tmp_path, {"a": SMALL["a"]}, {"b": SMALL["b"]})
    with SafetensorsFolder(tmp_path) as folder:
        assert folder.tensors.keys() == SMALL.keys()
        assert read_rows(folder.tensors["a"], 0, 2).tobytes() == SMALL["a"][2]


def test_truncated_anywhere(tmp_path: Path):
    data = encode_safetensors(SMALL)
    for length in range(len(data)):
        (tmp_path / "model.safetensors").write_bytes(data[:length])
        refused(tmp_path)


def test_trailing_bytes(tmp_path: Path):
    (tmp_path / "model.safetensors").write_bytes(encode_safetensors(SMALL) + b"\0")
    assert "longer or shorter" in refused(tmp_path)


@pytest.mark.parametrize("length", [0, 1, 2**20, 100_000_001, 2**63, 2**64 - 1])
def test_wrong_lengths_of_the_header(tmp_path: Path, length: int):
    write(tmp_path, {"a": entry()}, length=length)
    refused(tmp_path)


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{",
        b'{"a":1}',
        b'{"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}, "a":{}}',
        b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,32]}}',
        b"{" + b'"a":[' * 100_000,
        b"\xff\xfe{}",
    ],
)
def test_headers_that_are_no_header(tmp_path: Path, header: bytes):
    write(tmp_path, header)
    refused(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"shape": 8},
        {"shape": [8.0]},
        {"shape": [True]},
        {"shape": ["8"]},
        {"shape": [-8]},
        {"shape": [2**25]},
        {"shape": [7]},
        {"shape": [2**24, 2**24]},
        {"offsets": [0]},
        {"offsets": [0, 32, 32]},
        {"offsets": [32, 0]},
        {"offsets": [0, 31]},
        {"offsets": [-32, 0]},
        {"offsets": [0, 1 << 61]},
        {"offsets": [4, 36]},
        {"more": 1},
    ],
)
def test_entries_that_are_wrong(tmp_path: Path, wrong: dict):
    write(tmp_path, {"a": entry(**wrong)})
    assert " a " in refused(tmp_path)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "x" * 256])
def test_names_that_cannot_be_shown(tmp_path: Path, name: str):
    write(tmp_path, {name: entry()})
    assert "no name of a tensor" in refused(tmp_path)


@pytest.mark.parametrize("shape", [[], [2, 2, 2], [0], [0, 8]])
def test_shapes_that_are_not_supported(tmp_path: Path, shape: list[int]):
    write(tmp_path, {"a": entry(shape=shape)})
    assert "tensor a has the shape" in refused(tmp_path, UnsupportedError)


@pytest.mark.parametrize("dtype", ["F64", "F8_E4M3", "I8", "U8", "BOOL", "?", 5, [], {}, None])
def test_kinds_that_are_not_supported_are_named(tmp_path: Path, dtype: Any):
    write(tmp_path, {"a": entry(dtype=dtype)})
    assert f"tensor a has the kind {dtype}" in refused(tmp_path, UnsupportedError)


def test_overlapping_tensors_and_gaps(tmp_path: Path):
    write(tmp_path, {"a": entry(offsets=[0, 32]), "b": entry(shape=[4], offsets=[16, 32])})
    assert "overlaps" in refused(tmp_path)
    write(
        tmp_path, {"a": entry(shape=[2], offsets=[0, 8]), "b": entry(shape=[4], offsets=[16, 32])}
    )
    assert "gap" in refused(tmp_path)


def test_what_the_index_may_not_say(tmp_path: Path):
    one = {"a": SMALL["a"]}
    shards(tmp_path, one, index={"a": "other.safetensors"})
    assert "other.safetensors: the file is missing" in refused(tmp_path)
    for outside in ("../model-0.safetensors", "/etc/passwd", "model-0.bin", 5):
        shards(tmp_path, one, index={"a": outside})
        assert "a is in no file" in refused(tmp_path)
    shards(tmp_path, one, index={"a": "model-0.safetensors", "b": "model-0.safetensors"})
    assert "not those of the index" in refused(tmp_path)
    shards(tmp_path, one, one, index={"a": "model-0.safetensors", "c": "model-1.safetensors"})
    refused(tmp_path)
    for index in ({}, [], None, "x"):
        shards(tmp_path, one, index=index or {})
        refused(tmp_path)


def test_other_weight_files_are_never_opened(tmp_path: Path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    assert "never opened" in refused(tmp_path, UnsupportedError)


def test_a_file_that_becomes_shorter(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(encode_safetensors(SMALL))
    with SafetensorsFolder(tmp_path) as folder:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - 10)
        with pytest.raises(ConversionError, match="shorter"):
            read_rows(folder.tensors["a"], 0, 2)


@given(st.integers(0, 200), st.integers(0, 2), st.binary(max_size=10))
def test_damaged_headers_raise_nothing_else(tmp_path_factory, at: int, what: int, new: bytes):
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    folder.mkdir(exist_ok=True)
    data = bytearray(encode_safetensors(SMALL))
    data[at : at + (len(new), 3, 0)[what]] = new
    (folder / "model.safetensors").write_bytes(data)
    message = ""
    try:
        with SafetensorsFolder(folder):
            pass
    except (ConversionError, UnsupportedError) as error:
        message = str(error)
    assert "\n" not in message
