"""GGUF blocks taken apart into the fields that VQF panels hold, bit for bit.

A block of 32 inputs stores input j in the low and input j + 16 in the high half of byte j. A block
of 256 is eight groups of 32; halves and high bits are spread as the functions below show.
N rows, K inputs, B blocks in a row.

Source: the block structures of ggml (ggml-common.h) and their dequantisation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.convert.gguf import BLOCKS

Bytes = NDArray[np.uint8]
Fields = dict[str, NDArray[np.generic]]


def parse_blocks(kind: str, data: Bytes) -> Fields:
    """Take the rows of a tensor apart.

    Args:
        kind: A kind of `engine.convert.gguf.BLOCKS`.
        data: uint8[N, bytes of a row].

    Returns:
        The fields of `engine.vqf.panels.pack`: codes `q` [N, K], scales [N, K / inputs], or `w`.
    """
    rows = data.shape[0]
    if kind in _FLOATS:
        return {"w": data.view(_FLOATS[kind])}
    block_bytes = BLOCKS[kind][1]
    blocks = data.reshape(rows, -1, block_bytes)
    fields = _PARSERS[kind](blocks)
    return {name: np.ascontiguousarray(field.reshape(rows, -1)) for name, field in fields.items()}


def _f16(blocks: Bytes, offset: int) -> NDArray[np.generic]:
    """The binary16 at `offset` of each block: float16[N, B]."""
    return np.ascontiguousarray(blocks[:, :, offset : offset + 2]).view("<f2")[:, :, 0]


def _halves(packed: Bytes) -> Bytes:
    """Low halves of all bytes, then their high halves, along the last axis."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _fifth_bits(blocks: Bytes, offset: int) -> Bytes:
    """32 bits at `offset` as the codes' bit 4: uint8[N, B, 32]."""
    bits = np.unpackbits(blocks[:, :, offset : offset + 4], axis=-1, bitorder="little")
    return bits << np.uint8(4)


def _q4_0(blocks: Bytes) -> Fields:
    return {"d": _f16(blocks, 0), "q": _halves(blocks[:, :, 2:])}


def _q4_1(blocks: Bytes) -> Fields:
    return {"d": _f16(blocks, 0), "m": _f16(blocks, 2), "q": _halves(blocks[:, :, 4:])}


def _q5_0(blocks: Bytes) -> Fields:
    return {"d": _f16(blocks, 0), "q": _halves(blocks[:, :, 6:]) | _fifth_bits(blocks, 2)}


def _q5_1(blocks: Bytes) -> Fields:
    codes = _halves(blocks[:, :, 8:]) | _fifth_bits(blocks, 4)
    return {"d": _f16(blocks, 0), "m": _f16(blocks, 2), "q": codes}


def _q8_0(blocks: Bytes) -> Fields:
    return {"d": _f16(blocks, 0), "q": blocks[:, :, 2:].view(np.int8)}


def _six_bit_scales(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Scales and minima of eight groups from 12 bytes: uint8[N, B, 8] each.

    Groups 0..3 have their six bits in one byte each; groups 4..7 four bits in the last four bytes
    and two in the upper bits of the first eight.
    """
    first, second, third = packed[:, :, 0:4], packed[:, :, 4:8], packed[:, :, 8:12]
    scales = [first & 63, (third & 15) | (first >> 6 << 4)]
    minima = [second & 63, (third >> 4) | (second >> 6 << 4)]
    return np.concatenate(scales, axis=-1), np.concatenate(minima, axis=-1)


def _paired_groups(packed: Bytes) -> Bytes:
    """Codes of eight groups: 32 bytes hold two of them, one in each half. uint8[N, B, 8, 32]."""
    pairs = packed.reshape(*packed.shape[:2], 4, 1, 32)
    return np.concatenate([pairs & 15, pairs >> 4], axis=3).reshape(*packed.shape[:2], 8, 32)


def _q4_k(blocks: Bytes) -> Fields:
    scales, minima = _six_bit_scales(blocks[:, :, 4:16])
    codes = _paired_groups(blocks[:, :, 16:])
    return {
        "d": _f16(blocks, 0),
        "dmin": _f16(blocks, 2),
        "sc": scales,
        "mn": minima,
        "q": codes,
    }


def _q5_k(blocks: Bytes) -> Fields:
    scales, minima = _six_bit_scales(blocks[:, :, 4:16])
    high = blocks[:, :, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None]  # bit g: group g
    codes = _paired_groups(blocks[:, :, 48:]) | (high & np.uint8(1)) << np.uint8(4)
    return {
        "d": _f16(blocks, 0),
        "dmin": _f16(blocks, 2),
        "sc": scales,
        "mn": minima,
        "q": codes,
    }


def _q6_k(blocks: Bytes) -> Fields:
    shape = blocks.shape[:2]
    low = blocks[:, :, :128].reshape(*shape, 2, 64)
    low = np.concatenate([low & 15, low >> 4], axis=-1).reshape(*shape, 2, 4, 32)
    high = blocks[:, :, 128:192].reshape(*shape, 2, 1, 32)
    high = high >> np.array([0, 2, 4, 6], np.uint8)[:, None] & np.uint8(3)
    return {
        "d": _f16(blocks, 208),
        "sc": blocks[:, :, 192:208].view(np.int8),
        "q": low | high << np.uint8(4),
    }


_FLOATS: dict[str, str] = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}

_PARSERS: dict[str, Callable[[Bytes], Fields]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
