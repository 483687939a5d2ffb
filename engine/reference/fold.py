"""N1: the sum of one vector, and the maximum as NUMERICS section 0 defines it."""

from __future__ import annotations

import numpy as np

from engine.reference.arrays import F32

_LANES = 16


def fold16(v: F32) -> F32:
    """Sum over the last axis: sixteen interleaved partial sums, then a fixed tree.

    Args:
        v: float32[..., n], any n.

    Returns:
        float32[...]
    """
    n = v.shape[-1]
    p = np.zeros((*v.shape[:-1], _LANES), dtype=np.float32)
    for i in range(0, n, _LANES):
        width = min(_LANES, n - i)
        p[..., :width] = p[..., :width] + v[..., i : i + width]
    for w in (8, 4, 2, 1):
        p[..., :w] = p[..., :w] + p[..., w : 2 * w]
    return p[..., 0].copy()


def larger(a: F32, b: F32) -> F32:
    """Return `b > a ? b : a` for each element."""
    return np.where(b > a, b, a)
