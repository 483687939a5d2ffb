"""The kernels one by one against tests/data/reference/vectors.json, by bits."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.memory.buffers import address_of
from engine.reference.functions import silu_mul as define_silu_mul
from engine.reference.quantise import quantise as define_quantise
from engine.reference.rope import rope_table
from engine.reference.weights import Weight
from engine.vqf.panels import unpack
from tests.engine.kernels import pieces
from tests.engine.kernels.pieces import Pieces, attend, blocks_of, read_blocks, read_floats
from tests.engine.kernels.running import assert_same_bits
from tests.engine.reference.support import DATA, INTEGER_KINDS, SplitMix64, from_hex, inv_freq_bits

Array = NDArray[Any]

VECTORS: dict[str, Any] = json.loads((DATA / "vectors.json").read_text())


def vectors(family: str) -> pytest.MarkDecorator:
    """Run a test for each vector of a family."""
    cases = VECTORS[family]
    return pytest.mark.parametrize("vector", cases, ids=[case["id"] for case in cases])


@vectors("linear")
def test_linear(vector: dict[str, Any]) -> None:
    kind, outputs, columns = vector["kind"], vector["outputs"], vector["columns"]
    stored = np.frombuffer(bytes.fromhex(vector["panels"]), np.uint8)
    weight = Weight(kind, unpack(kind, stored, outputs, columns))
    x = from_hex(vector["x"]).reshape(vector["rows"], columns)
    rows = blocks_of(*define_quantise(x)) if kind in INTEGER_KINDS else x
    y = from_hex(vector["y"]).reshape(-1, outputs)
    with_bias = from_hex(vector["y_with_bias"]).reshape(-1, outputs)
    assert_same_bits(pieces.linear(weight, rows), y)
    assert_same_bits(pieces.linear(weight, rows, from_hex(vector["bias"])), with_bias)
    for row in range(len(rows)):
        assert_same_bits(pieces.linear(weight, rows[row : row + 1]), y[row : row + 1])


@vectors("quantise")
def test_quantise(vector: dict[str, Any]) -> None:
    x = from_hex(vector["x"])[np.newaxis]
    xq = np.array(vector["xq"], np.int8)[np.newaxis]
    a = from_hex(vector["a"])[np.newaxis]
    found, errors = pieces.quantise(x)
    assert not errors.any()
    assert found.tobytes() == blocks_of(xq, a).tobytes()


@vectors("silu_mul")
def test_silu_mul(vector: dict[str, Any]) -> None:
    g, u, y = (from_hex(vector[name]) for name in ("g", "u", "y"))
    assert_same_bits(silu_mul(g, u), y)


@vectors("exp")
def test_exp_inside_silu_mul(vector: dict[str, Any]) -> None:
    # exp has no kernel of its own; an infinite gate ends the request before (NUMERICS N12).
    x, y = from_hex(vector["x"]), from_hex(vector["y"])
    x, y = x[np.isfinite(x)], y[np.isfinite(x)]
    one = np.float32(1)
    assert_same_bits(silu_mul(-x, np.ones_like(x)), (-x / (one + y)) * one)


def test_silu_mul_of_many_values() -> None:
    # A last bit that is wrong in one value of ten thousand is not in the vectors.
    source = SplitMix64(42)
    gates = source.wide_floats((64, 8192), -3, 7), source.floats((64, 8192), 16)
    g = np.concatenate(gates, axis=1).ravel()
    u = np.ones_like(g)
    assert_same_bits(silu_mul(g, u, 64), define_silu_mul(g, u))


def silu_mul(g: Array, u: Array, rows: int = 1) -> Array:
    """Return silu_mul of vectors, cut into rows and filled up with ones to a width of 32."""
    width = -(-len(g) // (32 * rows)) * 32
    gate, up = np.ones((2, rows * width), np.float32)
    gate[: len(g)], up[: len(u)] = g, u
    found = Pieces(FLOAT_AND_INTEGER, hidden_size=32, intermediate_size=width)
    sources = (found.rows(floats=x.reshape(rows, width)) for x in (gate, up))
    result = found.graph.silu_mul(*sources)
    assert not found.run(rows).any()
    floats = read_floats(result.floats, rows, width)
    blocks = read_blocks(result.quantised, rows, width // 32)
    assert blocks.tobytes() == blocks_of(*define_quantise(floats)).tobytes()
    return floats.ravel()[: len(g)]


# Models with matrices of both sorts keep values both as f32 and as integers.
FLOAT_AND_INTEGER = {
    "layers.0.q": Weight("F32", {"w": np.zeros((32, 32), np.float32)}),
    "layers.0.k": Weight(
        "Q8_0", {"q": np.zeros((32, 32), np.int8), "d": np.zeros((32, 1), np.float16)}
    ),
}


@vectors("rmsnorm")
def test_rmsnorm(vector: dict[str, Any]) -> None:
    weight, eps = from_hex(vector["weight"]), int(vector["eps"], 16)
    x, y = (from_hex(vector[name]).reshape(vector["rows"], -1) for name in ("x", "y"))
    # Rows are multiples of 32; a norm over 16 values can only be a head's.
    if len(weight) % 32:
        assert_same_bits(norm_of_heads(x, weight, eps), y)
        return
    tensors = {"norm": Weight("F32", {"w": weight}), **FLOAT_AND_INTEGER}
    found = Pieces(tensors, hidden_size=len(weight), norm_eps_bits=eps)
    result = found.graph.rms_norm(found.rows(floats=x), "norm")
    assert not found.run(len(x)).any()
    assert_same_bits(read_floats(result.floats, *y.shape), y)
    blocks = read_blocks(result.quantised, len(y), y.shape[1] // 32)
    assert blocks.tobytes() == blocks_of(*define_quantise(y)).tobytes()


def norm_of_heads(x: Array, weight: Array, eps: int) -> Array:
    """Return the norm of heads of 16, as queries get it."""
    tensors = {"q_norm": Weight("F32", {"w": weight}), **FLOAT_AND_INTEGER}
    shape: dict[str, Any] = {"num_heads": 2, "num_kv_heads": 2, "head_dim": 16}
    found = Pieces(tensors, architecture="qwen3", norm_eps_bits=eps, rope_inv_freq_bits=(), **shape)
    both = np.stack((x, x), axis=1)
    tables = found.tables_of_one_block(len(x))
    scaled = attend(found, both, 0 * both, 0 * both, range(len(x)), tables).scaled
    assert_same_bits(scaled[:, 0], scaled[:, 1])
    return scaled[:, 0] * np.float32(4)  # queries are scaled by 1 / sqrt(16), exactly


@vectors("rope")
def test_rope(vector: dict[str, Any]) -> None:
    bits = [int(vector["inv_freq"][i : i + 16], 16) for i in range(0, len(vector["inv_freq"]), 16)]
    positions = vector["positions"]
    cosines, sines = pieces.rope_table(positions, bits)
    assert_same_bits(cosines, from_hex(vector["c"]).reshape(cosines.shape))
    assert_same_bits(sines, from_hex(vector["s"]).reshape(sines.shape))


def test_rope_tables_of_many_positions() -> None:
    positions = SplitMix64(77).integers(0, 1 << 20, (64,))
    bits = inv_freq_bits(1e4, 128)
    expected = rope_table(positions, bits)
    cosines, sines = pieces.rope_table(positions.tolist(), bits)
    assert_same_bits(cosines, expected.c)
    assert_same_bits(sines, expected.s)


@vectors("rope")
def test_rotate(vector: dict[str, Any]) -> None:
    bits = tuple(
        int(vector["inv_freq"][i : i + 16], 16) for i in range(0, len(vector["inv_freq"]), 16)
    )
    dims, positions = vector["head_dim"], vector["positions"]
    v, rotated = (
        from_hex(vector[name]).reshape(len(positions), 1, dims) for name in ("v", "rotated")
    )
    found = Pieces(
        FLOAT_AND_INTEGER, num_heads=2, num_kv_heads=2, head_dim=dims, rope_inv_freq_bits=bits
    )
    both = np.concatenate((v, v), axis=1)
    scaled = attend(
        found, both, both, both, positions, found.tables_of_one_block(len(positions))
    ).scaled
    scale = np.float32(1) / np.sqrt(np.float32(dims))
    assert_same_bits(scaled, np.concatenate((rotated, rotated), axis=1) * scale)


@pytest.mark.parametrize("tile_rows", [1, 2, 6])
@vectors("attention")
def test_attention(vector: dict[str, Any], tile_rows: int) -> None:
    rows, start, dims = vector["rows"], vector["start"], vector["head_dim"]
    heads, kv_heads = vector["heads"], vector["kv_heads"]
    q = from_hex(vector["q"]).reshape(rows, heads, dims)
    k, v = (
        from_hex(vector[name], np.float16).astype(np.float32).reshape(start + rows, kv_heads, dims)
        for name in ("keys", "values")
    )
    # Everything twice, side by side: a row of all heads is a multiple of 32 wide.
    q, k, v = (np.concatenate((x, x), axis=1) for x in (q, k, v))
    shape = {"num_heads": 2 * heads, "num_kv_heads": 2 * kv_heads, "head_dim": dims}
    table = np.zeros(2, np.int64)

    blocks = Pieces(FLOAT_AND_INTEGER, **shape).cache_blocks
    table[:] = [blocks.address(blocks.take()) for _ in table]

    def step(queries: Array, first: int, last: int) -> Array:
        found = Pieces(FLOAT_AND_INTEGER, rope_inv_freq_bits=(), **shape)
        tables = np.full(last - first, address_of(table), np.int64)
        tiles = [
            (n, min(tile_rows, last - first - n), first + n, address_of(table))
            for n in range(0, last - first, tile_rows)
        ]
        sources = queries, k[first:last], v[first:last]
        result = attend(found, *sources, range(first, last), tables, tiles)
        assert not result.errors.any()
        return result.output

    for first in range(0, start, 64):
        last = min(start, first + 64)
        step(np.zeros((last - first, 2 * heads, dims), np.float32), first, last)
    expected = from_hex(vector["out"]).reshape(rows, heads, dims)
    assert_same_bits(step(q, start, start + rows), np.concatenate((expected, expected), axis=1))
