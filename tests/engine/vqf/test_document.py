"""FORMAT.md against the code: the example, the tables, the pinned digests."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import engine.vqf
from crypto import labels
from crypto.sm3 import sm3
from engine.config import ModelConfig
from engine.vqf import format as numbers
from engine.vqf import open_vqf, write_vqf
from engine.vqf.families import DECODERS, required_extents
from engine.vqf.preamble import parse_preamble
from tests.engine.vqf import make_vectors, tiny
from tests.engine.vqf.damage import FIELDS

DATA = Path(__file__).parents[2] / "data" / "vqf"
FORMAT = (Path(engine.vqf.__file__).parent / "FORMAT.md").read_text(encoding="utf-8")
PINNED = json.loads((DATA / "digests.json").read_text(encoding="utf-8"))


def test_example_is_the_pinned_file() -> None:
    data = (DATA / "tiny.vqf").read_bytes()
    assert sm3(data).hex() == PINNED["file_sm3"]
    assert make_vectors.example(DATA / "tiny.vqf") in FORMAT
    assert f"model_digest = {PINNED['model_digest']}" in FORMAT


def test_writer_still_makes_the_pinned_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.vqf"
    digest = write_vqf(path, tiny.CONFIG, tiny.TOKENIZER, tiny.PLAN, tiny.source)
    assert path.read_bytes() == (DATA / "tiny.vqf").read_bytes()
    assert digest.hex() == PINNED["model_digest"]


def test_digests_are_the_pinned_ones() -> None:
    assert make_vectors.digests(DATA / "tiny.vqf") == PINNED


def test_identity_is_what_the_document_says() -> None:
    data = (DATA / "tiny.vqf").read_bytes()
    preamble = parse_preamble(data[:128], len(data))
    manifest = data[128 : 128 + preamble.manifest_length]
    assert '"windhover/vqf/manifest;v=4" || 00 || manifest' in FORMAT
    assert sm3(b"windhover/vqf/manifest;v=4\0" + manifest) == preamble.identity
    assert labels.VQF_MANIFEST == b"windhover/vqf/manifest;v=4\0"


def test_root_is_what_the_document_says(tmp_path: Path) -> None:
    """Three chunks of a text extent, put together by hand."""
    text = b"x" * (2 * (1 << 20) + 5000)
    plan = tuple(
        extent._replace(raw_bytes_length=len(text)) if extent.name == "tokenizer" else extent
        for extent in tiny.PLAN
    )
    path = tmp_path / "three.vqf"
    write_vqf(
        path,
        tiny.CONFIG,
        tiny.TOKENIZER,
        plan,
        lambda name: iter([text]) if name == "tokenizer" else tiny.source(name),
    )
    filled = text.ljust(2 * (1 << 20) + 8192, b"\0")
    a, b, c = (sm3(b"\0" + filled[at : at + (1 << 20)]) for at in range(0, len(filled), 1 << 20))
    with open_vqf(path) as file:
        extent = file.extent("tokenizer")
        assert extent.num_chunks == 3
        assert extent.root == sm3(b"\1" + sm3(b"\1" + a + b) + c)
        assert file.read_bytes("tokenizer") == text


def test_preamble_table() -> None:
    rows = re.findall(r"^\| (\d+) \| (u32|u64|\d+) \| (\w+) \|", FORMAT, re.MULTILINE)
    sizes = {"u32": 4, "u64": 8}
    table = [(int(offset), sizes.get(size) or int(size), name) for offset, size, name in rows]
    end = 0
    for offset, size, _ in table:
        assert offset == end
        end += size
    assert end == numbers.PREAMBLE_BYTES
    by_name = {name: (offset, size) for offset, size, name in table}
    assert FIELDS.items() <= by_name.items()
    assert numbers.MAGIC.hex(" ") in FORMAT


def test_config_table_has_the_fields_of_the_config() -> None:
    section = FORMAT.partition("### config")[2].partition("### tokenizer")[0]
    rows = re.findall(r"^\| ([a-z_, ]+) \|", section, re.MULTILINE)
    keys = {key for row in rows for key in row.split(", ")} - {"key"}
    assert keys == {field.name for field in dataclasses.fields(ModelConfig)}
    assert all(f"`{name}`" in section for name in DECODERS)


def test_tensor_table_has_the_tensors_of_a_model() -> None:
    section = FORMAT.partition("### Which extents")[2].partition("## 5")[0]
    rows = re.findall(r"^\| [a-z.]* ?\| ([a-z0-9_., ]+) \| .* \|.*\|$", section, re.MULTILINE)
    documented = [name for row in rows for name in row.split(", ") if name != "tensor"]
    config = dataclasses.replace(tiny.CONFIG, attention_bias=True, qk_norm=True)
    required = [tensor.name for extent in required_extents(config) for tensor in extent.tensors]
    assert documented == [name.replace("layers.0", "layers.i") for name in required]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 .. 16,777,216", numbers.MAX_MANIFEST_BYTES),
        ("1,048,576 data items", numbers.MAX_MANIFEST_ITEMS),
        ("1 .. 65,536 in signed", numbers.MAX_SIGNATURES_BYTES),
        ("| extents | 1 .. 65,536 |", numbers.MAX_EXTENTS),
        ("| tensors of one extent | 1 .. 4096 |", numbers.MAX_TENSORS_OF_EXTENT),
        ("| each dimension of a shape | 1 .. 2^24 |", numbers.MAX_DIMENSION),
        ("below 2^53", numbers.MAX_OFFSET + 1),
        ("| extent `tokenizer` | 64 MiB |", numbers.MAX_RAW_BYTES["tokenizer"]),
        ("| extent `template` | 1 MiB |", numbers.MAX_RAW_BYTES["template"]),
        ("recipients, 16,384", numbers.RECIPIENTS_BYTES),
        ("up(16,576 +", numbers.PREAMBLE_BYTES + numbers.SEALED_OVERHEAD_BYTES),
    ],
)
def test_limits(text: str, value: int) -> None:
    assert text in FORMAT
    units = {"MiB": 1 << 20, "2^24": 1 << 24, "2^53": 1 << 53}
    number = re.findall(r"2\^\d+|[\d,]{2,}", text.replace("1 .. ", ""))
    if "MiB" in text:
        assert int(re.findall(r"\d+", text)[0]) * units["MiB"] == value
    else:
        assert (units.get(number[0]) or int(number[0].replace(",", ""))) == value


def test_import_is_light() -> None:
    """Reading a file needs neither the compiler nor anything that only conversion needs."""
    program = (
        "import sys, engine.vqf; print([name for name in "
        "('numba', 'llvmlite', 'tokenizers', 'jinja2', 'gguf', 'safetensors') "
        "if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(engine.vqf.__file__).parents[2],
    )
    assert done.stdout.strip() == "[]"
