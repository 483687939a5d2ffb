"""N9: attention over binary16 keys and values.

T rows of one step, H query heads, G key/value heads, D dimensions of a head, n = start + T
positions in the cache.
"""

from __future__ import annotations

import numpy as np

from engine.reference.arrays import F32, Floats, as_f32, f32_constant
from engine.reference.finite import require_finite
from engine.reference.fold import fold16, larger
from engine.reference.functions import exp

_ONE = f32_constant(0x3F800000)


def attention(q: F32, keys: Floats, values: Floats, start: int) -> F32:
    """Let each row attend to every position up to its own.

    Args:
        q: float32[T, H, D], after N7; row i is position start + i.
        keys: float16[n, G, D], the rows' own positions included.
        values: float16[n, G, D]; both may be float32 (see `ReferenceModel`).
        start: number of positions before this step.

    Returns:
        float32[T, H, D]

    Raises:
        NonFiniteError: a score or an output is not finite (N12).
    """
    rows, heads, dims = q.shape
    group = heads // keys.shape[1]
    k = np.repeat(as_f32(keys), group, axis=1).transpose(1, 2, 0)  # [H, D, n]
    v = np.repeat(as_f32(values), group, axis=1)  # [n, H, D]
    scaled = q * (_ONE / np.sqrt(np.float32(dims)))  # 9.1

    z = np.zeros((rows, heads, start + rows), dtype=np.float32)
    for t in range(rows):
        z[t, :, : start + t + 1] = _scores(scaled[t], k[:, :, : start + t + 1])
    require_finite(z, "attention score")
    m = _maximum(z, start)
    e = np.zeros_like(z)
    r = np.zeros_like(m)
    for t in range(rows):  # 9.3
        e_t = exp(z[t, :, : start + t + 1] - m[t, :, np.newaxis])
        e[t, :, : start + t + 1] = e_t
        r[t] = _ONE / fold16(e_t)

    acc = np.zeros((rows, heads, dims), dtype=np.float32)
    for j in range(start + rows):  # 9.4
        seen = _rows_that_see(j, start)
        acc[seen] = acc[seen] + e[seen, :, j, np.newaxis] * v[j]
    out = acc * r[:, :, np.newaxis]
    require_finite(out, "attention output")
    return out


def _scores(q: F32, k: F32) -> F32:
    """9.2 for one row: q float32[H, D], k float32[H, D, n], result float32[H, n]."""
    acc = np.zeros((k.shape[0], k.shape[2]), dtype=np.float32)
    for d in range(k.shape[1]):
        acc = acc + k[:, d] * q[:, d, np.newaxis]
    return acc


def _maximum(z: F32, start: int) -> F32:
    """The largest score of each row and head, folded left to right over the keys it sees."""
    m = z[:, :, 0].copy()
    for j in range(1, z.shape[2]):
        seen = _rows_that_see(j, start)
        m[seen] = larger(m[seen], z[seen, :, j])
    return m


def _rows_that_see(j: int, start: int) -> slice:
    """Key j serves the rows at and after its own position; no other lane is touched."""
    return slice(max(0, j - start), None)
