"""The GGUF reader: what it reads, and every way of being wrong that it refuses."""

from __future__ import annotations

import os
import struct
from decimal import Decimal
from pathlib import Path

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.convert.gguf import GgufFile
from engine.convert.gguf_metadata import MAX_ELEMENTS
from engine.convert.gguf_model import read_gguf
from engine.errors import ConversionError, UnsupportedError
from tests.engine.convert.support import CONVERT, Gguf, Tensor, small_gguf, text

GGUF_FILES = sorted(CONVERT.glob("*.gguf"))


def refused(path: Path, data: bytes, error: type[Exception] = ConversionError) -> str:
    """The one line with which a file is refused."""
    path.write_bytes(data)
    with pytest.raises(error) as caught, GgufFile(path):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("path", GGUF_FILES, ids=lambda path: path.stem)
def test_agrees_with_the_gguf_package(path: Path):
    theirs = gguf.GGUFReader(path)
    with GgufFile(path) as ours:
        for key, value in ours.metadata.items():
            expected = theirs.fields[key].contents()
            if isinstance(value, tuple):
                assert list(value) == list(expected)
            else:
                assert value == (Decimal(expected) if isinstance(expected, float) else expected)
        assert len(ours.metadata) == sum(not key.startswith("GGUF.") for key in theirs.fields)
        assert len(ours.tensors) == len(theirs.tensors)
        for tensor in theirs.tensors:
            mine = ours.tensors[tensor.name]
            assert mine.shape == tuple(int(size) for size in reversed(tensor.shape))
            assert mine.kind == tensor.tensor_type.name
            assert mine.offset_bytes == tensor.data_offset
            rows = mine.shape[0] if len(mine.shape) == 2 else 1
            assert ours.read_rows(mine, 0, rows).tobytes() == tensor.data.tobytes()


def test_reads_every_type_of_value(tmp_path: Path):
    scalars = {"u8": 255, "i8": -128, "u16": 65535, "i16": -32768, "u32": 2**32 - 1}
    scalars |= {"i32": -(2**31), "u64": 2**64 - 1, "i64": -(2**63), "str": "naïve ☃"}
    metadata = {f"v.{kind}": (kind, value) for kind, value in scalars.items()}
    metadata |= {f"a.{kind}": (f"arr:{kind}", [value] * 3) for kind, value in scalars.items()}
    metadata |= {"v.f32": ("f32", 0.1), "v.f64": ("f64", 0.1), "v.bool": ("bool", 1)}
    metadata |= {"a.f32": ("arr:f32", [0.5, -2.0]), "a.bool": ("arr:bool", [0, 1])}
    metadata |= {"a.empty": ("arr:str", [])}
    with GgufFile(Gguf(metadata).write(tmp_path / "m.gguf")) as file:
        for kind, value in scalars.items():
            assert file.metadata[f"v.{kind}"] == value
            assert file.metadata[f"a.{kind}"] == (value,) * 3
        assert file.metadata["v.f32"] == Decimal(struct.unpack("<f", struct.pack("<f", 0.1))[0])
        assert file.metadata["v.f64"] == Decimal.from_float(0.1)
        assert file.metadata["v.bool"] is True
        assert file.metadata["a.f32"] == (0.5, -2.0)
        assert file.metadata["a.bool"] == (False, True)
        assert file.metadata["a.empty"] == ()


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions(tmp_path: Path, version: int):
    file = small_gguf()
    file.version = version
    with GgufFile(file.write(tmp_path / "m.gguf")) as opened:
        assert len(opened.tensors) == len(file.tensors)


@pytest.mark.parametrize("alignment", [8, 32, 64, 4096])
def test_alignment_is_what_the_file_says(tmp_path: Path, alignment: int):
    file = small_gguf()
    file.alignment = alignment
    file.metadata["general.alignment"] = ("u32", alignment)
    with GgufFile(file.write(tmp_path / "m.gguf")) as opened:
        for tensor in file.tensors:
            stored = opened.tensors[tensor.name]
            rows = stored.shape[0] if len(stored.shape) == 2 else 1
            assert opened.read_rows(stored, 0, rows).tobytes() == tensor.data


