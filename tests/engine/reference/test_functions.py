from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from engine.reference.arrays import quiet
from engine.reference.functions import exp, silu_mul
from tests.engine.reference import scalar
from tests.engine.reference.support import SplitMix64, f32, same_bits, to_hex

SMALLEST_NORMAL = 2.0**-126
BOUND = Decimal("1.06e-7")


def sample():
    source = SplitMix64(6)
    return np.concatenate(
        (
            np.linspace(-87, 88, 12001, dtype=np.float32),
            # Around multiples of ln 2 / 2, where rint changes and |r| is largest.
            (np.arange(-251, 254) * np.log(2) / 2).astype(np.float32),
            source.wide_floats((2000,), -40, 6),
            # Where the whole range of binary32 has its worst case.
            np.arange(-400, 400, dtype=np.int32).__add__(0x42A18069).view(np.float32),
            f32(0xC2AE0000, 0x42B00000, 0x00000000, 0x80000000, 1, 0x80000001),
        )
    )


def test_exp_is_within_its_bound():
    x = sample()
    y = exp(x)
    worst = Decimal(0)
    worst_ulps = Decimal(0)
    with localcontext() as context:
        context.prec = 40
        for a, b, ulp in zip(x.tolist(), y.tolist(), np.spacing(y).tolist(), strict=True):
            exact = Decimal(a).exp()
            worst = max(worst, abs(Decimal(b) - exact) / exact)
            worst_ulps = max(worst_ulps, abs(Decimal(b) - exact) / Decimal(ulp))
    print(f"exp: largest relative error {worst:.4e}, {worst_ulps:.3f} ulp")
    assert Decimal("1.05e-7") < worst <= BOUND
    assert worst_ulps <= Decimal("1.26")


def test_exp_is_normal_and_exact_at_zero():
    assert exp(sample()).min() >= SMALLEST_NORMAL
    assert same_bits(exp(f32(0x00000000, 0x80000000)), f32(0x3F800000, 0x3F800000))


def test_exp_equals_the_scalar_program():
    x = sample()[::7]
    expected = np.array([scalar.exp(value) for value in x.tolist()], dtype=np.float32)
    assert same_bits(exp(x), expected)


def test_exp_outside_its_domain():
    top = exp(f32(0x42B00000))[0]
    with quiet():
        found = exp(f32(0xC2AE0001, 0xFF7FFFFF, 0xFF800000, 0x42B00001, 0x7F7FFFFF, 0x7F800000))
        assert np.isnan(exp(f32(0x7FC00000, 0xFFC00000))).all()
    assert to_hex(found[:3]) == "00000000" * 3
    assert same_bits(found[3:], np.full(3, top))


def test_silu_mul_equals_the_scalar_program():
    source = SplitMix64(7)
    g = source.wide_floats((2000,), -30, 7)
    u = source.wide_floats((2000,), -10, 10)
    expected = [scalar.silu_mul(*pair) for pair in zip(g.tolist(), u.tolist(), strict=True)]
    assert same_bits(silu_mul(g, u), np.array(expected, dtype=np.float32))


def test_silu_mul_is_close_to_the_real_function():
    g = SplitMix64(8).floats((5000,), 32)
    with localcontext() as context:
        context.prec = 40
        for x, y in zip(g.tolist(), silu_mul(g, np.ones_like(g)).tolist(), strict=True):
            exact = Decimal(x) / (1 + (-Decimal(x)).exp())
            assert abs(Decimal(y) - exact) <= abs(exact) * Decimal("3.1e-7")


@pytest.mark.parametrize("g", [-1e30, -200.0, -88.5])
def test_silu_mul_of_large_negative_numbers_divides_by_the_largest_exp(g):
    x = np.array([g], dtype=np.float32)
    divisor = np.float32(1) + exp(f32(0x42B00000))
    assert same_bits(silu_mul(x, f32(0x3F800000)), x / divisor)
