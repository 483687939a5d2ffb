"""N3: activations become int8 in blocks of 32."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.reference.arrays import F32, I8, f32_constant
from engine.reference.finite import require_finite
from engine.reference.fold import larger

BLOCK = 32

_SMALLEST = f32_constant(0x0D800000)  # 2^-100
_127 = f32_constant(0x42FE0000)


class Activations(NamedTuple):
    """Rows as integers: xq int8[T, K], -127..127, and the blocks' scales a float32[T, K/32]."""

    xq: I8
    a: F32


def quantise(x: F32) -> Activations:
    """Quantise rows.

    Args:
        x: float32[T, K], K a multiple of 32.

    Raises:
        NonFiniteError: a value is not finite (N12).
        ValueError: K is not a multiple of 32.
    """
    rows, width = x.shape
    if width % BLOCK:
        raise ValueError(f"a row of {width} values cannot be cut into blocks of {BLOCK}")
    require_finite(x, "activation of an integer linear layer")
    blocks = x.reshape(rows, width // BLOCK, BLOCK)
    magnitudes = np.abs(blocks)
    amax = magnitudes[:, :, 0]
    for i in range(1, BLOCK):
        amax = larger(amax, magnitudes[:, :, i])
    a = np.zeros_like(amax)
    xq = np.zeros(blocks.shape, dtype=np.int8)
    # Only what the definition computes: a tiny block has neither a scale nor a reciprocal.
    kept = ~(amax < _SMALLEST)
    a[kept] = amax[kept] / _127
    r = _127 / amax[kept]
    xq[kept] = np.rint(blocks[kept] * r[:, np.newaxis]).astype(np.int8)
    return Activations(xq.reshape(rows, width), a)
