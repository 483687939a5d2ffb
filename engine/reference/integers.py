"""Exact integer sums: the one place where NumPy may choose the order, because it cannot matter.

The integers are held in binary64. A product of two is below 2^15 and a group has 32, so that every
partial sum is an integer far below 2^53, exact in any order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.reference.arrays import F64, I8


def integer_products(xq: I8, q: NDArray[np.int16]) -> F64:
    """Return the sums of q*x over one group.

    Args:
        xq: int8[T, group], activations.
        q: int16[N, group], weights, -128..127.

    Returns:
        float64[T, N], integers.
    """
    products: F64 = xq.astype(np.float64) @ q.astype(np.float64).T
    return products


def integer_sums(xq: I8) -> F64:
    """Return the sums of x over one group: float64[T], integers, from int8[T, group]."""
    sums: F64 = xq.astype(np.float64).sum(axis=1)
    return sums