def test_truncated_anywhere(tmp_path: Path):
    data = small_gguf().encode()
    step = 61  # many places, each field of the head among them sooner or later
    for length in [*range(0, 64), *range(64, len(data), step), len(data) - 1]:
        message = refused(tmp_path / "m.gguf", data[:length])
        assert "GGUF" in message


@pytest.mark.parametrize("magic", [b"GGML", b"FUGG", b"\0\0\0\0", b"\x89WHV"])
def test_wrong_magic(tmp_path: Path, magic: bytes):
    assert "not a GGUF" in refused(tmp_path / "m", magic + small_gguf().encode()[4:])


@pytest.mark.parametrize(
    ("version", "words"),
    [(0, "version 0"), (1, "version 1"), (4, "version 4"), (3 << 24, "big-endian GGUF version 3")],
)
def test_other_versions_are_named(tmp_path: Path, version: int, words: str):
    file = small_gguf()
    file.version = version
    assert words in refused(tmp_path / "m", file.encode(), UnsupportedError)


@pytest.mark.parametrize("number", [10, 11, 15, 20, 39, 31, 77, 2**32 - 1])
def test_other_kinds_are_named_with_their_tensor(tmp_path: Path, number: int):
    names = {10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 20: "IQ4_NL", 39: "MXFP4"}
    file = Gguf(tensors=[Tensor("blk.0.attn_q.weight", number, (256, 2), bytes(512))])
    message = refused(tmp_path / "m", file.encode(), UnsupportedError)
    assert "blk.0.attn_q.weight" in message
    assert names.get(number, f"number {number}") in message


def test_a_tensor_outside_the_file(tmp_path: Path):
    file = Gguf(tensors=[Tensor("w", "F32", (8, 4), bytes(128), offset=0)])
    data = file.encode()
    assert "truncated" in refused(tmp_path / "m", data[:-1])
    file.tensors[0].offset = 2**62
    assert "truncated" in refused(tmp_path / "m", file.encode())


def test_overlapping_tensors(tmp_path: Path):
    tensors = [
        Tensor("a", "F32", (16,), bytes(64)),
        Tensor("b", "F32", (16,), bytes(64), offset=32),
    ]
    assert "b overlaps a" in refused(tmp_path / "m", Gguf(tensors=tensors).encode())


def test_a_tensor_that_is_not_aligned(tmp_path: Path):
    tensors = [Tensor("a", "F32", (16,), bytes(68), offset=4)]
    assert "not aligned" in refused(tmp_path / "m", Gguf(tensors=tensors).encode())


def test_names_and_keys_that_occur_twice(tmp_path: Path):
    tensors = [Tensor("a", "F32", (8,), bytes(32)), Tensor("a", "F32", (8,), bytes(32))]
    assert "a occurs twice" in refused(tmp_path / "m", Gguf(tensors=tensors).encode())
    file = Gguf({"k": ("u32", 1)}, num_keys=2)
    pair = file.pair("k", "u32", 1)
    data = file.encode()
    at = data.index(pair)
    data = data[:at] + pair + pair
    assert "k occurs twice" in refused(tmp_path / "m", data)


@pytest.mark.parametrize("count", [2**16 + 1, 2**32, 2**63, 2**64 - 1])
def test_huge_counts(tmp_path: Path, count: int):
    file = small_gguf()
    file.num_tensors = count
    assert "number of tensors" in refused(tmp_path / "m", file.encode())
    file = small_gguf()
    file.num_keys = count
    assert "number of keys" in refused(tmp_path / "m", file.encode())


@pytest.mark.parametrize("count", [100, MAX_ELEMENTS, MAX_ELEMENTS + 1, 2**61, 2**64 - 1])
@pytest.mark.parametrize("element", [4, 8, 9, 7])
def test_huge_arrays(tmp_path: Path, count: int, element: int):
    value = text("k") + struct.pack("<IIQ", 9, element, count)
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + value
    refused(tmp_path / "m", head + bytes(32))


@pytest.mark.parametrize("length", [2**25, 2**40, 2**64 - 1])
def test_huge_strings(tmp_path: Path, length: int):
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", length) + bytes(64)
    refused(tmp_path / "m", data)
    value = text("k") + struct.pack("<IQ", 8, length)
    refused(tmp_path / "m", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + value + bytes(64))


