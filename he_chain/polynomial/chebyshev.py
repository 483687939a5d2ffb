"""Functions as Chebyshev series on a range, with the error of the fit and the levels they take.

A series c of degree n stands for f on [lo, hi]: f(v) = sum c[k] T_k(u), u = (2 v - lo - hi) /
(hi - lo). Whoever evaluates it has u, so the change of variable costs no level.

Source: L. N. Trefethen, Approximation Theory and Approximation Practice, 2013, chapters 3 and 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from he_chain.errors import PrecisionError, RangeError

Values: TypeAlias = NDArray[np.float64]
Function: TypeAlias = Callable[[Values], Values]

NEGLIGIBLE: Final = 2.0**-48
"""Coefficients below this share of the largest one are rounding, and left out."""
_GRID: Final = np.cos(np.pi * np.arange(4097) / 4096)
"""Where the error is measured: dense at the ends, where it is largest."""


@dataclass(frozen=True)
class Series:
    """A Chebyshev series on a range."""

    lo: float
    hi: float
    coefficients: tuple[float, ...]
    """Of T_0, T_1, ...; the last one is not zero unless it is the only one."""
    fit_error: float
    """Largest error on [lo, hi]; of the value, or of its ratio to the value if `relative`."""
    relative: bool = False

    @property
    def degree(self) -> int:
        """Its degree."""
        return len(self.coefficients) - 1

    @property
    def levels(self) -> int:
        """How many levels an evaluation takes from u on."""
        return levels_of(self.degree)

    def __call__(self, values: Values) -> Values:
        """Evaluate float64[...] in binary64.

        Raises:
            RangeError: a value is outside [lo, hi] by more than rounding.
        """
        unit = self.unit(values)
        if not np.all(np.abs(unit) <= 1 + 1e-9):
            raise RangeError(f"a value is not in [{self.lo:.6g}, {self.hi:.6g}]")
        return self.of_unit(unit)

    def unit(self, values: Values) -> Values:
        """Return u of v."""
        return (2 * values - self.lo - self.hi) / (self.hi - self.lo)

    def of_unit(self, unit: Values) -> Values:
        """Return the series at u, wherever that is."""
        result: Values = chebyshev.chebval(unit, np.array(self.coefficients))
        return result

    def times(self, factor: float) -> Series:
        """Return the series of f times a factor."""
        scaled = tuple(factor * c for c in self.coefficients)
        error = self.fit_error if self.relative else self.fit_error * abs(factor)
        return Series(self.lo, self.hi, scaled, error, self.relative)


def levels_of(degree: int) -> int:
    """Return the levels of a series of a degree: 3 for 4 to 7, 4 for 8 to 15."""
    return math.ceil(math.log2(degree + 1))


def fit(function: Function, lo: float, hi: float, degree: int, *, relative: bool = False) -> Series:
    """Interpolate a function of float64[n] at the Chebyshev points of a range.

    Raises:
        RangeError: the range is empty or the function is not finite on it.
    """
    if not (math.isfinite(lo) and math.isfinite(hi) and lo < hi):
        raise RangeError(f"[{lo}, {hi}] is no range")

    def of_unit(u: Values) -> Values:
        return function((hi - lo) / 2 * u + (hi + lo) / 2)

    with np.errstate(all="ignore"):
        nodes = chebyshev.chebpts1(degree + 1)
        # interpolation at these points is a sum over them, since T_k are orthogonal there
        sums = chebyshev.chebvander(nodes, degree).T @ np.asarray(of_unit(nodes), np.float64)
        coefficients = sums * (2 / (degree + 1))
        coefficients[0] /= 2
        truth = np.asarray(of_unit(_GRID), np.float64)
    if not (np.isfinite(coefficients).all() and np.isfinite(truth).all()):
        raise RangeError(f"the function is not finite on [{lo}, {hi}]")
    coefficients[np.abs(coefficients) < NEGLIGIBLE * np.abs(coefficients).max()] = 0.0
    trimmed = np.asarray(np.trim_zeros(coefficients, "b"), np.float64)
    return _measured(lo, hi, trimmed if trimmed.size else np.zeros(1), truth, relative=relative)


def fit_reciprocal(lo: float, hi: float, degree: int) -> Series:
    """Return the series for 1 / v whose error relative to 1 / v is the least that is possible.

    That is its interpolation p: 1 - v p(v) is a polynomial that is 0 at the zeros of T_m, with
    m = degree + 1, and so T_m(u(v)) / T_m(u(0)), which has m + 1 equal extremes.

    Raises:
        RangeError: the range has not 0 < lo < hi.
    """
    if not 0 < lo < hi < math.inf:
        raise RangeError(f"[{lo}, {hi}] is no range of positive numbers")
    return fit(lambda v: 1 / v, lo, hi, degree, relative=True)


def search(
    make: Callable[[int], Series], target: float, degrees: tuple[int, ...], name: str
) -> Series:
    """Return the first series of these degrees whose error is at most a target.

    Raises:
        PrecisionError: none is good enough; says which error the last one has.
    """
    last = None
    for degree in degrees:
        last = make(degree)
        if last.fit_error <= target:
            return last
    if last is None:
        raise PrecisionError(f"{name}: no degree to try")
    message = (
        f"{name} on [{last.lo:.4g}, {last.hi:.4g}]: degree {degrees[-1]} has an error of "
        f"{last.fit_error:.2e}, above {target:.2e}"
    )
    raise PrecisionError(message)


def _measured(
    lo: float, hi: float, coefficients: Values, truth: Values, *, relative: bool
) -> Series:
    error = np.abs(chebyshev.chebval(_GRID, coefficients) - truth)
    if relative:
        error = error / np.abs(truth)
    return Series(lo, hi, tuple(coefficients.tolist()), float(error.max()), relative)
