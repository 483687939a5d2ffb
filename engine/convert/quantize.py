"""Quantisers for safetensors sources: Q8_0 and Q4_1, by a search over scale and minimum.

A group of 32 weights x becomes codes q with a binary16 scale d (and in Q4_1 a minimum m), so that
x ~ q*d + m. The search minimises the weighted squared error `sum w * (x - (q*d + m))^2` with
`w = |x| + sqrt(mean x^2)`: large weights meet large activations more often than small ones do,
and a constant part keeps the small ones honest. Per group:

1. Begin with the plain quantiser: d and m from the extremes. It is one of the candidates, so the
   result is never worse than it.
2. For some ranges narrower than the extremes (outermost weights clipped), assign codes, solve the
   weighted least squares for d and m with these codes, round both to binary16, assign codes again,
   and measure the error of exactly what would be stored; twice.
3. The candidate with the least error is stored; of equal ones the first.

Q4_1 rather than Q4_0 is what `--quant q4` means: on transformer weights kept in binary32 the error
of Q4_1 found this way is 14 % below that of Q4_0 found the same way, for 5.0 instead of 4.5 bits
per weight. Embedding and head stay at Q8_0: every token reads one row of the embedding with nothing
after it to average the error away, and the head decides between neighbouring logits.

Determinism: only + - * / sqrt, rint, comparisons and conversions on arrays, each output element
from its own inputs. The 32 weights of a group lie on the first axis, and a sum over them is a
Python loop in ascending order; no reduction of NumPy, whose order depends on the CPU, has a part.
Letters: G groups.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConversionError

GROUP = 32

_TILE_GROUPS = 8192
"""Groups worked on at once: the arrays of a tile stay in the CPU's second-level cache."""

_Q4_RANGES = (12.5, 13.5, 14.5, 15.0)
"""Codes that the distance of the extremes is spread over before the first fit; 15 clips nothing."""

_Q8_RANGES = (127.0,)

_REFITS = 2

_LARGEST_F16 = np.float32(65504.0)

_TINY = np.float32(2.0**-100)
"""A denominator that is not above this gives no usable quotient."""

F32 = NDArray[np.float32]


class _Candidate(NamedTuple):
    """Scales and minima of a tile as they would be stored, their codes and errors."""

    d: F32
    m: F32
    codes: F32
    error: F32


def quantize(kind: str, weights: F32) -> dict[str, NDArray[np.generic]]:
    """Quantise the rows of a matrix.

    Args:
        kind: `Q8_0` or `Q4_1`.
        weights: float32[N, K], finite, K a multiple of 32.

    Returns:
        The fields of `engine.vqf.panels.pack`.

    Raises:
        ConversionError: A weight is too large for binary16 scales.
    """
    rows, columns = weights.shape
    groups = weights.reshape(-1, GROUP)
    num_groups = groups.shape[0]
    signed = kind == "Q8_0"
    codes = np.empty((num_groups, GROUP), np.int8 if signed else np.uint8)
    d = np.empty(num_groups, np.float16)
    m = np.empty(num_groups, np.float16)
    for start in range(0, num_groups, _TILE_GROUPS):
        tile = slice(start, min(start + _TILE_GROUPS, num_groups))
        x = np.ascontiguousarray(groups[tile].T)
        best = _search_q8(x) if signed else _search_q4(x)
        codes[tile] = best.codes.T
        d[tile] = best.d
        m[tile] = best.m
    fields: dict[str, NDArray[np.generic]] = {
        "q": codes.reshape(rows, columns),
        "d": d.reshape(rows, -1),
    }
    if not signed:
        fields["m"] = m.reshape(rows, -1)
    return fields


def _search_q4(x: F32) -> _Candidate:
    """Quantise a tile float32[32, G] to codes 0..15 with a scale and a minimum."""
    low, high = _extremes(x)
    _check_range(low, high)
    span = high - low
    weights = _importance(x)
    best = _evaluate(x, weights, span / np.float32(15.0), low, 0.0, 15.0)
    for codes_in_range in _Q4_RANGES:
        inverse = _divide(np.float32(codes_in_range), span)
        codes = _clipped((x - low) * inverse, 0.0, 15.0)
        for _ in range(_REFITS):
            d, m = _fit_scale_and_minimum(x, weights, codes, span / np.float32(15.0), low)
            candidate = _evaluate(x, weights, d, m, 0.0, 15.0)
            codes = candidate.codes
            best = _better(best, candidate)
    return best


