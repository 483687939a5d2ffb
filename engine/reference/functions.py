"""N6: exp and silu_mul, from binary32 operations alone."""

from __future__ import annotations

import numpy as np

from engine.reference.arrays import F32, f32_constant

_LOWEST = f32_constant(0xC2AE0000)  # -87
_HIGHEST = f32_constant(0x42B00000)  # 88
_ONE = f32_constant(0x3F800000)
_EXPONENT_UNIT = 1 << 23
_L = f32_constant(0x3FB8AA3B)
_HI = f32_constant(0x3F318000)
_LO = f32_constant(0xB95E8083)
_C6 = f32_constant(0x3AB688BE)
_COEFFICIENTS = (
    f32_constant(0x3C0905F1),
    f32_constant(0x3D2AAA8C),
    f32_constant(0x3E2AAA6E),
    f32_constant(0x3F000000),
    _ONE,
    _ONE,
)


def exp(x: F32) -> F32:
    """Return e^x for each element, as N6: +0.0 below -87, and x above 88 counts as 88.

    A NaN gives a NaN: its exponent is left alone, so that no integer is ever made from it.
    """
    x = np.where(x > _HIGHEST, _HIGHEST, x)
    low = x < _LOWEST
    x = np.where(low, _LOWEST, x)
    n = np.rint(x * _L)
    r = (x - n * _HI) - n * _LO
    p = np.full_like(r, _C6)
    for coefficient in _COEFFICIENTS:
        p = p * r + coefficient
    exponent = np.where(np.isnan(n), 0, n).astype(np.int32)
    scaled = (p.view(np.int32) + exponent * _EXPONENT_UNIT).view(np.float32)
    return np.where(low, np.float32(0), scaled)


def silu_mul(g: F32, u: F32) -> F32:
    """Return `(g / (1 + exp(-g))) * u` for each element."""
    return (g / (_ONE + exp(-g))) * u
