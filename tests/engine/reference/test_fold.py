from __future__ import annotations

import numpy as np
import pytest

from engine.reference.fold import fold16, larger
from tests.engine.reference import scalar
from tests.engine.reference.support import SplitMix64, f32, same_bits


@pytest.mark.parametrize("n", [0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 64, 100, 257])
def test_fold16_equals_the_scalar_program(n):
    v = SplitMix64(n).wide_floats((5, n), -20, 20)
    expected = np.array([scalar.fold16(row.tolist()) for row in v], dtype=np.float32)
    assert same_bits(fold16(v), expected)


def test_fold16_is_the_written_order_and_no_other():
    v = np.zeros(32, dtype=np.float32)
    # 2^24 + 1 is no float32: in partial sum 0 the ones are lost, in partial sum 1 they meet first.
    v[0], v[16], v[1], v[17] = 2**24, 1, 1, 1
    assert fold16(v) == 2**24 + 2
    assert np.cumsum(v)[-1] == 2**24


def test_fold16_starts_at_positive_zero():
    assert same_bits(fold16(f32(0x80000000)[np.newaxis]), f32(0))
    assert same_bits(fold16(np.zeros((1, 0), dtype=np.float32)), f32(0))


def test_fold16_adds_subnormals():
    assert same_bits(fold16(f32(*[1] * 16)[np.newaxis]), f32(16))


def test_larger_keeps_the_first_of_equals_and_passes_over_nan():
    a = f32(0x00000000, 0x80000000, 0x7FC00000, 0x3F800000)
    b = f32(0x80000000, 0x00000000, 0x3F800000, 0x7FC00000)
    assert same_bits(larger(a, b), a)
