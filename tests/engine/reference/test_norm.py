from __future__ import annotations

import numpy as np
import pytest

from engine.reference.arrays import quiet
from engine.reference.norm import rmsnorm
from tests.engine.reference import scalar
from tests.engine.reference.support import SplitMix64, same_bits

EPS_BITS = 0x3727C5AC  # 1e-5


@pytest.mark.parametrize("n", [16, 32, 96, 576])
def test_equals_the_scalar_program(n):
    source = SplitMix64(n)
    x = source.wide_floats((3, 2, n), -12, 6)
    weight = source.floats((n,), 4)
    found = rmsnorm(x, weight, EPS_BITS)
    for at in np.ndindex(3, 2):
        expected = scalar.rmsnorm(x[at].tolist(), weight.tolist(), scalar.from_bits(EPS_BITS))
        assert same_bits(found[at], np.array(expected, dtype=np.float32))


def test_is_close_to_the_real_function():
    source = SplitMix64(80)
    x, weight = source.floats((20, 576), 8), source.floats((576,), 2)
    wide = x.astype(np.float64)
    exact = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-5) * weight
    np.testing.assert_allclose(rmsnorm(x, weight, EPS_BITS), exact, rtol=1e-6)


def test_zeros_stay_zeros():
    x = np.zeros((1, 16), dtype=np.float32)
    assert same_bits(rmsnorm(x, np.ones(16, dtype=np.float32), EPS_BITS), x)


def test_squares_beyond_binary32_give_zeros():
    x = np.full((1, 16), 1e30, dtype=np.float32)
    with quiet():
        found = rmsnorm(x, np.ones(16, dtype=np.float32), EPS_BITS)
    assert same_bits(found, np.zeros_like(x))


def test_other_lengths_are_refused():
    with pytest.raises(ValueError, match="multiples of 16"):
        rmsnorm(np.ones((1, 24), dtype=np.float32), np.ones(24, dtype=np.float32), EPS_BITS)
