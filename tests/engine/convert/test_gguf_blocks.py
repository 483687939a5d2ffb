"""GGUF blocks are taken apart without loss: the values are the `gguf` package's, bit for bit."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from engine.convert.gguf import BLOCKS, KIND_NUMBERS, UNSUPPORTED_KINDS
from engine.convert.gguf_blocks import parse_blocks
from engine.vqf.panels import pack, unpack, values
from tests.engine.convert.support import DATA, random_rows

INTEGER_KINDS = [kind for kind, (inputs, _) in BLOCKS.items() if inputs > 1]


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return bool((one.view(np.uint32) == np.asarray(other, np.float32).view(np.uint32)).all())


def test_the_kinds_are_those_of_the_gguf_package():
    known = {int(kind): kind.name for kind in gguf.GGMLQuantizationType}
    assert known == {**KIND_NUMBERS, **UNSUPPORTED_KINDS}
    assert set(KIND_NUMBERS.values()) == set(BLOCKS)
    for kind, sizes in BLOCKS.items():
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]] == sizes


@pytest.mark.parametrize("kind", [kind for kind in BLOCKS if kind != "F32"])
def test_blocks_of_llama_cpp_have_their_values(kind: str):
    with np.load(DATA / "vqf" / "quants.npz") as vectors:
        data, expected = vectors[f"{kind}/bytes"], vectors[f"{kind}/deq"]
    assert same_bits(values(kind, parse_blocks(kind, data)), expected)


@pytest.mark.parametrize("kind", BLOCKS)
def test_random_blocks_have_the_values_of_the_gguf_package(kind: str):
    data = np.frombuffer(random_rows(kind, 7, 768, seed=5), np.uint8).reshape(7, -1)
    if kind == "F32":
        expected = data.view(np.float32)
    else:
        expected = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
    assert same_bits(values(kind, parse_blocks(kind, data)), expected)


@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_every_bit_of_a_block_is_in_its_fields(kind: str):
    data = np.frombuffer(random_rows(kind, 2, 256, seed=6), np.uint8).reshape(2, -1).copy()
    packed = pack(kind, parse_blocks(kind, data), 2, 256)
    for byte in range(BLOCKS[kind][1]):
        for bit in range(8):
            changed = data.copy()
            changed[1, byte] ^= 1 << bit
            assert (pack(kind, parse_blocks(kind, changed), 2, 256) != packed).any()


@pytest.mark.parametrize("kind", BLOCKS)
def test_fields_survive_the_panels(kind: str):
    data = np.frombuffer(random_rows(kind, 21, 512, seed=7), np.uint8).reshape(21, -1)
    fields = parse_blocks(kind, data)
    back = unpack(kind, pack(kind, fields, 21, 512), 21, 512)
    assert back.keys() == fields.keys()
    for name, array in fields.items():
        assert back[name].tobytes() == array.tobytes()
