"""Make tests/data/reference/vectors.json: what the definition computes and all else must equal.

    python -m tests.engine.reference.make_vectors

Arrays are strings of bit patterns in C order: eight hex digits for a binary32 number, four for a
binary16 number, sixteen for a binary64 number. `panels` is a matrix as it lies in a VQF file, two
hex digits a byte. `xq` is a list of integers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.reference.arrays import F32
from engine.reference.attention import attention
from engine.reference.decoder import ReferenceModel
from engine.reference.fold import fold16
from engine.reference.functions import exp, silu_mul
from engine.reference.linear import linear
from engine.reference.norm import rmsnorm
from engine.reference.quantise import quantise
from engine.reference.rope import rope_table, rotate
from engine.reference.trace import trace_root
from engine.reference.weights import Weight
from engine.vqf.panels import pack
from tests.engine.reference.support import (
    CHECKPOINTS,
    DATA,
    INTEGER_KINDS,
    SplitMix64,
    f32,
    inv_freq_bits,
    load_checkpoint,
    random_fields,
    to_hex,
)

FILE = DATA / "vectors.json"
ROPE_POSITIONS = (0, 1, 63, 64, 4095, 8191, 262143, 1048575)
SPECIAL = {
    "zeros": [0x00000000] * 32,
    "negative zeros": [0x80000000] * 32,
    "smallest subnormal": [0x00000001] * 32,
    "subnormals of both signs": [0x007FFFFF, 0x80000001] * 16,
    "just below 2^-100": [0x0D7FFFFF, 0x8D7FFFFF] * 16,
    "2^-100": [0x0D800000, 0x8D800000, *[0x0D000000] * 30],
    "largest": [0x7F7FFFFF, 0xFF7FFFFF, *[0x7EFFFFFF] * 30],
    "ties, with a = 1": [
        *(0x42FE0000, 0x3F000000, 0x3FC00000, 0x40200000, 0xBF000000, 0xBFC00000),
        *(0xC0200000, 0x42FD0000, *[0x00000000] * 24),
    ],
    "one value": [0x00000000] * 31 + [0xC1200000],
}
EPS_BITS = 0x3727C5AC
Vector = dict[str, Any]


def make() -> dict[str, Any]:
    """Compute all vectors."""
    return {
        "source": "engine/reference, by tests/engine/reference/make_vectors.py, which describes it",
        "profile": "wh1",
        "fold16": _fold16(),
        "quantise": _quantise(),
        "linear": _linear(),
        "exp": _exp(),
        "silu_mul": _silu_mul(),
        "rope": _rope(),
        "rmsnorm": _rmsnorm(),
        "attention": _attention(),
        "decoder": _decoder(),
    }


def _fold16() -> list[Vector]:
    source = SplitMix64(1)
    cases = {f"{n} values": source.wide_floats((n,), -20, 20) for n in (1, 15, 16, 17, 100, 576)}
    cases["one negative zero"] = f32(0x80000000)
    cases["subnormals"] = f32(*range(1, 33))
    return [
        {"id": name, "v": to_hex(v), "result": to_hex(fold16(v[np.newaxis]))}
        for name, v in cases.items()
    ]


def _quantise() -> list[Vector]:
    source = SplitMix64(2)
    cases = {name: f32(*bits) for name, bits in SPECIAL.items()}
    cases["random"] = source.wide_floats((96,), -8, 8)
    cases["exponents of every size"] = source.wide_floats((96,), -126, 127)
    vectors = []
    for name, x in cases.items():
        xq, a = quantise(x[np.newaxis])
        vectors.append({"id": name, "x": to_hex(x), "xq": xq[0].tolist(), "a": to_hex(a)})
    return vectors


def _activations(columns: int, seed: int) -> F32:
    """Five rows: random, all of one sign, alternating, special blocks, tiny and subnormal."""
    source = SplitMix64(seed)
    x = source.wide_floats((5, columns), -4, 4)
    x[1] = 1
    x[2] = np.where(np.arange(columns) % 2, 2, -2)
    special = ("just below 2^-100", "negative zeros", "2^-100", "zeros")
    blocks = [f32(*SPECIAL[name]) for name in special]
    x[3] = np.resize(np.concatenate(blocks), columns)
    x[4] = source.wide_floats((columns,), -126, -98)
    return x


def _linear() -> list[Vector]:
    vectors = []
    for seed, kind in enumerate((*INTEGER_KINDS, "F32", "F16", "BF16")):
        outputs = 19
        columns = 512 if kind.endswith("_K") else 96 if kind in INTEGER_KINDS else 37
        fields = random_fields(kind, outputs, columns, seed + 30)
        x = _activations(columns, seed + 60)
        bias = SplitMix64(seed + 90).floats((outputs,), 4)
        matrix = Weight(kind, fields).matrix()
        vectors.append(
            {
                "id": kind,
                "kind": kind,
                "rows": len(x),
                "outputs": outputs,
                "columns": columns,
                "panels": pack(kind, fields, outputs, columns).tobytes().hex(),
                "x": to_hex(x),
                "bias": to_hex(bias),
                "y": to_hex(linear(x, matrix)),
                "y_with_bias": to_hex(linear(x, matrix, bias)),
            }
        )
    return vectors


def _exp() -> list[Vector]:
    edges = f32(
        *(0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x3F800000, 0xBF800000),
        # -87 and its neighbours, 88 and its neighbours, the ends of the range, the infinities
        *(0xC2ADFFFF, 0xC2AE0000, 0xC2AE0001, 0x42AFFFFF, 0x42B00000, 0x42B00001),
        *(0xFF7FFFFF, 0x7F7FFFFF, 0xFF800000, 0x7F800000, 0x42A18069),
    )
    spread = np.arange(-1392, 1409, 8, dtype=np.float32) / np.float32(16)
    small = SplitMix64(3).wide_floats((200,), -30, 6)
    return [
        {"id": name, "x": to_hex(x), "y": to_hex(exp(x))}
        for name, x in {"edges": edges, "spread": spread, "random": small}.items()
    ]


def _silu_mul() -> list[Vector]:
    source = SplitMix64(4)
    g = np.concatenate(
        (source.floats((200,), 16), source.wide_floats((100,), -30, 8), f32(0, 0x80000000))
    )
    u = source.wide_floats(g.shape, -8, 8)
    return [{"id": "random", "g": to_hex(g), "u": to_hex(u), "y": to_hex(silu_mul(g, u))}]


def _rope() -> list[Vector]:
    vectors = []
    positions = np.array(ROPE_POSITIONS, dtype=np.int64)
    for theta, rotated, dims in ((100000.0, 64, 64), (1e6, 32, 48)):
        bits = inv_freq_bits(theta, rotated)
        table = rope_table(positions, bits)
        v = SplitMix64(rotated).floats((len(positions), 1, dims), 4)
        vectors.append(
            {
                "id": f"theta {theta:g}, {rotated} of {dims} dimensions",
                "inv_freq": "".join(f"{pattern:016x}" for pattern in bits),
                "positions": list(ROPE_POSITIONS),
                "c": to_hex(table.c),
                "s": to_hex(table.s),
                "head_dim": dims,
                "v": to_hex(v),
                "rotated": to_hex(rotate(v, table)),
            }
        )
    return vectors


def _rmsnorm() -> list[Vector]:
    source = SplitMix64(5)
    vectors = []
    for n in (16, 64, 576):
        x = np.concatenate((source.wide_floats((2, n), -12, 6), np.zeros((1, n), dtype=np.float32)))
        weight = source.floats((n,), 2)
        y = rmsnorm(x, weight, EPS_BITS)
        vectors.append(
            {
                "id": f"{n} values",
                "eps": f"{EPS_BITS:08x}",
                "rows": len(x),
                "x": to_hex(x),
                "weight": to_hex(weight),
                "y": to_hex(y),
            }
        )
    return vectors


def _attention() -> list[Vector]:
    vectors = []
    cases = {
        "first position": (1, 0, 2, 1, 16),
        "prefill": (6, 0, 4, 2, 16),
        "chunk": (3, 14, 3, 3, 16),
        "decode beyond a block": (1, 69, 2, 1, 64),
    }
    for seed, (name, (rows, start, heads, kv_heads, dims)) in enumerate(cases.items()):
        source = SplitMix64(seed + 200)
        q = source.floats((rows, heads, dims), 8)
        keys = source.floats((start + rows, kv_heads, dims), 2).astype(np.float16)
        values = source.floats((start + rows, kv_heads, dims), 2).astype(np.float16)
        vectors.append(
            {
                "id": name,
                "rows": rows,
                "start": start,
                "heads": heads,
                "kv_heads": kv_heads,
                "head_dim": dims,
                "q": to_hex(q),
                "keys": to_hex(keys),
                "values": to_hex(values),
                "out": to_hex(attention(q, keys, values, start)),
            }
        )
    return vectors


def _decoder() -> list[Vector]:
    """The tiny checkpoints, matrices as kind F32, over the ids of their golden files."""
    vectors = []
    for name in CHECKPOINTS:
        checkpoint = load_checkpoint(name)
        ids: list[int] = checkpoint.golden["input_ids"].tolist()
        found = ReferenceModel(checkpoint.config, checkpoint.weights).forward(ids)
        vectors.append(
            {
                "id": name,
                "ids": ids,
                "trace_root": trace_root(found.residuals).hex(),
                "last_logits": to_hex(found.logits[-1]),
            }
        )
    return vectors


def serialise(vectors: Mapping[str, Any]) -> str:
    """Return the text of the file."""
    return json.dumps(vectors, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(serialise(make()))
