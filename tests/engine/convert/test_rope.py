"""Inverse frequencies: correctly rounded, scaled as published, refused when senseless."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.convert.rope import Llama3Scaling, inverse_frequencies
from engine.errors import ConversionError

LLAMA31 = Llama3Scaling(Decimal(8), Decimal(1), Decimal(4), 8192)


def floats(patterns: tuple[int, ...]) -> list[float]:
    return [struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in patterns]


def test_powers_of_ten_are_the_nearest_binary64():
    assert floats(inverse_frequencies(Decimal(10_000), 8)) == [1.0, 0.1, 0.01, 0.001]


@given(st.integers(2, 10**9), st.integers(1, 128))
def test_each_is_within_half_a_unit_of_the_power(theta: int, half: int):
    for i, value in enumerate(floats(inverse_frequencies(Decimal(theta), 2 * half))):
        # value = theta^(-i/half) up to rounding: compare the half-th powers exactly
        above, below = math.nextafter(value, 2), math.nextafter(value, 0)
        high = (Fraction(value) + Fraction(above)) / 2
        low = (Fraction(value) + Fraction(below)) / 2
        exact = Fraction(1, theta**i)
        assert low**half <= exact <= high**half


def test_linear_scaling_divides():
    plain = floats(inverse_frequencies(Decimal(10_000), 8))
    assert floats(inverse_frequencies(Decimal(10_000), 8, linear_factor=Decimal(4))) == [
        value / 4 for value in plain
    ]


def test_divisors_divide_one_by_one():
    divisors = [Decimal(1), Decimal(2), Decimal(4), Decimal(8)]
    scaled = floats(inverse_frequencies(Decimal(10_000), 8, divisors=divisors))
    assert scaled == [1.0, 0.05, 0.0025, 0.000125]


def test_llama3_scaling_as_published():
    theta, dims = 500_000.0, 128
    got = floats(inverse_frequencies(Decimal(500_000), dims, llama3=LLAMA31))
    kept = slowed = blended = 0
    for i, value in enumerate(got):
        frequency = theta ** (-2 * i / dims)
        wavelength = 2 * math.pi / frequency
        if wavelength < 8192 / 4:
            expected, kept = frequency, kept + 1
        elif wavelength > 8192 / 1:
            expected, slowed = frequency / 8, slowed + 1
        else:
            smooth = (8192 / wavelength - 1) / (4 - 1)
            expected = (1 - smooth) * frequency / 8 + smooth * frequency
            blended += 1
        assert value == pytest.approx(expected, rel=1e-14)
    assert kept
    assert slowed
    assert blended


@pytest.mark.parametrize(
    "arguments",
    [
        {"theta": Decimal(0)},
        {"theta": Decimal("0.5")},
        {"theta": Decimal("1e31")},
        {"linear_factor": Decimal(0)},
        {"linear_factor": Decimal(-1)},
        {"linear_factor": Decimal("0.5")},
        {"divisors": [Decimal(1)] * 3},
        {"divisors": [Decimal(1)] * 3 + [Decimal(0)]},
        {"divisors": [Decimal("0.5")] + [Decimal(1)] * 3},
        {"llama3": LLAMA31._replace(factor=Decimal(0))},
        {"llama3": LLAMA31._replace(low_freq_factor=Decimal(4))},
        {"llama3": LLAMA31._replace(original_context_tokens=0)},
    ],
)
def test_senseless_constants_are_refused(arguments: dict):
    with pytest.raises(ConversionError):
        inverse_frequencies(**{"theta": Decimal(10_000), "rotated_dims": 8, **arguments})