def _search_q8(x: F32) -> _Candidate:
    """Quantise a tile float32[32, G] to codes -127..127 with a scale."""
    low, high = _extremes(x)
    _check_range(low, high)
    amax: F32 = np.where(-low > high, -low, high)
    zero = np.zeros_like(amax)
    weights = _importance(x)
    best = _evaluate(x, weights, amax / np.float32(127.0), zero, -127.0, 127.0)
    codes = best.codes
    for _ in range(_REFITS):
        d = _fit_scale(x, weights, codes, best.d)
        candidate = _evaluate(x, weights, d, zero, -127.0, 127.0)
        codes = candidate.codes
        best = _better(best, candidate)
    return best


def _extremes(x: F32) -> tuple[F32, F32]:
    """Least and largest weight of each group; a zero is +0.0."""
    low = high = x[0]
    for row in x[1:]:
        low = np.where(row < low, row, low)
        high = np.where(row > high, row, high)
    return low + np.float32(0.0), high + np.float32(0.0)


def _check_range(low: F32, high: F32) -> None:
    if (low < -_LARGEST_F16).any() or (high > _LARGEST_F16).any():
        raise ConversionError("a weight is above 65504 in magnitude, too large to be quantised")


def _importance(x: F32) -> F32:
    """What the squared error of each weight counts: float32[32, G]."""
    total = x[0] * x[0]
    for row in x[1:]:
        total = total + row * row
    rms = np.sqrt(total / np.float32(GROUP))
    importance: F32 = np.abs(x) + rms
    return importance


def _evaluate(x: F32, weights: F32, d: F32, m: F32, least: float, most: float) -> _Candidate:
    """Round d and m to binary16, assign codes, and measure the error of what would be stored."""
    d = d.astype(np.float16).astype(np.float32)
    m = m.astype(np.float16).astype(np.float32)
    inverse = _divide(np.float32(1.0), d)
    codes = _clipped((x - m) * inverse, least, most)
    error = np.zeros_like(d)
    for values, weight, code in zip(x, weights, codes, strict=True):
        difference = values - (code * d + m)
        error = error + weight * (difference * difference)
    return _Candidate(d, m, codes, error)


def _fit_scale_and_minimum(
    x: F32, weights: F32, codes: F32, plain_d: F32, plain_m: F32
) -> tuple[F32, F32]:
    """Solve the weighted least squares for given codes; the plain values where it has no answer."""
    sum_w = sum_q = sum_qq = sum_x = sum_qx = np.zeros_like(plain_d)
    for values, weight, code in zip(x, weights, codes, strict=True):
        weighted = weight * code
        sum_w = sum_w + weight
        sum_q = sum_q + weighted
        sum_qq = sum_qq + weighted * code
        sum_x = sum_x + weight * values
        sum_qx = sum_qx + weighted * values
    determinant = sum_w * sum_qq - sum_q * sum_q
    d = _divide(sum_w * sum_qx - sum_x * sum_q, determinant)
    m = _divide(sum_qq * sum_x - sum_q * sum_qx, determinant)
    usable = (d > 0) & (d <= _LARGEST_F16) & (m >= -_LARGEST_F16) & (m <= _LARGEST_F16)
    return np.where(usable, d, plain_d), np.where(usable, m, plain_m)


def _fit_scale(x: F32, weights: F32, codes: F32, plain_d: F32) -> F32:
    """Solve the weighted least squares for a scale alone."""
    sum_qq = sum_qx = np.zeros_like(plain_d)
    for values, weight, code in zip(x, weights, codes, strict=True):
        weighted = weight * code
        sum_qq = sum_qq + weighted * code
        sum_qx = sum_qx + weighted * values
    d = _divide(sum_qx, sum_qq)
    return np.where((d > 0) & (d <= _LARGEST_F16), d, plain_d)


def _better(best: _Candidate, candidate: _Candidate) -> _Candidate:
    """Of each group keep the candidate with the least error, the earlier one of equals."""
    won = candidate.error < best.error
    return _Candidate(*(np.where(won, new, old) for new, old in zip(candidate, best, strict=True)))


def _divide(numerator: F32 | np.float32, denominator: F32) -> F32:
    """Return numerator / denominator, and 0 where the quotient is not a usable number."""
    usable = denominator > _TINY
    quotient = numerator / np.where(usable, denominator, np.float32(1.0))
    return np.where(usable, quotient, np.float32(0.0))


def _clipped(values: F32, least: float, most: float) -> F32:
    """Round to integers, ties to even, inside [least, most]; a zero is +0.0."""
    rounded = np.rint(values)
    rounded = np.where(rounded < np.float32(least), np.float32(least), rounded)
    rounded = np.where(rounded > np.float32(most), np.float32(most), rounded)
    return rounded + np.float32(0.0)
