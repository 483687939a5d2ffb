"""N8: RMSNorm."""

from __future__ import annotations

import numpy as np

from engine.reference.arrays import F32, f32_constant
from engine.reference.fold import fold16

_ONE = f32_constant(0x3F800000)


def rmsnorm(x: F32, weight: F32, eps_bits: int) -> F32:
    """Normalise each vector along the last axis.

    Args:
        x: float32[..., n].
        weight: float32[n].
        eps_bits: the manifest's eps as a binary32 pattern.

    Returns:
        float32[..., n]

    Raises:
        ValueError: n is not a multiple of 16.
    """
    n = x.shape[-1]
    if n % 16:
        raise ValueError(f"RMSNorm is defined for multiples of 16, not for {n} values")
    ss = fold16(x * x)
    r = _ONE / np.sqrt(ss / np.float32(n) + f32_constant(eps_bits))
    y: F32 = (x * r[..., np.newaxis]) * weight
    return y
