"""Chebyshev series on ciphertexts: Paterson-Stockmeyer with exact scales and no level to spare.

A series p of degree n at a wanted level and scale is either a sum of c[k] T_k, where all T_k are
above that level, or p = q T_g + r with g the largest power of two up to n: q one level higher, at
the scale that makes the product's exact; r as p. Degree n takes ceil(log2(n + 1)) levels. The
plain factors are encoded at the scale of the prime that the rescale removes, so two summands always
have one scale and nothing is declared equal that is not.

Source: M. Paterson, L. Stockmeyer, On the number of nonscalar multiplications necessary to evaluate
polynomials, SIAM J. Comput. 2, 1973; in the Chebyshev basis: H. Chen, I. Chillotti, Y. Song,
Improved bootstrapping for approximate homomorphic encryption, 2019, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.polynomial import chebyshev

from he_chain.backends.base import Ciphertext, Evaluator, Values
from he_chain.errors import LevelError, RangeError
from he_chain.polynomial.chebyshev import NEGLIGIBLE, Series

_BABIES: Final = 8
"""Sums of at least so many terms are split although levels would allow them."""
_LEAST: Final = 0.5
"""A factor below this, times its scale, would be encoded as zero."""


@dataclass(frozen=True)
class _Sum:
    """A ciphertext, if any, and a constant that is not added to it yet."""

    ciphertext: Ciphertext | None
    constant: float


class Powers:
    """T_k(u) for one ciphertext u in [-1, 1], each made when first wanted."""

    def __init__(self, evaluator: Evaluator, unit: Ciphertext) -> None:
        """Take u."""
        self._evaluator = evaluator
        self._made = {1: unit}
        self._top = unit.level

    def level(self, k: int) -> int:
        """Return the level that T_k has, made or not; k >= 1."""
        return self._top - (k - 1).bit_length()

    def power(self, k: int) -> Ciphertext:
        """Return T_k; k >= 1."""
        if k not in self._made:
            self._made[k] = self._make(k)
        return self._made[k]

    def _make(self, k: int) -> Ciphertext:
        """Return T_{i+j} = 2 T_i T_j - T_{i-j} with i and j the halves of k."""
        ev = self._evaluator
        i, j = (k + 1) // 2, k // 2
        product = ev.rescale(ev.mul(self.power(i), self.power(j)))
        product = ev.add(product, product)
        if i == j:
            return ev.sub_plain(product, ev.encode(1.0, product.level, product.scale))
        other = weighted(ev, self.power(1), 1.0, product.level, product.scale)
        return product if other is None else ev.sub(product, other)


def evaluate(
    evaluator: Evaluator,
    series: Series,
    unit: Ciphertext,
    *,
    scale: float | None = None,
    powers: Powers | None = None,
) -> Ciphertext:
    """Return the series at a ciphertext u in [-1, 1], `series.levels` levels lower.

    Args:
        evaluator: has no rotations to do here.
        series: what to evaluate; a constant is refused, since the result would hide nothing.
        unit: u; what is outside [-1, 1] gives values without meaning, and nothing notices.
        scale: of the result, exactly; that of the parameters by default.
        powers: those of u, where several series are evaluated at one.

    Raises:
        LevelError: u has too few levels; names the degree.
        RangeError: the series is constant at this scale.
    """
    needed = series.levels
    if unit.level < needed:
        message = (
            f"a polynomial of degree {series.degree} takes {needed} levels, "
            f"its argument has {unit.level}"
        )
        raise LevelError(message)
    coefficients = np.array(series.coefficients)
    coefficients[np.abs(coefficients) < NEGLIGIBLE * np.abs(coefficients).max()] = 0.0
    level = unit.level - needed
    result_scale = 2.0**evaluator.parameters.scale_bits if scale is None else scale
    evaluation = _Evaluation(evaluator, powers or Powers(evaluator, unit))
    found = evaluation.run(coefficients, level, result_scale)
    if found.ciphertext is None:
        raise RangeError("a constant polynomial: its value would not be hidden")
    return evaluation.finish(found)


def count_products(series: Series) -> tuple[int, int]:
    """Return how many products with ciphertexts and with plains an evaluation takes, for a plan.

    An estimate within a few: it counts for the degree what a series without zeros takes.
    """
    levels = series.levels
    products = levels - 1 + 2 ** ((levels + 1) // 2) if levels > 2 else levels - 1
    return products, series.degree


class _Evaluation:
    """One evaluation's recursion."""

    def __init__(self, evaluator: Evaluator, powers: Powers) -> None:
        self._ev = evaluator
        self._powers = powers

    def run(self, coefficients: Values, level: int, scale: float) -> _Sum:
        """Return sum c[k] T_k at a level and a scale."""
        trimmed = np.trim_zeros(coefficients, "b")
        if trimmed.size < 2:
            return _Sum(None, float(trimmed[0]) if trimmed.size else 0.0)
        degree = trimmed.size - 1
        wanted = np.flatnonzero(trimmed[1:]) + 1
        if degree < _BABIES and all(self._powers.level(int(k)) > level for k in wanted):
            return self._linear(trimmed, level, scale)
        return self._split(trimmed, level, scale)

    def finish(self, found: _Sum) -> Ciphertext:
        """Add the constant."""
        x = found.ciphertext
        if x is None:
            raise RangeError("a constant polynomial: its value would not be hidden")
        if found.constant == 0.0:
            return x
        return self._ev.add_plain(x, self._ev.encode(found.constant, x.level, x.scale))

    def _linear(self, coefficients: Values, level: int, scale: float) -> _Sum:
        """Return the sum term by term, with one rescale."""
        ev, total = self._ev, None
        wide = scale * ev.primes[level + 1]
        for k in np.flatnonzero(coefficients[1:]) + 1:
            term = multiplied(ev, self._powers.power(int(k)), coefficients[k], level + 1, wide)
            if term is not None:
                total = term if total is None else ev.add(total, term)
        rescaled = None if total is None else ev.rescale(total)
        return _Sum(rescaled, float(coefficients[0]))

    def _split(self, coefficients: Values, level: int, scale: float) -> _Sum:
        """Return q T_g + r."""
        ev = self._ev
        g = 1 << ((coefficients.size - 1).bit_length() - 1)
        divided = chebyshev.chebdiv(coefficients, _unit(g))
        quotient, rest = (np.asarray(part, np.float64) for part in divided)
        largest = NEGLIGIBLE * np.abs(coefficients).max()
        quotient[np.abs(quotient) < largest] = 0.0
        rest[np.abs(rest) < largest] = 0.0
        remainder = self.run(rest, level, scale)
        giant = self._powers.power(g)
        factor_scale = scale * ev.primes[level + 1] / giant.scale
        factor = self.run(quotient, level + 1, factor_scale)
        if factor.ciphertext is None:
            # a constant quotient, as of an even polynomial of degree g: no product of ciphertexts
            product = weighted(ev, giant, factor.constant, level, scale)
        else:
            product = ev.rescale(ev.mul(self.finish(factor), ev.to_level(giant, level + 1)))
        return _added(ev, remainder, product)


