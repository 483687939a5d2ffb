"""How far decrypted values are from what they should be: the only thing that a PASS is made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from he_chain.errors import CheckpointError

Values = NDArray[np.float64]
MOST_BITS: Final = 53.0
"""What equal values are said to agree to: a binary64 has no more."""
_DIGITS: Final = 3
_TOP: Final = 5


@dataclass(frozen=True, slots=True)
class Figures:
    """One tensor against one reference, rounded as it is printed.

    An infinite or undefined error is None: of values that are no numbers, nothing else is true.
    """

    max_error: float | None
    mean_error: float | None
    p99_error: float | None
    bits: float | None
    """-log2(max_error / largest |reference|), two decimals, at most 53."""

    def reach(self, gate_bits: float) -> bool:
        """Say whether the bits are there and enough."""
        return self.bits is not None and self.bits >= gate_bits


def compare(values: Values, reference: Values) -> Figures:
    """Return the distance of float64[n] from float64[n].

    Raises:
        CheckpointError: their numbers differ, or there are none.
    """
    if values.shape != reference.shape or not values.size:
        raise CheckpointError(
            f"{values.size} values cannot be compared with a reference of {reference.size}"
        )
    with np.errstate(all="ignore"):
        error = np.abs(values - reference)
    largest, scale = float(error.max()), float(np.abs(reference).max())
    if not math.isfinite(largest) or not math.isfinite(scale):
        return Figures(None, None, None, None)
    if largest == 0:
        bits = MOST_BITS
    elif scale == 0:
        bits = 0.0
    else:
        bits = min(MOST_BITS, math.log2(scale) - math.log2(largest))
    mean, p99 = float(error.mean()), float(np.percentile(error, 99))
    return Figures(_rounded(largest), _rounded(mean), _rounded(p99), round(bits, 2))


def same_argmax(logits: Values, reference: Values) -> bool:
    """Say whether both have their largest value at one place, the first of equal ones."""
    return bool(np.isfinite(logits).all() and logits.argmax() == reference.argmax())


def same_top(logits: Values, reference: Values) -> bool:
    """Say whether the five largest are the same tokens in the same order."""
    order, expected = (np.argsort(-v, kind="stable")[:_TOP] for v in (logits, reference))
    return bool(np.isfinite(logits).all() and (order == expected).all())


def _rounded(error: float) -> float:
    return float(f"{error:.{_DIGITS}e}")
