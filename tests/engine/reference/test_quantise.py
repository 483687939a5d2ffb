from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from engine.errors import NonFiniteError
from engine.reference.quantise import quantise
from tests.engine.reference import scalar
from tests.engine.reference.support import SplitMix64, f32, same_bits

SMALLEST_KEPT = 0x0D800000  # 2^-100


def block(*bits):
    x = np.zeros((1, 32), dtype=np.float32)
    x[0, : len(bits)] = f32(*bits)
    return x


@pytest.mark.parametrize("exponents", [(-1, 1), (-10, 10), (-100, -90), (-99, 127), (120, 127)])
def test_equals_the_scalar_program(exponents):
    x = SplitMix64(exponents[1] & 0xFF).wide_floats((4, 96), *exponents)
    found = quantise(x)
    for row, xq, a in zip(x, found.xq, found.a, strict=True):
        expected_xq, expected_a = scalar.quantise(row.tolist())
        assert xq.tolist() == expected_xq
        assert same_bits(a, np.array(expected_a, dtype=np.float32))


def test_a_block_below_2_to_the_minus_100_is_zero():
    found = quantise(block(SMALLEST_KEPT - 1, 0x80000000 | (SMALLEST_KEPT - 1)))
    assert not found.xq.any()
    assert same_bits(found.a, f32(0)[np.newaxis])


def test_a_block_at_2_to_the_minus_100_is_kept():
    found = quantise(block(SMALLEST_KEPT, 0x80000000 | SMALLEST_KEPT))
    assert found.xq[0, :3].tolist() == [127, -127, 0]
    assert found.a[0, 0] > 0


@pytest.mark.parametrize("bits", [0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000])
def test_zeros_and_subnormals_become_zero_with_scale_positive_zero(bits):
    found = quantise(np.full((1, 32), f32(bits)[0]))
    assert not found.xq.any()
    assert same_bits(found.a, f32(0)[np.newaxis])


def test_only_the_tiny_block_of_a_row_is_dropped():
    x = np.concatenate((block(1), block(0x3F800000), block(SMALLEST_KEPT - 1)), axis=1)
    found = quantise(x)
    assert (found.a[0] != 0).tolist() == [False, True, False]
    assert found.xq[0, 32] == 127


def test_the_largest_floats_stay_in_range():
    found = quantise(block(0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000))
    assert found.xq[0, :3].tolist() == [127, -127, 0]
    assert np.isfinite(found.a).all()


def test_ties_go_to_even():
    x = block(0x42FE0000)  # 127, so that a = r = 1
    x[0, 1:9] = [0.5, 1.5, 2.5, 3.5, -0.5, -1.5, -2.5, 126.5]
    assert quantise(x).xq[0, :9].tolist() == [127, 0, 2, 2, 4, 0, -2, -2, 126]


@pytest.mark.parametrize("bits", [0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001])
@pytest.mark.parametrize("place", [0, 31, 32, 63])
def test_a_value_that_is_not_finite_ends_the_request(bits, place):
    x = np.ones((2, 64), dtype=np.float32)
    x[1, place] = f32(bits)[0]
    with pytest.raises(NonFiniteError):
        quantise(x)


def test_a_ragged_row_is_refused():
    with pytest.raises(ValueError, match="blocks of 32"):
        quantise(np.ones((1, 33), dtype=np.float32))


@settings(deadline=None, max_examples=200)
@given(
    arrays(np.float32, (1, 32), elements=st.floats(width=32, allow_nan=False, allow_infinity=False))
)
def test_error_is_half_a_step_and_nothing_reaches_minus_128(x):
    found = quantise(x)
    assert found.xq.min() >= -127
    wide = x.astype(np.float64)
    step = float(found.a[0, 0])
    if step == 0:
        assert np.abs(wide).max() < 2.0**-100
    else:
        # a and r carry one rounding each, x * r another: 127 * 3 * 2^-24 of a step on top.
        assert np.abs(wide - found.xq * step).max() <= step * (0.5 + 127 * 4 * 2.0**-24)
