from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from he_chain.errors import CheckpointError
from he_chain.reports.figures import compare, same_argmax, same_top


def test_bits_are_the_largest_error_in_the_largest_value():
    reference = np.array([8.0, -1.0, 0.5])
    found = compare(reference + np.array([0.0, 2.0**-12, -(2.0**-13)]), reference)
    assert found.bits == 15.0
    assert found.max_error == 2.441e-4
    assert found.mean_error == 1.221e-4
    assert found.reach(15)
    assert not found.reach(15.01)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 40), st.floats(1e-3, 1e3), st.integers(0, 2**32))
def test_bits_do_not_depend_on_the_scale_of_values(bits, scale, seed):
    values = np.random.default_rng(seed).uniform(-1, 1, 50)
    values[7] = 1.0
    off = values.copy()
    off[3] += 2.0**-bits
    assert compare(off * scale, values * scale).bits == pytest.approx(bits, abs=0.02)


def test_equal_values_have_all_bits_and_no_more():
    values = np.arange(5.0)
    assert compare(values, values).bits == 53
    tiny = np.array([1e300, 1e-300])
    assert compare(tiny + np.array([0, 1e-305]), tiny).bits == 53
    assert compare(np.array([1.0]), np.array([0.0])).bits == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_reaches_no_gate(value):
    found = compare(np.array([1.0, value]), np.array([1.0, 2.0]))
    assert found.bits is None
    assert found.max_error is None
    assert not found.reach(-1000)
    assert not same_argmax(np.array([1.0, value]), np.array([1.0, 2.0]))


def test_garbage_of_a_wrong_key_has_negative_bits():
    assert compare(np.array([1e31, -3e30]), np.array([1.0, 2.0])).bits < -90


@pytest.mark.parametrize(("values", "reference"), [(3, 4), (0, 0), (5, 4)])
def test_other_numbers_of_values_are_no_comparison(values, reference):
    with pytest.raises(CheckpointError):
        compare(np.zeros(values), np.zeros(reference))


def test_order_of_the_largest():
    logits = np.array([0.0, 9.0, 5.0, 7.0, 6.0, 8.0, 1.0])
    other = logits.copy()
    other[[2, 4]] = other[[4, 2]]
    assert same_argmax(logits, other)
    assert same_top(logits, logits + 1e-9)
    assert not same_top(logits, other)
    other[1] = -1
    assert not same_argmax(logits, other)