def multiplied(
    evaluator: Evaluator, x: Ciphertext, factor: Values | float, level: int, scale: float
) -> Ciphertext | None:
    """Return x times a plain factor at a level and a scale, before a rescale.

    None stands for a factor that would be encoded as zero, whose product would hide nothing.
    """
    plain_scale = scale / x.scale
    if float(np.abs(factor).max()) * plain_scale < _LEAST:
        return None
    lowered = evaluator.to_level(x, level)
    return evaluator.mul_plain(lowered, evaluator.encode(factor, level, plain_scale))


def weighted(
    evaluator: Evaluator, x: Ciphertext, factor: Values | float, level: int, scale: float
) -> Ciphertext | None:
    """Return x times a plain factor at exactly this level and scale, one rescale included.

    None stands for a factor that would be encoded as zero.

    Raises:
        LevelError: x is not above the level.
    """
    if x.level <= level:
        raise LevelError(f"a product at level {level} needs a factor above it, not at {x.level}")
    product = multiplied(evaluator, x, factor, level + 1, scale * evaluator.primes[level + 1])
    return None if product is None else evaluator.rescale(product)


def _added(ev: Evaluator, left: _Sum, right: Ciphertext | None) -> _Sum:
    if left.ciphertext is None or right is None:
        return _Sum(right if left.ciphertext is None else left.ciphertext, left.constant)
    return _Sum(ev.add(left.ciphertext, right), left.constant)


def _unit(k: int) -> Values:
    """Return the coefficients of T_k."""
    basis = np.zeros(k + 1)
    basis[k] = 1.0
    return basis
