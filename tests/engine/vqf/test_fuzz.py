"""Whatever the bytes are, the reader answers with its own errors or with a whole file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crypto import cbor
from engine.errors import FormatError, UnsupportedError, WeightsError
from engine.vqf import open_vqf
from engine.vqf.preamble import parse_preamble
from tests.engine.vqf.damage import assembled

BASE = (Path(__file__).parents[2] / "data" / "vqf" / "tiny.vqf").read_bytes()
PREAMBLE = parse_preamble(BASE[:128], len(BASE))
ENCODED = BASE[128 : 128 + PREAMBLE.manifest_length]
AREA = BASE[PREAMBLE.data_offset :]
MANIFEST = cbor.decode(ENCODED)

FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)

scalars = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([0, 1, 16, 32, 64, 4096, 2**31, 2**32, 2**53, 2**64 - 1]),
    st.booleans(),
    st.binary(max_size=40),
    st.text(max_size=70),
    st.sampled_from(["Q4_0", "F32", "embedding", "head", "layers.0", "layers.1", "qwen3"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(max_size=8) | st.integers(0, 9), inner, max_size=4),
    ),
    max_leaves=6,
)


def opened(path: Path, data: bytes) -> bool:
    """Open and read everything; return whether it was a file."""
    path.write_bytes(data)
    try:
        with open_vqf(path) as file:
            for extent in file.manifest.extents:
                assert extent.offset_bytes + extent.size_bytes <= len(data)
                file.read_bytes(extent.name)
    except (FormatError, UnsupportedError, WeightsError) as error:
        message = str(error)
    else:
        return True
    assert "\n" not in message
    return False


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value below this one."""
    found = [here] if here else []
    if isinstance(value, dict | list):
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        for step, element in steps:
            found += paths(element, (*here, step))
    return found


PATHS = paths(MANIFEST)


@FUZZ
@given(data=st.data())
def test_preamble_bytes(tmp_path: Path, data: st.DataObject) -> None:
    changed = bytearray(BASE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, 127))
        changed[at] = data.draw(st.integers(0, 255))
    assert opened(tmp_path / "f.vqf", bytes(changed)) == (bytes(changed) == BASE)


@FUZZ
@given(head=st.binary(max_size=200), keep=st.integers(0, 16))
def test_any_head(tmp_path: Path, head: bytes, keep: int) -> None:
    data = BASE[:keep] + head + BASE[keep + len(head) :]
    assert opened(tmp_path / "f.vqf", data) == (data == BASE)


@FUZZ
@given(
    fields=st.dictionaries(
        st.sampled_from(["form", "suite", "manifest_length", "tag_table_length", "data_offset"])
        | st.sampled_from(["data_length", "signatures_length", "file_length"]),
        st.integers(0, 2**64 - 1)
        | st.sampled_from([1, 2, 3, 32, 4096, 8192, 28672, 32768, 2**32, 2**63]),
        min_size=1,
    )
)
def test_preamble_fields(tmp_path: Path, fields: dict[str, int]) -> None:
    for name in ("form", "suite"):
        fields[name] = fields.get(name, getattr(PREAMBLE, name)) % 2**32
    data = PREAMBLE._replace(**fields).encode() + BASE[128:]
    assert opened(tmp_path / "f.vqf", data) == (data == BASE)


@FUZZ
@given(data=st.data())
def test_manifest_bytes(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes of the encoding, under a preamble that fits them."""
    changed = bytearray(ENCODED)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed)))
        changed[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    opened(tmp_path / "f.vqf", assembled(bytes(changed), AREA))


@FUZZ
@given(encoded=st.binary(min_size=1, max_size=300))
def test_any_manifest(tmp_path: Path, encoded: bytes) -> None:
    assert not opened(tmp_path / "f.vqf", assembled(encoded, AREA))


@FUZZ
@given(edits=st.lists(st.tuples(st.sampled_from(PATHS), values), min_size=1, max_size=3))
def test_manifest_values(tmp_path: Path, edits: list[tuple[tuple[Any, ...], Any]]) -> None:
    """Well-formed manifests that say anything at any place."""
    manifest = cbor.decode(ENCODED)
    for path, value in edits:
        parent: Any = manifest
        try:
            for step in path[:-1]:
                parent = parent[step]
            parent[path[-1]] = value
        except (TypeError, KeyError, IndexError):
            continue  # an edit before took the place away
    opened(tmp_path / "f.vqf", assembled(cbor.encode(manifest, max_depth=20), AREA))


@FUZZ
@given(length=st.integers(0, len(BASE) - 1), told=st.booleans())
def test_truncation(tmp_path: Path, length: int, told: bool) -> None:
    """Cut anywhere, also when the preamble tells the new length."""
    data = bytearray(BASE[:length])
    if told and length >= 32:
        data[24:32] = length.to_bytes(8, "little")
    assert not opened(tmp_path / "f.vqf", bytes(data))


@FUZZ
@given(at=st.integers(0, len(BASE) - 1), mask=st.integers(1, 255))
def test_every_byte_counts(tmp_path: Path, at: int, mask: int) -> None:
    """No byte of the file can be changed without an error."""
    data = bytearray(BASE)
    data[at] ^= mask
    assert not opened(tmp_path / "f.vqf", bytes(data))


def test_the_undamaged_file_is_one(tmp_path: Path) -> None:
    assert opened(tmp_path / "f.vqf", BASE)


@pytest.mark.parametrize("count", [1 << 16, 1 << 20])
def test_many_small_items(tmp_path: Path, count: int) -> None:
    """A manifest of more items than anyone needs is refused like any other."""
    tokenizer = {"add_bos": False, "eos_ids": [0] * count}
    encoded = cbor.encode({**MANIFEST, "tokenizer": tokenizer})
    assert not opened(tmp_path / "f.vqf", assembled(encoded, AREA))
