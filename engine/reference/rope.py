"""N7: rotary positions. Angles in binary64 with a written sine and cosine, rotation in binary32.

`h` is half the number of rotated dimensions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.reference.arrays import F32, F64, I64, as_f32, f64_constants

MAX_POSITION = 1 << 20

_TWO_OVER_PI, _P1, _P2, _P3 = f64_constants(
    (0x3FE45F306DC9C883, 0x3FF921FB54400000, 0x3DD0B4611A600000, 0x3BA3198A2E037073)
)
# Quotients of integers below 2^53: one rounding each, so the binary64 nearest to the rational.
_SIN = tuple(
    np.float64(sign) / np.float64(factorial)
    for sign, factorial in (
        (1, 6227020800),
        (-1, 39916800),
        (1, 362880),
        (-1, 5040),
        (1, 120),
        (-1, 6),
    )
)
_COS = tuple(
    np.float64(sign) / np.float64(factorial)
    for sign, factorial in (
        (-1, 87178291200),
        (1, 479001600),
        (-1, 3628800),
        (1, 40320),
        (-1, 720),
        (1, 24),
        (-1, 2),
    )
)


class RopeTable(NamedTuple):
    """Cosines and sines of consecutive positions: c and s float32[T, h]."""

    c: F32
    s: F32


def rope_table(positions: I64, inv_freq_bits: tuple[int, ...]) -> RopeTable:
    """Compute cos and sin of position times frequency.

    Args:
        positions: int64[T], 0 <= t < 2^20.
        inv_freq_bits: h binary64 patterns from the manifest.

    Raises:
        ValueError: a position is outside its range.
    """
    if np.any((positions < 0) | (positions >= MAX_POSITION)):
        raise ValueError(f"positions must be from 0 to {MAX_POSITION - 1}")
    frequencies = f64_constants(inv_freq_bits)
    cos_z, sin_z = cos_sin(positions.astype(np.float64)[:, np.newaxis] * frequencies[np.newaxis, :])
    return RopeTable(as_f32(cos_z), as_f32(sin_z))


def cos_sin(z: F64) -> tuple[F64, F64]:
    """Return the cosine and sine of each angle, 0 <= z < 2^20, with an error below 2e-13."""
    n = np.rint(z * _TWO_OVER_PI)
    y = ((z - n * _P1) - n * _P2) - n * _P3
    w = y * y
    sin_y = y + (y * w) * _horner(_SIN, w)
    cos_y = 1.0 + w * _horner(_COS, w)
    quadrant = n.astype(np.int64) & 3
    cos_z = np.choose(quadrant, (cos_y, -sin_y, -cos_y, sin_y))
    sin_z = np.choose(quadrant, (sin_y, cos_y, -sin_y, -cos_y))
    return cos_z, sin_z


def rotate(v: F32, table: RopeTable) -> F32:
    """Rotate head vectors: v float32[T, heads, D], D >= 2h; dimensions from 2h on are unchanged."""
    h = table.c.shape[1]
    c = table.c[:, np.newaxis, :]
    s = table.s[:, np.newaxis, :]
    a = v[:, :, :h]
    b = v[:, :, h : 2 * h]
    rotated = v.copy()
    rotated[:, :, :h] = a * c - b * s
    rotated[:, :, h : 2 * h] = b * c + a * s
    return rotated


def _horner(coefficients: tuple[np.float64, ...], w: F64) -> F64:
    value = np.full_like(w, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * w + coefficient
    return value
