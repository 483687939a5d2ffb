"""Sampling, compiled: equal to `engine.sampling.reference` bit for bit (NUMERICS 7).

No vector is sorted. Whatever has to be found in sorted order is found by `engine.sampling.select`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.sampling.compiled import compiled, helper, types
from engine.sampling.select import count, locate
from engine.sampling.vectors import (
    BLOCK,
    enter,
    first,
    log,
    mass_above,
    scan,
    shares,
    temper,
    weigh,
)

F32s = NDArray[np.float32]
I32s = NDArray[np.int32]
U16s = NDArray[np.uint16]

NOT_FINITE: Final = -1
NOTHING_LEFT: Final = -2

_MINUS_INFINITY: Final = np.float32("-inf")
_ZERO: Final = np.float32(0)
_ONE_BITS: Final = 0x3F800000
_FULL_SHARE: Final = 1 << 30

_F32S = types.float32[::1]
_I32S = types.int32[::1]
_U16S = types.uint16[::1]
_PAIR: Any = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]
_READ_F32S = types.Array(types.float32, 1, "C", readonly=True)
_READ_I32S = types.Array(types.int32, 1, "C", readonly=True)
_READ_U8S = types.Array(types.uint8, 1, "C", readonly=True)


@helper
def _blocks(n: int) -> int:
    return (n + BLOCK - 1) // BLOCK


@helper
def _copy(source: F32s, work: F32s, n: int) -> int:
    """Copy `source[:n]`, which may be `work`; return the bits of the largest, or NOT_FINITE.

    The last block is filled up with copies, which change no maximum.
    """
    blocks = n // BLOCK
    work[0] = source[0]
    largest = int(work.view(np.int32)[0])
    largest = scan(source.ctypes.data, work.ctypes.data, blocks, largest)
    rest = blocks * BLOCK
    if largest < 0 or rest == n:
        return largest
    for j in range(rest, n):
        work[j] = source[j]
    for j in range(n, rest + BLOCK):
        work[j] = work[rest]
    last = work[rest:].ctypes.data
    return scan(last, last, 1, largest)


@helper
def _penalise(
    work: F32s,
    prompt: I32s,
    output: I32s,
    counts: I32s,
    factor: np.float32,
    frequency: np.float32,
    presence: np.float32,
) -> None:
    """S3. `counts` is all zeros before and after; -1 stands for an id of the prompt alone."""
    for i in output:
        counts[i] += 1
    for i in prompt:
        if counts[i] == 0:
            counts[i] = -1
    for ids in (output, prompt):
        for i in ids:
            times = counts[i]
            if times == 0:
                continue
            counts[i] = 0
            value = work[i]
            value = value / factor if value > _ZERO else value * factor
            if times > 0:
                value = (value - np.float32(times) * frequency) - presence
            work[i] = value


@compiled(
    _PAIR(
        _READ_F32S,
        _F32S,
        _I32S,
        _I32S,
        _READ_I32S,
        _READ_I32S,
        _READ_F32S,
        _READ_I32S,
        _READ_F32S,
        _READ_U8S,
    )
)
def prepare(
    logits: F32s,
    work: F32s,
    ids: I32s,
    counts: I32s,
    prompt: I32s,
    output: I32s,
    penalties: F32s,
    bias_ids: I32s,
    biases: F32s,
    mask: NDArray[np.uint8],
) -> tuple[int, int]:
    """Write what is left of the logits after penalties, biases and mask (S3 to S5).

    Args:
        logits: float32[vocab].
        work: float32[vocab, filled up to blocks]: the logits left.
        ids: int32[vocab]: their ids, written only if there is a mask.
        counts: int32[vocab] of zeros, which they are again afterwards.
        prompt: ids of the prompt.
        output: ids of the output.
        penalties: factor, frequency, presence; empty if there are none.
        bias_ids: ids of the biases.
        biases: as many biases.
        mask: uint8[vocab], or empty if there is none.

    Returns:
        The number of logits left and the bits of the largest; instead of the number NOT_FINITE or
        NOTHING_LEFT.
    """
    enter()
    n = len(logits)
    largest = _copy(logits, work, n)
    if largest < 0:
        return NOT_FINITE, 0
    if len(penalties) > 0:
        _penalise(work, prompt, output, counts, penalties[0], penalties[1], penalties[2])
    for j in range(len(bias_ids)):
        work[bias_ids[j]] += biases[j]
    if len(penalties) + len(bias_ids) > 0:
        largest = _copy(work, work, n)
        if largest < 0:
            return NOT_FINITE, 0
    if len(mask) == 0:
        return n, largest
    left = 0
    for j in range(n):
        work[left] = work[j]
        ids[left] = j
        left += mask[j] != 0
    if left == 0:
        return NOTHING_LEFT, 0
    return left, _copy(work, work, left)


@compiled(types.int64(_F32S, types.int64, types.int64))
def greedy(work: F32s, n: int, largest: int) -> int:
    """S6: return the first index of the largest of `work[:n]`, whose bits are given."""
    enter()
    return first(work.ctypes.data, _blocks(n), largest)


@helper
def _close(work: F32s, n: int) -> None:
    """Fill up the last block with what is infinitely far from any logit."""
    for j in range(n, _blocks(n) * BLOCK):
        work[j] = _MINUS_INFINITY


@helper
def _keep_first(
    work: F32s,
    distances: I32s,
    parts: I32s,
    buckets: U16s,
    histogram: I32s,
    found: I32s,
    kept: I32s,
    n: int,
    top_k: int,
) -> int:
    """S8: move the first top_k < n logits in sorted order to the front, and list their indices.

    They stay in the order of their ids.
    """
    for j in range(_blocks(n) * BLOCK):
        parts[j] = j < n
    count(buckets, parts, histogram, n)
    last, _ = locate(distances, parts, n, histogram, found, top_k - 1)
    limit = distances[last]
    left = 0
    for j in range(n):
        if distances[j] < limit or (distances[j] == limit and j <= last):
            work[left] = work[j]
            kept[left] = j
            left += 1
    return left


@compiled(
    types.int64(
        _F32S,
        _I32S,
        _F32S,
        _I32S,
        _U16S,
        _I32S,
        _I32S,
        _I32S,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
    )
)
def draw(
    work: F32s,
    distances: I32s,
    weights: F32s,
    parts: I32s,
    buckets: U16s,
    histogram: I32s,
    found: I32s,
    kept: I32s,
    n: int,
    largest: int,
    temperature: int,
    top_k: int,
    top_p_share: int,
    min_p: int,
    random_high: int,
    random_low: int,
) -> int:
    """Draw one of the first n logits (S7 to S12).

    Args:
        work: as `prepare` leaves it; overwritten.
        distances: int32 like work.
        weights: float32 like work.
        parts: int32 like work.
        buckets: uint16 like work.
        histogram: int32[BUCKETS].
        found: int32 like work.
        kept: int32 like work.
        n: number of logits left.
        largest: bits of the largest.
        temperature: bits of a number above 0.
        top_k: number of candidates kept, 0 for all.
        top_p_share: least sum of shares kept; 2^30 for all.
        min_p: bits of the least weight kept, 0 for all.
        random_high: high 32 bits of the draw.
        random_low: low 32 bits of the draw.

    Returns:
        The index drawn.
    """
    enter()
    _close(work, n)
    is_cut = 0 < top_k < n
    if is_cut:
        temper(
            work.ctypes.data,
            distances.ctypes.data,
            buckets.ctypes.data,
            _blocks(n),
            largest,
            temperature,
        )
        n = _keep_first(work, distances, parts, buckets, histogram, found, kept, n, top_k)
        _close(work, n)
    blocks = _blocks(n)
    total = weigh(
        work.ctypes.data,
        distances.ctypes.data,
        buckets.ctypes.data,
        weights.ctypes.data,
        blocks,
        largest,
        temperature,
    )
    shares(weights.ctypes.data, parts.ctypes.data, blocks, total)
    left = count(buckets, parts, histogram, n)
    if top_p_share < min(left, _FULL_SHARE):
        _, left = locate(distances, parts, n, histogram, found, max(top_p_share, 1) - 1)
    if min_p > 0:
        mass = mass_above(
            distances.ctypes.data, weights.ctypes.data, parts.ctypes.data, blocks, min_p
        )
        left = min(left, mass)
    wanted = (random_high * left + ((random_low * left) >> 32)) >> 32
    index, _ = locate(distances, parts, n, histogram, found, wanted)
    return kept[index] if is_cut else index


@compiled(types.int64(_READ_F32S, _F32S, _I32S, _U16S, _F32S))
def log_total(logits: F32s, work: F32s, distances: I32s, buckets: U16s, weights: F32s) -> int:
    """S13: return the bits of the logarithm of the sum of e^(logit - largest)."""
    enter()
    n = len(logits)
    largest = _copy(logits, work, n)
    _close(work, n)
    total = weigh(
        work.ctypes.data,
        distances.ctypes.data,
        buckets.ctypes.data,
        weights.ctypes.data,
        _blocks(n),
        largest,
        _ONE_BITS,
    )
    return log(total)


@compiled(types.int64(_READ_F32S, _I32S, types.int64))
def largest_ids(logits: F32s, ids: I32s, number: int) -> int:
    """S13: list at least one of the first ids by (logit descending, id ascending); count them."""
    size = 0
    least = _MINUS_INFINITY
    for j in range(len(logits)):
        if logits[j] <= least:
            continue
        size = min(size + 1, number)
        at = size - 1
        while at > 0 and logits[j] > logits[ids[at - 1]]:
            ids[at] = ids[at - 1]
            at -= 1
        ids[at] = j
        if size == number:
            least = logits[ids[number - 1]]
    return size
