"""What every backend refuses, so that a circuit which one accepts runs on all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate
from operator import mul
from typing import Final

import numpy as np

from he_chain.backends.base import Ciphertext, Plain, Values
from he_chain.errors import LevelError, RangeError, ScaleError
from he_chain.parameters import Parameters

SCALE_TOLERANCE: Final = 2.0**-40
"""Relative difference of two scales that still count as equal: below the noise of a ciphertext."""


class Rules:
    """Levels, scales and ranges of one chain of primes."""

    def __init__(self, parameters: Parameters, primes: tuple[int, ...]) -> None:
        """Take the parameters and the primes of the levels 0..num_levels."""
        self._parameters = parameters
        moduli: Iterable[int] = accumulate(primes, mul)
        self._level_bits = tuple(modulus.bit_length() for modulus in moduli)

    def level(self, operation: str, level: int) -> int:
        """Return a level that exists.

        Raises:
            LevelError: it does not.
        """
        if not 0 <= level <= self._parameters.num_levels:
            message = f"{operation}: level {level} is not in 0..{self._parameters.num_levels}"
            raise LevelError(message)
        return level

    def scale(self, operation: str, level: int, scale: float) -> float:
        """Return a scale that a level's modulus can hold.

        Raises:
            ScaleError: it is no number of at least 1.
            LevelError: it has as many bits as the level's modulus, or more.
        """
        if not (math.isfinite(scale) and scale >= 1):
            raise ScaleError(f"{operation}: {scale} is no scale")
        if math.log2(scale) >= self._level_bits[level] - 1:
            message = (
                f"{operation}: scale 2^{math.log2(scale):.1f} does not fit level {level}, "
                f"whose modulus has {self._level_bits[level]} bits"
            )
            raise LevelError(message)
        return scale

    def values(self, operation: str, values: Values | float, level: int, scale: float) -> Values:
        """Return what is to be encoded as float64[num_slots], or float64[] for a single value.

        Raises:
            RangeError: it has another shape, is not finite, or |value| * scale has more bits than
                the modulus of the level less two: one for the sign, one to spare.
        """
        array = np.asarray(values, dtype=np.float64)
        if array.shape not in ((), (self._parameters.num_slots,)):
            message = f"{operation}: {array.shape} values for {self._parameters.num_slots} slots"
            raise RangeError(message)
        largest = float(np.max(np.abs(array)))
        if not math.isfinite(largest):
            raise RangeError(f"{operation}: a value is not finite")
        if largest and math.log2(largest) + math.log2(scale) > self._level_bits[level] - 2:
            message = (
                f"{operation}: {largest:.6g} at scale 2^{math.log2(scale):.1f} does not fit "
                f"level {level}, whose modulus has {self._level_bits[level]} bits"
            )
            raise RangeError(message)
        return array

    def sum_scale(self, operation: str, x: Ciphertext, y: Ciphertext | Plain) -> float:
        """Return the scale of a sum, which is that of x.

        Raises:
            ScaleError: the scales of x and y differ.
        """
        if abs(x.scale - y.scale) > SCALE_TOLERANCE * min(x.scale, y.scale):
            message = f"{operation}: scales {x.scale.hex()} and {y.scale.hex()} are not equal"
            raise ScaleError(message)
        return x.scale

    def product_scale(self, operation: str, x: Ciphertext, y: Ciphertext | Plain) -> float:
        """Return the scale of a product at the lower of the levels.

        Raises:
            LevelError: it does not fit there: a rescale is missing, or the level for it.
        """
        return self.scale(operation, min(x.level, y.level), x.scale * y.scale)

    def same_level(self, operation: str, x: Ciphertext, y: Plain) -> None:
        """Check that a plain was encoded for the level of a ciphertext.

        Raises:
            LevelError: it was for another.
        """
        if x.level != y.level:
            message = f"{operation}: the plain is for level {y.level}, the ciphertext at {x.level}"
            raise LevelError(message)

    def lower(self, operation: str, x: Ciphertext, level: int) -> int:
        """Return a level to which a ciphertext can go down, or where it is.

        Raises:
            LevelError: it is below that, or its scale does not fit there.
        """
        self.level(operation, level)
        if level > x.level:
            raise LevelError(f"{operation}: at level {x.level}, which is below {level}")
        self.scale(operation, level, x.scale)
        return level

    def rescaled(self, operation: str, x: Ciphertext) -> int:
        """Return the level below that of x.

        Raises:
            LevelError: there is none.
        """
        if x.level < 1:
            raise LevelError(f"{operation}: at level 0 there is no prime left to divide by")
        return x.level - 1

    def steps(self, steps: int) -> int:
        """Return a rotation as 0..num_slots - 1 steps to the left."""
        return steps % self._parameters.num_slots
