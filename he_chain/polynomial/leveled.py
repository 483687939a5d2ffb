"""Arithmetic that ends at a level somebody else planned, and never anywhere else.

Operands are lowered before they meet, so that work is done where it is cheapest. "Wide" results are
those before the rescale: sums belong there, since a rescale's noise is the larger one.
"""

from __future__ import annotations

from he_chain.backends.base import Ciphertext, Evaluator, Values
from he_chain.errors import RangeError
from he_chain.polynomial.chebyshev import Series
from he_chain.polynomial.grid import sum_up
from he_chain.polynomial.poly import evaluate, multiplied


class Leveled:
    """An evaluator's products, by the level of their result."""

    def __init__(self, evaluator: Evaluator) -> None:
        """Work with this one."""
        self.ev = evaluator
        self.scale = 2.0**evaluator.parameters.scale_bits

    def product(
        self, x: Ciphertext, y: Ciphertext, level: int, rotations: tuple[int, ...] = ()
    ) -> Ciphertext:
        """Return x y at a level, summed over rotations, at the scale that comes out."""
        return self.ev.rescale(sum_up(self.ev, self.wide_product(x, y, level), rotations))

    def wide_product(self, x: Ciphertext, y: Ciphertext, level: int) -> Ciphertext:
        """Return x y before the rescale to a level."""
        low_x = self.ev.to_level(x, level + 1)
        low_y = low_x if y is x else self.ev.to_level(y, level + 1)
        return self.ev.mul(low_x, low_y)

    def times(self, x: Ciphertext, factor: Values | float, level: int) -> Ciphertext:
        """Return x times plain factors at a level and the parameters' scale."""
        return self.ev.rescale(self.wide_times(x, factor, level))

    def wide_times(self, x: Ciphertext, factor: Values | float, level: int) -> Ciphertext:
        """Return x times plain factors before the rescale to a level and the parameters' scale.

        Raises:
            RangeError: all factors are zero, or would be encoded so.
        """
        wide = self.scale * self.ev.primes[level + 1]
        found = multiplied(self.ev, x, factor, level + 1, wide)
        if found is None:
            raise RangeError("a factor of zero would hide nothing")
        return found

    def shifted(self, x: Ciphertext, offset: float) -> Ciphertext:
        """Return x plus a constant."""
        return self.ev.add_plain(x, self.ev.encode(offset, x.level, x.scale))

    def series(self, series: Series, x: Ciphertext, level: int) -> Ciphertext:
        """Return a series at a level and the parameters' scale."""
        return evaluate(self.ev, series, self.ev.to_level(x, level + series.levels))
