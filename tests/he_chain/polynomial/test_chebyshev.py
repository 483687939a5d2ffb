from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from he_chain.errors import PrecisionError, RangeError
from he_chain.polynomial.chebyshev import Series, fit, fit_reciprocal, levels_of, search


def test_levels_of_degrees():
    assert [levels_of(n) for n in (1, 2, 3, 4, 7, 8, 15, 16, 31, 63)] == [
        1, 2, 2, 3, 3, 4, 4, 5, 5, 6,
    ]  # fmt: skip


@pytest.mark.parametrize("degree", [3, 7, 15, 31])
def test_the_error_of_a_fit_is_the_one_measured_elsewhere(degree):
    series = fit(np.exp, -3, 2, degree)
    v = np.linspace(-3, 2, 1001)
    assert np.abs(series(v) - np.exp(v)).max() <= series.fit_error * 1.001 + 1e-14
    assert series.fit_error < 2.0 ** (-1.1 * degree + 3) + 1e-13


def test_a_relative_error_is_of_the_value():
    series = fit(lambda v: 1 / np.sqrt(v), 0.1, 4, 15, relative=True)
    v = np.linspace(0.1, 4, 1001)
    assert np.abs(series(v) * np.sqrt(v) - 1).max() <= series.fit_error * 1.001


@settings(deadline=None, max_examples=30)
@given(st.floats(0.01, 2), st.floats(1.5, 200), st.sampled_from([3, 7, 15, 31]))
def test_the_reciprocal_is_the_best_there_is(lo, ratio, degree):
    """Its error has degree + 2 extremes of one size and alternating signs."""
    series = fit_reciprocal(lo, lo * ratio, degree)
    order = degree + 1
    u = np.cos(np.pi * np.arange(order + 1) / order)
    v = (u * (series.hi - series.lo) + series.hi + series.lo) / 2
    error = 1 - v * series.of_unit(u)
    size = np.abs(error).max()
    assert size == pytest.approx(series.fit_error, rel=1e-3, abs=1e-9)
    if size > 1e-7:
        assert np.abs(np.abs(error) / size - 1).max() < 1e-3
        assert (np.sign(error[1:]) == -np.sign(error[:-1])).all()


def test_zeros_are_left_out():
    silu = fit(lambda v: v / (1 + np.exp(-v)), -8, 8, 31)
    assert silu.degree == 30
    assert all(silu.coefficients[k] == 0.0 for k in range(3, 30, 2))
    assert fit(np.zeros_like, -1, 1, 7).coefficients == (0.0,)


def test_outside_the_range_is_refused():
    series = fit(np.exp, -1, 1, 7)
    with pytest.raises(RangeError, match=r"not in \[-1, 1\]"):
        series(np.array([0.0, 1.01]))


@pytest.mark.parametrize(("lo", "hi"), [(1, 1), (2, 1), (0, np.inf), (np.nan, 1)])
def test_ranges_that_are_none(lo, hi):
    with pytest.raises(RangeError):
        fit(np.exp, lo, hi, 3)
    with pytest.raises(RangeError):
        fit_reciprocal(lo, hi, 3)


def test_a_function_that_is_not_finite_is_refused():
    with pytest.raises(RangeError, match="not finite"):
        fit(np.log, -1, 1, 7)
    with pytest.raises(RangeError, match="positive"):
        fit_reciprocal(0, 1, 7)


def test_the_search_stops_at_the_first_that_will_do():
    found = search(lambda n: fit(np.exp, -2, 2, n), 1e-5, (1, 3, 7, 15, 31), "exp")
    assert found.degree == 15
    with pytest.raises(PrecisionError, match=r"exp on .*degree 7 has an error of .*above 1.00e-08"):
        search(lambda n: fit(np.exp, -2, 2, n), 1e-8, (3, 7), "exp")


def test_a_factor_scales_value_and_error():
    series = fit(np.exp, -2, 2, 5)
    assert series.times(-3).fit_error == pytest.approx(3 * series.fit_error)
    assert np.allclose(series.times(-3).of_unit(np.ones(1)), -3 * series.of_unit(np.ones(1)))
    relative = Series(1, 2, (1.0, 0.5), 1e-3, relative=True)
    assert relative.times(5).fit_error == 1e-3
