"""SM3 of many equally long inputs at once: the rows of an array.

Every tree over activations is hashed through these two functions, so a faster SM3 that works on
many rows side by side has one place to go. Letters: n rows of k elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crypto.sm3 import DIGEST_BYTES, prefixed


def hash_rows(prefix: bytes, rows: NDArray[Any]) -> NDArray[np.uint8]:
    """Return SM3(prefix || row) for every row.

    Args:
        prefix: bytes before each row.
        rows: [n, k] of any plain dtype; a row is the bytes of its elements, little-endian.

    Returns:
        uint8[n, 32]

    Raises:
        ValueError: the array has not two dimensions, or its elements are not plain little-endian
            values.
    """
    if rows.ndim != 2:
        raise ValueError(f"rows must have 2 dimensions, not {rows.ndim}")
    if rows.dtype.hasobject or rows.dtype != rows.dtype.newbyteorder("<"):
        raise ValueError(f"rows must hold little-endian values, not {rows.dtype}")
    num_rows = rows.shape[0]
    data = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
    width = rows.shape[1] * rows.dtype.itemsize
    digest = prefixed(prefix)
    digests = bytearray().join(
        [digest(data[row * width : row * width + width]) for row in range(num_rows)]
    )
    return np.frombuffer(digests, np.uint8).reshape(num_rows, DIGEST_BYTES)


def hash_pairs(
    prefix: bytes, left: NDArray[np.uint8], right: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return SM3(prefix || left row || right row) for every row.

    Args:
        prefix: bytes before each pair.
        left: uint8[n, 32]
        right: uint8[n, 32]

    Returns:
        uint8[n, 32]

    Raises:
        ValueError: the shapes or dtypes are not as above.
    """
    shape = (left.shape[0], DIGEST_BYTES)
    if left.shape != shape or right.shape != shape:
        raise ValueError(f"digests must be two arrays [n, 32], not {left.shape} and {right.shape}")
    if left.dtype != np.uint8 or right.dtype != np.uint8:
        raise ValueError(f"digests must be uint8, not {left.dtype} and {right.dtype}")
    return hash_rows(prefix, np.concatenate((left, right), axis=1))
