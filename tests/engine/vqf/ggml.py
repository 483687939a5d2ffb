"""Blocks as GGUF files have them, taken apart into the fields that panels are made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.engine.vqf.tiny import bytes_of

BLOCKS = {
    "F32": (1, [("w", "<f4", 1)]),
    "F16": (1, [("w", "<f2", 1)]),
    "BF16": (1, [("w", "<u2", 1)]),
    "Q4_0": (32, [("d", "<f2", 1), ("qs", "u1", 16)]),
    "Q4_1": (32, [("d", "<f2", 1), ("m", "<f2", 1), ("qs", "u1", 16)]),
    "Q5_0": (32, [("d", "<f2", 1), ("qh", "u1", 4), ("qs", "u1", 16)]),
    "Q5_1": (32, [("d", "<f2", 1), ("m", "<f2", 1), ("qh", "u1", 4), ("qs", "u1", 16)]),
    "Q8_0": (32, [("d", "<f2", 1), ("q", "i1", 32)]),
    "Q4_K": (256, [("d", "<f2", 1), ("dmin", "<f2", 1), ("scales", "u1", 12), ("qs", "u1", 128)]),
    "Q5_K": (
        256,
        [
            ("d", "<f2", 1),
            ("dmin", "<f2", 1),
            ("scales", "u1", 12),
            ("qh", "u1", 32),
            ("qs", "u1", 128),
        ],
    ),
    "Q6_K": (256, [("ql", "u1", 128), ("qh", "u1", 64), ("sc", "i1", 16), ("d", "<f2", 1)]),
}


def dtype_of(kind: str) -> np.dtype[Any]:
    """Return the structured type of one block of one row."""
    return np.dtype([(name, element, (count,)) for name, element, count in BLOCKS[kind][1]])


def random_rows(kind: str, rows: int, columns: int, seed: int) -> Any:
    """Return rows of any bytes, but with finite scales."""
    inputs = BLOCKS[kind][0]
    dtype = dtype_of(kind)
    size = rows * (columns // inputs) * dtype.itemsize
    blocks = bytes_of(f"{kind}/{seed}", size).view(dtype)
    for name in {"d", "m", "dmin"} & set(dtype.names or ()):
        bits = blocks[name].view(np.uint16)
        bits[(bits & 0x7C00) == 0x7C00] &= 0xBFFF  # out of the exponent of infinities
        blocks[name] = bits.view(np.float16)
    return blocks.view(np.uint8).reshape(rows, -1)


def fields_from_rows(kind: str, data: Any) -> dict[str, Any]:
    """Return the fields of rows of blocks: uint8[N, row bytes]."""
    rows = data.shape[0]
    blocks = np.ascontiguousarray(data).view(dtype_of(kind)).reshape(rows, -1)
    parts = {name: blocks[name] for name in blocks.dtype.names or ()}
    out = {
        name: np.ascontiguousarray(parts[name]).reshape(rows, -1)
        for name in ("d", "m", "dmin", "w", "q", "sc")
        if name in parts
    }
    if kind == "Q6_K":
        out["q"] = _codes_q6(parts["ql"], parts["qh"]).reshape(rows, -1)
    elif kind in ("Q4_K", "Q5_K"):
        out["sc"], out["mn"] = _six_bit_scales(parts["scales"])
        codes = _nibbles(parts["qs"], 32)
        if "qh" in parts:  # bit g of byte i belongs to input i of group g
            g = np.arange(8, dtype=np.uint8).reshape(1, 1, 8, 1)
            bits = (parts["qh"][:, :, None, :] >> g) & 1
            codes |= bits.reshape(codes.shape) << 4
        out["q"] = codes.reshape(rows, -1)
    elif "qs" in parts:
        codes = _nibbles(parts["qs"], 16)
        if "qh" in parts:  # bit k of the little-endian word belongs to input k
            codes |= np.unpackbits(parts["qh"], axis=-1, bitorder="little") << 4
        out["q"] = codes.reshape(rows, -1)
    return out


def _nibbles(packed: Any, run: int) -> Any:
    """Runs of bytes: first their low halves, then their high halves."""
    runs = packed.reshape(*packed.shape[:-1], -1, run)
    halves = np.stack([runs & 15, runs >> 4], axis=-2)
    return halves.reshape(*packed.shape[:-1], math.prod(halves.shape[-3:]))


def _six_bit_scales(packed: Any) -> tuple[Any, Any]:
    """Eight scales and eight minima of six bits in twelve bytes."""
    first, second, third = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = np.concatenate([first & 63, (third & 15) | ((first >> 6) << 4)], axis=-1)
    minima = np.concatenate([second & 63, (third >> 4) | ((second >> 6) << 4)], axis=-1)
    rows = packed.shape[0]
    return scales.reshape(rows, -1), minima.reshape(rows, -1)


def _codes_q6(low: Any, high: Any) -> Any:
    """Two halves of 128 inputs: four bits of `low`, two of `high`."""
    low = low.reshape(*low.shape[:-1], 2, 2, 32)  # half, run, input
    high = high.reshape(*high.shape[:-1], 2, 32)
    parts = []
    for quarter in range(4):
        four = low[..., quarter % 2, :] >> (4 * (quarter // 2)) & 15
        two = high >> (2 * quarter) & 3
        parts.append(four | (two << 4))
    codes = np.stack(parts, axis=-2)  # half, quarter, input
    return codes.reshape(*codes.shape[:-3], 256)
