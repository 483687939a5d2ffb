"""N4, N5: linear layers.

T rows, K inputs, N outputs. Vectorised over rows and outputs; the loop is over the reduction.
"""

from __future__ import annotations

import numpy as np

from engine.reference.arrays import F32, as_f32
from engine.reference.integers import integer_products, integer_sums
from engine.reference.quantise import BLOCK, Activations, quantise
from engine.vqf.panels import Groups


def linear(x: F32, matrix: Groups | F32, bias: F32 | None = None) -> F32:
    """Apply one linear layer.

    Args:
        x: float32[T, K].
        matrix: the integer groups of an integer kind, or float32[N, K] of a float kind (N2).
        bias: float32[N], added last.

    Returns:
        float32[T, N]

    Raises:
        NonFiniteError: an activation that enters an integer kind is not finite (N12).
    """
    acc = (
        linear_integer(quantise(x), matrix)
        if isinstance(matrix, Groups)
        else linear_float(x, matrix)
    )
    return acc if bias is None else acc + bias


def linear_integer(x: Activations, matrix: Groups) -> F32:
    """N4: groups in ascending k, exact integers inside a group."""
    group = matrix.group
    s = np.ascontiguousarray(matrix.s.T)
    m = None if matrix.m is None else np.ascontiguousarray(matrix.m.T)
    acc = np.zeros((x.xq.shape[0], matrix.q.shape[0]), dtype=np.float32)
    for g in range(matrix.q.shape[1] // group):
        inputs = slice(g * group, (g + 1) * group)
        xq = x.xq[:, inputs]
        a = x.a[:, g * group // BLOCK, np.newaxis]
        acc = acc + as_f32(integer_products(xq, matrix.q[:, inputs])) * (s[g] * a)
        if m is not None:
            acc = acc + as_f32(integer_sums(xq))[:, np.newaxis] * (m[g] * a)
    return acc


def linear_float(x: F32, w: F32) -> F32:
    """N5: k ascending, the product rounded, then the sum."""
    columns = np.ascontiguousarray(w.T)
    acc = np.zeros((x.shape[0], w.shape[0]), dtype=np.float32)
    product = np.empty_like(acc)
    for k in range(w.shape[1]):
        np.multiply(columns[k], x[:, k, np.newaxis], out=product)
        np.add(acc, product, out=acc)
    return acc
