"""Array types, and constants from bit patterns.

A constant that NUMERICS.md gives as hexadecimal digits is written here as those digits, so that no
decimal literal is rounded by a parser on the way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

F16 = NDArray[np.float16]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
I8 = NDArray[np.int8]
I64 = NDArray[np.int64]


def f32_constant(bits: int) -> np.float32:
    """Return the binary32 number with this bit pattern."""
    value: np.float32 = np.array([bits], dtype=np.uint32).view(np.float32)[0]
    return value


def f64_constants(bits: tuple[int, ...]) -> F64:
    """Return the binary64 numbers with these bit patterns: float64[len(bits)]."""
    return np.array(bits, dtype=np.uint64).view(np.float64)


def as_f32(values: Floats | NDArray[np.integer[Any]]) -> F32:
    """Convert to binary32: exact when widening, else rounded once (NUMERICS section 0)."""
    return values.astype(np.float32)


def quiet() -> np.errstate:
    """Return a context in which infinities and NaN arise without a warning.

    They are part of the definition: NUMERICS N12 says where they end the request.
    """
    return np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
