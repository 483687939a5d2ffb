from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from he_chain.backends.mock import MockEvaluator, MockHolder
from he_chain.backends.seal import SealEvaluator, SealHolder
from he_chain.errors import LevelError, RangeError
from he_chain.exact import silu
from he_chain.parameters import Parameters
from he_chain.polynomial.chebyshev import Series, fit, fit_reciprocal
from he_chain.polynomial.poly import Powers, evaluate, multiplied, weighted

if TYPE_CHECKING:
    from he_chain.backends.base import Ciphertext, Values

DEEP = Parameters(ring_degree=1024, num_levels=7, scale_bits=40, first_bits=60, special_bits=60)
SHALLOW = Parameters(ring_degree=8192, num_levels=5, scale_bits=26, first_bits=43, special_bits=43)
"""What 128 bits of security allow N = 8192 for a degree of 31."""


class Side:
    """Both roles."""

    def __init__(self, holder, evaluator):
        self.holder, self.evaluator = holder, evaluator

    def give(self, values: Values, level: int | None = None) -> Ciphertext:
        return self.evaluator.load(self.holder.encrypt(values, level))

    def take(self, x: Ciphertext) -> Values:
        return self.holder.decrypt(self.evaluator.dump(x))

    def unit(self) -> Values:
        return np.random.default_rng(4).uniform(-1, 1, self.holder.parameters.num_slots)


@pytest.fixture(scope="module")
def mock(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mock")
    holder = MockHolder.create(DEEP)
    holder.write_evaluation_keys(folder, ())
    return Side(holder, MockEvaluator.open(folder))


@pytest.fixture(scope="module")
def seal(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seal")
    holder = SealHolder.create(SHALLOW)
    holder.write_evaluation_keys(folder, ())
    return Side(holder, SealEvaluator.open(folder))


@pytest.mark.parametrize("degree", [3, 4, 5, 7, 8, 12, 15, 16, 21, 31, 63])
def test_levels_scale_and_error_of_every_degree(mock, degree):
    series = fit(np.exp, -1, 1.5, degree) if degree < 16 else fit_reciprocal(1, 40, degree)
    u = mock.unit()
    x = mock.give(u)
    y = evaluate(mock.evaluator, series, x)
    assert series.degree == degree
    assert x.level - y.level == series.levels == int(np.ceil(np.log2(degree + 1)))
    assert y.scale == 2.0**40
    found = mock.take(y)
    assert np.abs(found - series.of_unit(u)).max() < 2.0**-22
    v = (u * (series.hi - series.lo) + series.hi + series.lo) / 2
    truth = np.exp(v) if degree < 16 else 1 / v
    assert np.abs(found - truth).max() < series.fit_error * truth.max() + 2.0**-22


@pytest.mark.parametrize("degree", [3, 7, 15, 31])
def test_on_real_ciphertexts(seal, degree):
    series = fit(silu, -8, 8, degree).times(1 / 8)
    u = seal.unit()
    y = evaluate(seal.evaluator, series, seal.give(u))
    assert y.level == 5 - series.levels
    assert y.scale == 2.0**26
    # the noise of the scheme, which a fit's error is no part of
    assert np.abs(seal.take(y) - series.of_unit(u)).max() < 2.0**-9


def test_a_polynomial_with_huge_monomials(mock):
    """SiLU of degree 31 has monomials of 7e5, which cancel; TenSEAL's polyval is off by 0.7."""
    series = fit(silu, -8, 8, 31)
    monomials = np.polynomial.chebyshev.cheb2poly(np.array(series.coefficients))
    assert np.abs(monomials).max() > 1e5
    u = mock.unit()
    found = mock.take(evaluate(mock.evaluator, series, mock.give(u)))
    assert np.abs(found - silu(8 * u)).max() < series.fit_error + 2.0**-20


def test_the_level_of_the_argument_is_free(mock):
    series = fit(np.exp, -1, 1, 7)
    y = evaluate(mock.evaluator, series, mock.give(mock.unit(), 3))
    assert y.level == 0
    message = r"degree 7 takes 3 levels, its argument has 2"
    with pytest.raises(LevelError, match=message):
        evaluate(mock.evaluator, series, mock.give(mock.unit(), 2))


def test_any_scale_may_be_asked_for(mock):
    u = mock.unit()
    wanted = 2.0**40 * 1.37
    series = fit(np.exp, -1, 1, 15)
    y = evaluate(mock.evaluator, series, mock.give(u), scale=wanted)
    assert y.scale == wanted
    assert np.abs(mock.take(y) - series.of_unit(u)).max() < 2.0**-22


@pytest.mark.parametrize(
    "coefficients",
    [
        (0.0, 0.0, 0.0, 0.0, 1.0),  # T_4 alone: its quotient is a constant
        (0.25, 0.0, -0.5, 0.0, 1.0),  # even, with a constant quotient
        (0.3, 0.0, 0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 0.5),
        (0.0, 2.0),
        (0.0, 0.0, 0.7),
        (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
    ],
)
def test_gaps_in_the_coefficients(mock, coefficients):
    u = mock.unit()
    series = Series(-1, 1, coefficients, 0.0)
    y = evaluate(mock.evaluator, series, mock.give(u))
    assert np.abs(mock.take(y) - series.of_unit(u)).max() < 2.0**-22


@pytest.mark.parametrize("coefficients", [(1.0,), (0.0,), (0.5, 1e-30), (0.0, 1e-14)])
def test_a_constant_would_hide_nothing(mock, coefficients):
    series = Series(-1, 1, coefficients, 0.0)
    with pytest.raises(RangeError, match="constant polynomial"):
        evaluate(mock.evaluator, series, mock.give(mock.unit()))


def test_a_factor_of_zero_is_none(mock):
    x = mock.give(mock.unit())
    assert weighted(mock.evaluator, x, 0.0, 3, 2.0**40) is None
    assert multiplied(mock.evaluator, x, 1e-15, 3, 2.0**80) is None
    with pytest.raises(LevelError, match="needs a factor above it"):
        weighted(mock.evaluator, x, 1.0, x.level, 2.0**40)


def test_powers_are_shared(mock):
    u = mock.unit()
    x = mock.give(u)
    powers = Powers(mock.evaluator, x)
    evaluate(mock.evaluator, fit(np.exp, -1, 1, 15), x, powers=powers)
    before = mock.evaluator.counts["ct_ct"]
    for k in (1, 2, 4, 8):
        power = powers.power(k)
        assert power.level == powers.level(k)
        assert np.abs(mock.take(power) - np.cos(k * np.arccos(u))).max() < 2.0**-22
    assert mock.evaluator.counts["ct_ct"] == before


def test_the_argument_is_not_changed(mock):
    u = mock.unit()
    x = mock.give(u)
    evaluate(mock.evaluator, fit(np.exp, -1, 1, 15), x)
    assert (x.level, x.scale) == (7, 2.0**40)
    assert np.abs(mock.take(x) - u).max() < 2.0**-26


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(-2, 2, width=16), min_size=2, max_size=40))
def test_any_series(mock, coefficients):
    u = mock.unit()
    series = Series(-1, 1, tuple(coefficients), 0.0)
    if not any(abs(c) > 1e-6 for c in coefficients[1:]):
        return
    y = evaluate(mock.evaluator, series, mock.give(u))
    assert np.abs(mock.take(y) - series.of_unit(u)).max() < 2.0**-17
