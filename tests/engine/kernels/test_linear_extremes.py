"""Integer dot products at the ends of every range, against Python's integers.

NUMERICS N3 gives activations -127..127; the kernels are exact for -128 as well, with the largest
and the smallest codes of every kind and every sign of sum.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.reference.weights import Weight
from engine.vqf.panels import BLOCK_INPUTS
from tests.engine.kernels.pieces import blocks_of, linear
from tests.engine.reference.support import INTEGER_KINDS, SplitMix64

Array = NDArray[Any]
LOWEST = {"Q8_0": -128}
HIGHEST = {"Q4": 15, "Q5": 31, "Q6": 63, "Q8": 127}
OFFSETS = {"Q4_0": 8, "Q5_0": 16, "Q6_K": 32}
SMALL, LARGE = 2.0**-14, 1.0


def fields_of(kind: str, codes: Array) -> dict[str, Array]:
    """Return fields of scales 1 (or what the kind has in its place) and minima 2^-14."""
    rows, columns = codes.shape
    blocks = (rows, columns // BLOCK_INPUTS[kind])
    fields = {
        "q": codes.astype(np.int8 if kind == "Q8_0" else np.uint8),
        "d": np.full(blocks, LARGE, np.float16),
    }
    if kind == "Q6_K":
        fields["sc"] = np.ones((rows, columns // 16), np.int8)
    elif kind.endswith("_K"):
        fields["dmin"] = np.full(blocks, SMALL, np.float16)
        fields["sc"] = np.ones((rows, columns // 32), np.uint8)
        fields["mn"] = np.ones((rows, columns // 32), np.uint8)
    elif kind.endswith("_1"):
        fields["m"] = np.full(blocks, SMALL, np.float16)
    return fields


def exact(kind: str, codes: Array, xq: Array) -> Array:
    """Return float32[rows, outputs], computed group by group with Python integers.

    With a and s of 1 every product is the integer itself.
    """
    group = 16 if kind == "Q6_K" else 32
    m = Fraction(0)
    if kind.endswith("_1"):
        m = Fraction(SMALL)
    elif kind in {"Q4_K", "Q5_K"}:
        m = -Fraction(SMALL)
    offset = OFFSETS.get(kind, 0)
    results = np.zeros((len(xq), len(codes)), np.float32)
    q_rows = [[int(code) - offset for code in row] for row in codes]
    for i, x_row in enumerate(xq.tolist()):
        for j, q_row in enumerate(q_rows):
            acc = Fraction(0)
            for start in range(0, len(x_row), group):
                x, q = x_row[start : start + group], q_row[start : start + group]
                acc = rounded(acc + sum(a * b for a, b in zip(x, q, strict=True)))
                if m:
                    acc = rounded(acc + sum(x) * m)
            results[i, j] = float(acc)
    return results


def rounded(value: Fraction) -> Fraction:
    """Return the nearest binary32 number, ties to even; exact where it fits, as it mostly does."""
    if value == 0:
        return value
    exponent = 0
    magnitude = abs(value)
    while magnitude >= 1 << 24:
        magnitude, exponent = magnitude / 2, exponent + 1
    while magnitude < 1 << 23:
        magnitude, exponent = magnitude * 2, exponent - 1
    return Fraction(round(magnitude)) * Fraction(2) ** exponent * (1 if value > 0 else -1)


def patterns(low: int, high: int, columns: int) -> list[list[int]]:
    """Return rows that reach the largest sums of every lane, pair and group."""
    rest = columns - 32
    return [
        [low] * columns,
        [high] * columns,
        [low, high] * (columns // 2),
        [high, low] * (columns // 2),
        [low, low, high, high] * (columns // 4),
        ([low] * 16 + [high] * 16) * (columns // 32),
        [high] * 4 + [low] * 28 + [high] * rest,
        [low] * 31 + [high] + [low] * rest,
    ]


def compare(kind: str, codes: Array, xq: Array) -> None:
    """Compare a linear layer over these integers, all rows at once and row by row."""
    weight = Weight(kind, fields_of(kind, codes))
    blocks = blocks_of(xq, np.ones((len(xq), xq.shape[1] // 32), np.float32))
    expected = exact(kind, codes, xq)
    assert np.array_equal(linear(weight, blocks), expected)
    for row in range(len(xq)):
        assert np.array_equal(linear(weight, blocks[row : row + 1]), expected[row : row + 1])


def code_range(kind: str) -> tuple[int, int]:
    """Return the least and the largest code."""
    return LOWEST.get(kind, 0), HIGHEST[kind[:2]]


@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_extreme_codes_and_activations(kind: str) -> None:
    columns = max(64, BLOCK_INPUTS[kind])
    codes = np.array(patterns(*code_range(kind), columns), np.int16)
    xq = np.array([*patterns(-128, 127, columns), *patterns(-127, 0, columns)], np.int8)
    compare(kind, codes, xq)


@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_each_code_of_each_input(kind: str) -> None:
    # One activation of 1 at a time reads back one column of codes: every place of a panel's 16
    # rows, every code.
    columns = max(32, BLOCK_INPUTS[kind])
    low, high = code_range(kind)
    codes = SplitMix64(columns).integers(low, high + 1, (32, columns)).astype(np.int16)
    for first in range(0, columns, 32):
        xq = np.zeros((32, columns), np.int8)
        xq[np.arange(32), first + np.arange(32)] = 1
        weight = Weight(kind, fields_of(kind, codes))
        blocks = blocks_of(xq, np.ones((32, columns // 32), np.float32))
        found = linear(weight, blocks)
        expected = codes.T[first : first + 32].astype(np.int64) - OFFSETS.get(kind, 0)
        minimum = SMALL if kind.endswith("_1") else -SMALL if kind in {"Q4_K", "Q5_K"} else 0.0
        assert np.array_equal(found, (expected + minimum).astype(np.float32))


@settings(max_examples=15)
@given(data=st.data(), seed=st.integers(0, 2**32))
@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_any_codes_and_activations(kind: str, data: st.DataObject, seed: int) -> None:
    columns = BLOCK_INPUTS[kind] * data.draw(st.integers(1, 2), "blocks")
    low, high = code_range(kind)
    source = SplitMix64(seed)
    codes = source.integers(low, high + 1, (data.draw(st.integers(1, 4)), columns))
    xq = source.integers(-128, 128, (data.draw(st.integers(1, 6)), columns)).astype(np.int8)
    compare(kind, codes.astype(np.int16), xq)