def test_a_sparse_file_does_not_lift_the_limits(tmp_path: Path):
    path = tmp_path / "m"
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k")
    path.write_bytes(head + struct.pack("<IIQ", 9, 4, 2**30))
    with path.open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(ConversionError, match="length of k"):
        GgufFile(path)


def test_nesting_is_bounded(tmp_path: Path):
    value = text("k") + struct.pack("<I", 9)
    for _ in range(1000):
        value += struct.pack("<IQ", 9, 1)
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + value + bytes(64)
    assert "nests" in refused(tmp_path / "m", data)


@pytest.mark.parametrize("kind", [13, 255, 2**32 - 1])
def test_unknown_value_types(tmp_path: Path, kind: int):
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", kind) + bytes(64)
    assert "unknown value type" in refused(tmp_path / "m", data)
    value = text("k") + struct.pack("<IIQ", 9, kind, 1)
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + value + bytes(64)
    assert "unknown element type" in refused(tmp_path / "m", data)


def test_booleans_are_0_or_1(tmp_path: Path):
    assert "boolean" in refused(tmp_path / "m", Gguf({"k": ("bool", 2)}).encode())
    assert "boolean" in refused(tmp_path / "m", Gguf({"k": ("arr:bool", [0, 7])}).encode())


def test_strings_are_utf_8(tmp_path: Path):
    assert "UTF-8" in refused(tmp_path / "m", Gguf({"k": ("str", b"\xff")}).encode())


@pytest.mark.parametrize("dims", [(), (1, 1, 1, 1, 1), (0,), (32, 0), (2**24 + 1,), (2**63, 2)])
def test_impossible_dimensions(tmp_path: Path, dims: tuple[int, ...]):
    file = Gguf(tensors=[Tensor("w", "F32", dims, bytes(64))])
    assert "tensor w has" in refused(tmp_path / "m", file.encode())


def test_rows_that_do_not_fill_blocks(tmp_path: Path):
    file = Gguf(tensors=[Tensor("w", "Q4_K", (128, 2), bytes(144))])
    assert "rows of 128 values" in refused(tmp_path / "m", file.encode())


@pytest.mark.parametrize("alignment", [0, 1, 4, 24, 33, 2**31])
def test_impossible_alignment(tmp_path: Path, alignment: int):
    file = Gguf({"general.alignment": ("u32", alignment)})
    assert "alignment" in refused(tmp_path / "m", file.encode())


def test_what_is_not_a_regular_file(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")  # must not wait for a writer
    for path in (tmp_path, "/dev/null", tmp_path / "pipe"):
        with pytest.raises(ConversionError, match="not a regular file"):
            GgufFile(path)


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2J", "a\u202eb", "\x00"])
def test_names_that_cannot_be_shown(tmp_path: Path, name: str):
    assert "a key is not printable" in refused(tmp_path / "m", Gguf({name: ("u8", 1)}).encode())
    file = Gguf(tensors=[Tensor(name, "F32", (8,), bytes(32))])
    assert "name is not printable" in refused(tmp_path / "m", file.encode())


def test_a_file_that_becomes_shorter(tmp_path: Path):
    path = small_gguf().write(tmp_path / "m.gguf")
    with GgufFile(path) as file:
        tensor = file.tensors["output_norm.weight"]
        with path.open("r+b") as other:
            other.truncate(tensor.offset_bytes + 4)
        with pytest.raises(ConversionError, match="shorter"):
            file.read_rows(tensor, 0, 1)


@given(
    st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 2), st.binary(max_size=12)),
        min_size=1,
        max_size=4,
    )
)
def test_damaged_files_raise_nothing_else(tmp_path_factory, damages):
    """Bytes of the head are replaced, removed or inserted; then the whole model is taken out."""
    data = bytearray(small_gguf().encode())
    head = len(data) - sum(len(tensor.data) for tensor in small_gguf().tensors)
    for where, what, new in damages:
        at = int(where * head)
        data[at : at + (len(new), 3, 0)[what]] = new
    path = tmp_path_factory.getbasetemp() / "fuzz.gguf"
    path.write_bytes(data)
    message = ""
    try:
        with GgufFile(path) as file:
            checkpoint = read_gguf(file)
            for tensor in checkpoint.tensors.values():
                for _ in tensor.pieces():
                    pass
    except (ConversionError, UnsupportedError) as error:
        message = str(error)
    assert "\n" not in message
