"""The panel layout, against FORMAT.md read literally and the values of another implementation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine.vqf
from engine.vqf.kinds import KINDS
from engine.vqf.panels import (
    BLOCK_BYTES,
    BLOCK_INPUTS,
    integer_groups,
    pack,
    packed_bytes,
    rows_beyond_are_zero,
    unpack,
    values,
)
from tests.engine.vqf import ggml
from tests.engine.vqf.tiny import fields_of

FORMAT = (Path(engine.vqf.__file__).parent / "FORMAT.md").read_text(encoding="utf-8")
GOLDEN = Path(__file__).parents[2] / "data" / "vqf" / "quants.npz"
INTEGER_KINDS = [name for name, kind in KINDS.items() if kind.group]


def documented_blocks() -> dict[str, tuple[int, int, str]]:
    """Return inputs, bytes and fields of every kind from the table of FORMAT.md section 6."""
    table = {}
    for kinds, inputs, size, fields in re.findall(
        r"^\| ([A-Z][A-Z0-9_, ]+) \| (\d+) \| (\d+) \| (.+) \|$", FORMAT, re.MULTILINE
    ):
        for kind in kinds.split(", "):
            table[kind] = (int(inputs), int(size), fields)
    return table


def documented_offsets(fields: str) -> list[tuple[str, int, int]]:
    """Return (name, offset, size) of every field of a block in file order."""
    head, _, group = fields.partition("then for g = 0..7: ")
    out = [(n, int(o), int(s)) for n, o, s in re.findall(r"(\w+) (\d+) (\d+)", head)]
    for g in range(8 if group else 0):
        parts = re.findall(r"(\w+) (\d+) \+ (\d+)g (\d+)", group)
        out += [(n, int(o) + g * int(step), int(s)) for n, o, step, s in parts]
    return out


def literal_layout(kind: str, fields: dict[str, Any], rows: int, columns: int) -> bytes:
    """Place every value by itself, as the sentences of FORMAT.md say."""
    inputs, size, text = documented_blocks()[kind]
    out = bytearray(packed_bytes(kind, rows, columns))
    for n in range(rows):
        panel, r = divmod(n, 16)
        for block in range(columns // inputs):
            start = (panel * (columns // inputs) + block) * size
            group = -1
            for name, offset, length in documented_offsets(text):
                at = start + offset
                if name in ("d", "m", "dmin", "w"):
                    value = fields[name][n, block].tobytes()
                    out[at + r * len(value) : at + (r + 1) * len(value)] = value
                elif name in ("sc", "mn"):
                    for g in range(length // 16):
                        value = fields[name][n, block * (length // 16) + g]
                        out[at + g * 16 + r] = int(value) & 255
                else:
                    group += name in ("nib", "q")
                    first = block * inputs + group * 32
                    codes = [int(code) & 255 for code in fields["q"][n, first : first + 32]]
                    place_codes(out, at, name, r, codes)
    return bytes(out)


def place_codes(out: bytearray, at: int, name: str, r: int, codes: list[int]) -> None:
    """Place 32 codes of row r into one field that begins at `at`."""
    for k, code in enumerate(codes):
        if name == "nib":
            j, rest = divmod(k, 8)
            half, i = divmod(rest, 4)
            out[at + j * 64 + r * 4 + i] |= (code & 15) << (4 * half)
        elif name == "bit":
            s, i = divmod(k, 4)
            out[at + r * 4 + i] |= (code >> 4 & 1) << s
        elif name == "two":
            s, i = divmod(k, 4)
            h, t = divmod(s, 4)
            out[at + h * 64 + r * 4 + i] |= (code >> 4 & 3) << (2 * t)
        else:
            s, i = divmod(k, 4)
            out[at + s * 64 + r * 4 + i] = code


def test_document_and_code_have_the_same_blocks() -> None:
    table = documented_blocks()
    assert table.keys() == KINDS.keys()
    for name, (inputs, size, text) in table.items():
        kind = KINDS[name]
        assert (inputs, size) == (BLOCK_INPUTS[name], BLOCK_BYTES[name])
        offset = 0
        expected = []
        for field in kind.fields:
            expected.append((field.name, offset, field.size_bytes))
            offset += field.size_bytes
        assert documented_offsets(text) == expected
        assert offset == size == kind.dtype.itemsize


@pytest.mark.parametrize("rows", [1, 16, 17, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_layout_is_the_documented_one(kind: str, rows: int) -> None:
    columns = 2 * BLOCK_INPUTS[kind]
    fields = fields_of("layout", kind, rows, columns)
    assert pack(kind, fields, rows, columns).tobytes() == literal_layout(
        kind, fields, rows, columns
    )


@given(
    kind=st.sampled_from(sorted(KINDS)),
    rows=st.integers(1, 70),
    blocks=st.integers(1, 5),
    seed=st.integers(0, 2**32),
)
def test_round_trip(kind: str, rows: int, blocks: int, seed: int) -> None:
    columns = blocks * BLOCK_INPUTS[kind]
    fields = fields_of(str(seed), kind, rows, columns)
    data = pack(kind, fields, rows, columns)
    assert data.shape == (packed_bytes(kind, rows, columns),)
    assert rows_beyond_are_zero(kind, data, rows, columns)
    back = unpack(kind, data, rows, columns)
    assert back.keys() == fields.keys()
    for name, array in fields.items():
        assert back[name].dtype == array.dtype
        assert back[name].tobytes() == array.tobytes()
    again = pack(kind, back, rows, columns)
    assert again.tobytes() == data.tobytes()


@given(kind=st.sampled_from(INTEGER_KINDS), rows=st.integers(1, 33), position=st.integers(0, 2**32))
def test_every_byte_is_of_one_row(kind: str, rows: int, position: int) -> None:
    """A changed byte changes one row, or is seen as lying beyond the last row."""
    columns = BLOCK_INPUTS[kind]
    data = np.zeros(packed_bytes(kind, rows, columns), np.uint8)
    data[position % data.size] = 255
    changed = {
        row for array in unpack(kind, data, rows, columns).values() for row in array.nonzero()[0]
    }
    assert len(changed) == (1 if rows_beyond_are_zero(kind, data, rows, columns) else 0)


def test_slabs_do_not_show() -> None:
    """A matrix of several slabs is the panels of its parts, one after the other."""
    kind, rows, columns = "Q5_1", 16 * 90, 1024
    fields = fields_of("slabs", kind, rows, columns)
    whole = pack(kind, fields, rows, columns)
    parts = [
        pack(kind, {name: array[at : at + 16] for name, array in fields.items()}, 16, columns)
        for at in range(0, rows, 16)
    ]
    assert whole.tobytes() == b"".join(part.tobytes() for part in parts)
    assert unpack(kind, whole, rows, columns)["q"].tobytes() == fields["q"].tobytes()


def test_strided_fields_are_taken() -> None:
    fields = fields_of("strided", "Q4_0", 32, 64)
    wide = {name: np.repeat(array, 2, axis=1)[:, ::2] for name, array in fields.items()}
    assert not wide["q"].flags.c_contiguous
    assert pack("Q4_0", wide, 32, 64).tobytes() == pack("Q4_0", fields, 32, 64).tobytes()


@pytest.mark.parametrize(
    ("kind", "rows", "columns"),
    [("Q4_0", 16, 33), ("Q4_K", 16, 32), ("Q4_0", 0, 32), ("F32", 4, 0), ("Q2_K", 16, 256)],
)
def test_impossible_shapes(kind: str, rows: int, columns: int) -> None:
    with pytest.raises(ValueError, match=kind):
        packed_bytes(kind, rows, columns)


def test_wrong_fields() -> None:
    fields = fields_of("wrong", "Q4_0", 16, 32)
    with pytest.raises(ValueError, match="bits"):
        pack("Q4_0", fields | {"q": fields["q"] + np.uint8(16)}, 16, 32)
    with pytest.raises(ValueError, match="float16"):
        pack("Q4_0", fields | {"d": fields["d"].astype(np.float32)}, 16, 32)
    with pytest.raises(ValueError, match="shape"):
        pack("Q4_0", fields | {"q": fields["q"].T}, 16, 32)
    with pytest.raises(ValueError, match="fields"):
        pack("Q4_1", fields, 16, 32)
    with pytest.raises(ValueError, match="uint8"):
        unpack("Q4_0", np.zeros(287, np.uint8), 16, 32)
    with pytest.raises(ValueError, match="uint8"):
        unpack("Q4_0", np.zeros(288, np.int8), 16, 32)
    with pytest.raises(ValueError, match="no integers"):
        integer_groups("F16", fields_of("float", "F16", 16, 32))


@pytest.mark.parametrize("kind", KINDS)
def test_golden_values(kind: str) -> None:
    """Blocks of llama.cpp's own quantisers stand for llama.cpp's own values, bit for bit."""
    with np.load(GOLDEN) as golden:
        fields = ggml.fields_from_rows(kind, golden[f"{kind}/bytes"])
        expected = golden[f"{kind}/deq"]
    rows, columns = expected.shape
    packed = pack(kind, fields, rows, columns)
    found = values(kind, unpack(kind, packed, rows, columns))
    assert found.dtype == np.float32
    assert found.view(np.uint32).tobytes() == expected.view(np.uint32).tobytes()


@given(kind=st.sampled_from(INTEGER_KINDS), seed=st.integers(0, 2**32))
def test_values_of_any_block(kind: str, seed: int) -> None:
    """Also blocks that no quantiser makes have the values that the `gguf` package gives them."""
    rows = ggml.random_rows(kind, 3, 512, seed)
    expected = gguf.quants.dequantize(rows, getattr(gguf.GGMLQuantizationType, kind))
    found = values(kind, ggml.fields_from_rows(kind, rows))
    assert found.view(np.uint32).tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_groups_are_the_values(kind: str) -> None:
    """q * s + m in binary32, group by group, is what `values` returns."""
    fields = fields_of("groups", kind, 5, 512)
    q, s, m, group = integer_groups(kind, fields)
    assert (q.dtype, s.dtype, q.shape) == (np.int16, np.float32, (5, 512))
    assert s.shape == (5, 512 // group)
    expected = values(kind, fields)
    for n in range(5):
        for k in range(0, 512, 7):
            value = np.float32(q[n, k]) * s[n, k // group]
            if m is not None:
                value = value + m[n, k // group]
            assert value.tobytes() == expected[n, k].tobytes()


def test_infinite_scales_are_silent() -> None:
    """What they lead to is refused by the step that computes with them, not here."""
    fields = fields_of("infinite", "Q4_K", 1, 256)
    fields["d"][:] = np.inf
    fields["dmin"][:] = np.inf
    assert not np.isfinite(values("Q4_K", fields)).all()
