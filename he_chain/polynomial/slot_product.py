"""Matrix products between any two arrangements of slots, by diagonals in baby and giant steps.

A rotation by s = giant + baby brings into slot i what stood in slot i + s. Giants are multiples of
one step, and sums are rotated by it again and again, so babies and this step are all keys. Which
entry of the matrix belongs to slot i and rotation s follows from two maps: the column that stands
in each slot of the input, and the row that is wanted in each slot of the result. Slots that are
summed afterwards form a group and share their columns among them. That every row meets every column
once is checked when the product is made, not when it is used.

Source: S. Halevi, V. Shoup, Faster homomorphic linear transformations in HElib, 2018, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from he_chain.backends.base import Ciphertext, Evaluator, Values
from he_chain.errors import LevelError, PlanError, RangeError
from he_chain.polynomial.poly import multiplied

Slots = NDArray[np.int64]


@dataclass(frozen=True)
class _Diagonal:
    """What one rotation does."""

    slots: NDArray[np.int32]
    """Slots of the result that it contributes to."""
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]


class SlotProduct:
    """A matrix's place among the slots; the matrix itself comes when it is applied."""

    def __init__(
        self,
        columns: Slots,
        rows: Slots,
        babies: Sequence[int],
        giants: Sequence[int],
        groups: Slots | None = None,
    ) -> None:
        """Find the diagonals.

        Args:
            columns: int64[num_slots], the column that each slot of the input has; -1 for none.
            rows: int64[num_slots], the row that each slot of the result is for; -1 for none.
            babies: rotations that the input is given to.
            giants: rotations of sums, 0 and multiples of the second one; every sum of a baby and a
                giant is a diagonal.
            groups: int64[num_slots], equal for slots that are summed afterwards; each slot is one
                by default.

        Raises:
            PlanError: some row would not meet some column.
        """
        self._step = giants[1] if len(giants) > 1 else 1
        self._groups = np.arange(columns.size) if groups is None else groups
        wanted = np.unique(self._groups[rows >= 0])
        count = int(columns.max()) + 1
        place = np.full(int(self._groups.max()) + 1, -1)
        place[wanted] = np.arange(wanted.size)
        met = np.zeros((wanted.size, count), np.bool_)
        self._diagonals: dict[int, dict[int, _Diagonal]] = {}
        for giant in giants:
            found = {}
            for baby in babies:
                diagonal = self._diagonal(columns, rows, giant + baby, met, place)
                if diagonal is not None:
                    found[baby] = diagonal
            if found:
                self._diagonals[giant] = found
        if not met.all():
            missing = int((~met).sum())
            raise PlanError(f"a product of {wanted.size} x {count} misses {missing} entries")

    @property
    def rotations(self) -> frozenset[int]:
        """What it needs keys for: babies, and one giant step."""
        return frozenset({*self.used_babies, self._step if self.num_giants else 0}) - {0}

    @property
    def used_babies(self) -> frozenset[int]:
        """The babies that some diagonal uses."""
        return frozenset(baby for found in self._diagonals.values() for baby in found)

    @property
    def num_diagonals(self) -> int:
        """Products with plain vectors, at most."""
        return sum(map(len, self._diagonals.values()))

    @property
    def size_bytes(self) -> int:
        """Memory of the places of all entries."""
        every = (d for found in self._diagonals.values() for d in found.values())
        return sum(d.slots.nbytes + d.rows.nbytes + d.columns.nbytes for d in every)

    @property
    def num_giants(self) -> int:
        """Rotations of sums."""
        return max(self._diagonals, default=0) // self._step

    def apply(
        self,
        evaluator: Evaluator,
        rotated: dict[int, Ciphertext],
        matrix: Values,
        level: int,
        scale: float,
        mask: Values | None = None,
    ) -> Ciphertext:
        """Return matrix times input, one rescale above exactly this level and scale.

        The rescale is left to the caller, whose sums are more precise before it.

        Args:
            evaluator: has the rotations.
            rotated: the input given to the babies, see `rotate_babies`.
            matrix: float64[rows, columns].
            level: of the result when rescaled, below that of the input.
            scale: of the result when rescaled.
            mask: float64[num_slots] factors of the result's slots.

        Raises:
            LevelError: the input is not above the level.
            RangeError: the matrix is zero.
        """
        source = rotated[0]
        if source.level <= level:
            raise LevelError(f"a matrix product at level {level}: its input is at {source.level}")
        wide = scale * evaluator.primes[level + 1]
        total = None
        # Horner's scheme: one key does for all giants
        for giant in range(self.num_giants * self._step, -1, -self._step):
            total = None if total is None else evaluator.rotate(total, self._step)
            for baby, values in self._values(self._diagonals.get(giant, {}), matrix, mask):
                plain = np.roll(values, giant)
                term = multiplied(evaluator, rotated[baby], plain, level + 1, wide)
                if term is not None:
                    total = term if total is None else evaluator.add(total, term)
        if total is None:
            raise RangeError("a product with a matrix of zeros would hide nothing")
        return total

    def _values(
        self, found: dict[int, _Diagonal], matrix: Values, mask: Values | None
    ) -> Iterator[tuple[int, Values]]:
        """Yield (baby, float64[num_slots]) of the diagonals that are not zero."""
        for baby, diagonal in found.items():
            values = np.zeros(self._groups.size)
            values[diagonal.slots] = matrix[diagonal.rows, diagonal.columns]
            if mask is not None:
                values *= mask
            if values.any():
                yield baby, values

    def _diagonal(
        self,
        columns: Slots,
        rows: Slots,
        steps: int,
        met: NDArray[np.bool_],
        place: Slots,
    ) -> _Diagonal | None:
        """Return what a rotation adds that none before it did, and note it."""
        here = np.roll(columns, -steps)
        slots = np.flatnonzero((rows >= 0) & (here >= 0))
        group, column = place[self._groups[slots]], here[slots]
        new = ~met[group, column]
        slots, group, column = slots[new], group[new], column[new]
        _, first = np.unique(group * met.shape[1] + column, return_index=True)
        if not first.size:
            return None
        met[group[first], column[first]] = True
        kept = np.sort(first)
        used = slots[kept]
        return _Diagonal(
            used.astype(np.int32), rows[used].astype(np.int32), column[kept].astype(np.int32)
        )


def rotate_babies(
    evaluator: Evaluator, x: Ciphertext, babies: frozenset[int]
) -> dict[int, Ciphertext]:
    """Return x under every rotation, 0 included."""
    return {0: x} | {steps: evaluator.rotate(x, steps) for steps in sorted(babies - {0})}
