"""Find the element at a given running sum in sorted order, without sorting.

A weighted radix selection. The order is by distance, then by index. The first level counts all
elements into buckets of the distance's high half; only the one bucket that holds the answer is
looked at more closely, eight bits of the distance at a time.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.sampling.compiled import helper
from engine.sampling.vectors import BLOCK, BUCKETS, FIRST_BUCKET, gather

_PATTERN_LIMIT: Final = 0x7FFFFFFF


@helper
def count(
    buckets: NDArray[np.uint16],
    shares: NDArray[np.int32],
    histogram: NDArray[np.int32],
    n: int,
) -> int:
    """Fill int32[BUCKETS] with the sum of the shares in each bucket; return the sum of all."""
    for b in range(BUCKETS):
        histogram[b] = 0
    for j in range(n):
        histogram[buckets[j]] += shares[j]
    total = 0
    for b in range(BUCKETS):
        total += histogram[b]
    return total


@helper
def locate(
    distances: NDArray[np.int32],
    shares: NDArray[np.int32],
    n: int,
    histogram: NDArray[np.int32],
    found: NDArray[np.int32],
    wanted: int,
) -> tuple[int, int]:
    """Return the first element in sorted order whose running sum exceeds `wanted`, and that sum.

    Args:
        distances: int32[n] patterns of distances, filled up with infinity to whole blocks.
        shares: int32[n], not negative, filled up with zeros to whole blocks.
        n: number of elements.
        histogram: int32[BUCKETS], as `count` leaves it.
        found: int32[n], overwritten.
        wanted: less than the sum of all shares.
    """
    before, bucket = 0, 0
    while before + histogram[bucket] <= wanted:
        before += histogram[bucket]
        bucket += 1
    low = (FIRST_BUCKET + bucket) << 16 if bucket else 0
    high = (FIRST_BUCKET + bucket + 1) << 16 if bucket + 1 < BUCKETS else _PATTERN_LIMIT
    blocks = (n + BLOCK - 1) // BLOCK
    size = gather(distances.ctypes.data, blocks, low, high, found.ctypes.data)
    part = np.zeros(256, dtype=np.int64)
    # Inside a bucket the high half is known, except in the first and the last, which are clipped.
    shift = 8 if 0 < bucket < BUCKETS - 1 else 24
    while shift >= 0:
        part[:] = 0
        for i in range(size):
            part[(distances[found[i]] >> shift) & 255] += shares[found[i]]
        digit = 0
        while before + part[digit] <= wanted:
            before += part[digit]
            digit += 1
        kept = 0
        for i in range(size):
            if (distances[found[i]] >> shift) & 255 == digit:
                found[kept] = found[i]
                kept += 1
        size = kept
        shift -= 8
    for i in range(size):
        before += shares[found[i]]
        if before > wanted:
            return int(found[i]), int(before)
    return -1, int(before)
