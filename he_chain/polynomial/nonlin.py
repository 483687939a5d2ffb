"""The three steps of a decoder that are no polynomials, as polynomials: what each of them promises.

Every step is good on a range that was measured on public text, with an error that is known before
anything is encrypted. Constant factors cost no level: they are folded into coefficients, into the
residual's factor and into the matrices before and after.

The softmax is of scores less their mean over the cached positions. Then the sum of exponentials of
n positions is at least n (Jensen), which bounds the reciprocal's range from below without knowing
any score. Wide scores are divided by 2^k first and squared k times later, normalised in between:
J. H. Cho et al., Fast and accurate homomorphic softmax evaluation, 2024.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from he_chain.errors import RangeError
from he_chain.exact import silu
from he_chain.polynomial.chebyshev import Series, Values, fit, fit_reciprocal, search

_DEGREES: Final = (1, 3, 7, 15, 31, 63, 127)
"""Largest degrees of 1, 2, 3, ... levels: others would cost the same levels and be worse."""


@dataclass(frozen=True)
class NormContract:
    """RMSNorm of a residual of `channels` values, held as factor * x.

    u = sum of (factor x)^2 + offset is in [-1, 1] where mean square + eps is in the series' range,
    and factor * x * series(u) is the norm without its gamma.
    """

    factor: float
    offset: float
    series: Series
    channels: int

    @property
    def levels(self) -> int:
        """A square, the series, a product."""
        return self.series.levels + 2

    @property
    def largest(self) -> float:
        """The largest |factor * x| that the range allows."""
        return math.sqrt(self.channels * self.series.hi) * self.factor


@dataclass(frozen=True)
class Normalisation:
    """One division of weights by their sum: the sum plus the offset is the argument in [-1, 1]."""

    offset: float
    series: Series


@dataclass(frozen=True)
class SoftmaxContract:
    """Softmax over `positions` cached positions of `room`, by k squarings.

    The argument is (score - mean) / bound at a position and 0 where the cache is empty. The
    exponential gives weights; where the cache is empty it gives `padding`. With k > 0 that is
    masked away, else it is subtracted with the offset of the first normalisation.
    """

    bound: float
    positions: int
    room: int
    exponential: Series
    normalisations: tuple[Normalisation, ...]

    @property
    def squarings(self) -> int:
        """How often shares are squared."""
        return len(self.normalisations) - 1

    @property
    def padding(self) -> float:
        """The weight that an empty position gets."""
        return float(self.exponential.of_unit(np.zeros(1))[0])

    def __call__(self, scores: Values) -> Values:
        """Evaluate float64[..., positions] as the ciphertexts do, without their noise.

        Raises:
            RangeError: an argument is outside its series' range.
        """
        centred = scores - scores.mean(axis=-1, keepdims=True)
        weights = self.exponential(centred / 2**self.squarings)
        for i, step in enumerate(self.normalisations):
            if i:
                weights = weights * weights
            total = weights.sum(axis=-1, keepdims=True)
            weights = weights * step.series(total)
        return weights


@dataclass(frozen=True)
class SiluContract:
    """SiLU of a gate held as gate / bound; the series gives silu(gate) / bound."""

    bound: float
    series: Series


def norm_contract(lo: float, hi: float, channels: int, eps: float, target: float) -> NormContract:
    """Return the norm for mean squares (without eps) in [lo, hi], to a relative error.

    Raises:
        RangeError: no positive range.
        PrecisionError: degree 127 is not enough: the range is too wide.
    """
    if not 0 < lo < hi:
        raise RangeError(f"mean squares in [{lo}, {hi}]")
    low, high = lo + eps, hi + eps
    factor = math.sqrt(2 / (channels * (high - low)))
    found = search(
        lambda degree: fit(lambda v: 1 / np.sqrt(v), low, high, degree, relative=True),
        target,
        _DEGREES,
        "the norm",
    )
    offset = 2 * (eps - low) / (high - low) - 1
    return NormContract(factor, offset, found.times(1 / factor), channels)


def softmax_contract(
    bound: float,
    ratios: tuple[tuple[float, float], ...],
    *,
    positions: int,
    room: int,
    target: float,
) -> SoftmaxContract:
    """Return the softmax for centred scores in [-bound, bound].

    Args:
        bound: of scores less their mean.
        ratios: for every normalisation the range of n times the sum of the squared shares (of the
            exponentials, over n, for the first): at least 1 and at most n. One more than squarings.
        positions: n, cached positions.
        room: positions that the layout has.
        target: relative error of each division, and of the exponential.

    Raises:
        RangeError: a range that cannot be.
        PrecisionError: degree 127 is not enough.
    """
    k = len(ratios) - 1
    if k < 0 or not 1 <= positions <= room or not all(0 < lo < hi for lo, hi in ratios):
        raise RangeError(f"a softmax over {positions} of {room} positions, ratios {ratios}")
    reach = bound / 2**k
    # an error of the exponential counts against the sum, and that is at least n
    exponential = search(
        lambda degree: fit(np.exp, -reach, reach, degree), target, _DEGREES, "the exponential"
    )
    steps = []
    for i, (lo, hi) in enumerate(ratios):
        half = (hi - lo) / 2
        series = _reciprocal(lo / half, hi / half, target)
        offset = -(lo + hi) / (hi - lo)
        if i < k:
            # shares times this, squared, sum to what the next series takes
            following = (ratios[i + 1][1] - ratios[i + 1][0]) / 2
            series = series.times(math.sqrt(positions / following))
        steps.append(Normalisation(offset, series))
    first = (ratios[0][1] - ratios[0][0]) / 2
    exponential = exponential.times(1 / (positions * first))
    if not k:
        padding = float(exponential.of_unit(np.zeros(1))[0]) * (room - positions)
        steps[0] = Normalisation(steps[0].offset - padding, steps[0].series)
    return SoftmaxContract(bound, positions, room, exponential, tuple(steps))


def _reciprocal(lo: float, hi: float, target: float) -> Series:
    return search(lambda degree: fit_reciprocal(lo, hi, degree), target, _DEGREES, "the reciprocal")


def silu_contract(bound: float, target: float) -> SiluContract:
    """Return SiLU for gates in [-bound, bound], to an error relative to the bound.

    Raises:
        RangeError: no positive bound.
        PrecisionError: degree 127 is not enough.
    """
    if not 0 < bound < math.inf:
        raise RangeError(f"gates in +-{bound}")
    found = search(
        lambda degree: fit(silu, -bound, bound, degree), target * bound, _DEGREES, "SiLU"
    )
    return SiluContract(bound, found.times(1 / bound))
