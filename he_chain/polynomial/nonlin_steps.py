"""The steps of norms and softmax on ciphertexts, by the names that a plan has for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from he_chain.backends.base import Ciphertext, Values
from he_chain.polynomial.grid import sum_up
from he_chain.polynomial.leveled import Leveled
from he_chain.polynomial.nonlin import Normalisation, NormContract, SoftmaxContract

Run: TypeAlias = Callable[[list[Ciphertext], int], Ciphertext]
"""Takes a step's operands and the level of its result."""


def norm_steps(
    do: Leveled, name: str, norm: NormContract, rotations: tuple[int, ...]
) -> dict[str, Run]:
    """Return the steps of a norm, whose sum over channels takes these rotations."""

    def square(x: list[Ciphertext], level: int) -> Ciphertext:
        return do.shifted(do.product(x[0], x[0], level, rotations), norm.offset)

    return {
        f"{name}.square": square,
        f"{name}.root": lambda x, level: do.series(norm.series, x[0], level),
        f"{name}.product": lambda x, level: do.product(x[0], x[1], level),
    }


def softmax_steps(
    do: Leveled, contract: SoftmaxContract, filled: Values, rotations: tuple[int, ...]
) -> dict[str, Run]:
    """Return the steps of a softmax.

    Args:
        do: computes.
        contract: for as many positions as are filled.
        filled: float64[num_slots], 1 where a slot belongs to a position that is.
        rotations: of the sum over positions.
    """
    steps: dict[str, Run] = {
        "exponential": lambda x, level: do.series(contract.exponential, x[0], level),
        "mask": lambda x, level: do.times(x[0], filled, level),
    }
    for i, step in enumerate(contract.normalisations):
        steps |= _normalisation_steps(do, i, step, rotations)
    return steps


def _normalisation_steps(
    do: Leveled, i: int, step: Normalisation, rotations: tuple[int, ...]
) -> dict[str, Run]:
    def total(x: list[Ciphertext], level: int) -> Ciphertext:
        low = do.ev.to_level(x[0], level)
        return do.shifted(sum_up(do.ev, low, rotations), step.offset)

    return {
        f"sum{i}": total,
        f"inverse{i}": lambda x, level: do.series(step.series, x[0], level),
        f"shares{i}": lambda x, level: do.product(x[0], x[1], level),
        f"square{i}": lambda x, level: do.product(x[0], x[0], level),
    }
