"""Matrix products on ciphertexts: diagonals in baby steps and giant steps, packed densely.

The working slots are F copies of the rows, and copy m takes the m-th part of the columns, K of
them. Slot m G + r works for row r, with the diagonals k < K:

    y[m G + r] = sum over k < K of M[r, (r + m K + k) mod C] x[(r + m K + k) mod C],    C = F K.

What a rotation by k brings there stands in slot m G + r + k, so copy m of the input holds
x[(i + m K) mod C] in slot m G + i, for i below the stride G = rows + K - 1: nothing wraps around
and nothing has to be a power of two. The F copies are summed at the end. With k = i + baby j the
rotations by i are shared by all j. A matrix with too many rows for one copy is cut into blocks of
rows, each with its ciphertext, which share the rotations of the input.

Every diagonal is encoded when it is used, at the scale of the prime that the rescale removes, so
that the result has the scale of the input, exactly.

Sources: S. Halevi, V. Shoup, "Faster homomorphic linear transformations in HElib", 2018, section 4;
for rectangular matrices C. Juvekar, V. Vaikuntanathan, A. Chandrakasan, "GAZELLE", 2018, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from he_chain.backends.base import Ciphertext, Evaluator, Values
from he_chain.errors import PlanError, RangeError
from he_chain.slot_sums import sum_blocks, sum_rotations

_DIAGONAL_COST: Final = 0.55
"""Milliseconds to encode and multiply a diagonal, at N = 8192 and level 1."""
_ROTATION_COST: Final = 1.3
_MAX_COPIES: Final = 32


@dataclass(frozen=True)
class Shape:
    """How a matrix is laid out."""

    rows: int
    columns: int
    baby: int
    giant: int
    copies: int
    """F."""
    num_slots: int

    @property
    def diagonals(self) -> int:
        """K: diagonals of one block."""
        return self.baby * self.giant

    @property
    def period(self) -> int:
        """C: columns with what they are padded with."""
        return self.diagonals * self.copies

    @property
    def block_rows(self) -> int:
        """Most rows of one result."""
        return self.rows if self.copies > 1 else self.num_slots - self.diagonals + 1

    @property
    def stride(self) -> int:
        """G: slots from one copy to the next."""
        return self.block_rows + self.diagonals - 1

    @property
    def num_blocks(self) -> int:
        """Ciphertexts of the result."""
        return -(-self.rows // self.block_rows)

    @property
    def rotations(self) -> frozenset[int]:
        """All rotations that the product needs, and no others."""
        steps = {*range(1, self.baby), *(self.baby * j for j in range(1, self.giant))}
        return frozenset(steps) | sum_rotations(self.copies, self.stride)

    @property
    def free_slots(self) -> frozenset[int]:
        """Slots of every block of a result that are zero whatever the input."""
        rows = min(self.rows, self.block_rows)
        used = np.zeros(self.num_slots, np.bool_)
        for copy in range(1 - self.copies, self.copies):
            used[(copy * self.stride + np.arange(rows)) % self.num_slots] = True
        return frozenset(np.flatnonzero(~used).tolist())

    @property
    def cost_ms(self) -> float:
        """About how long it takes."""
        sums = self.copies.bit_length() - 1 + self.copies.bit_count() - 1
        rotations = self.baby - 1 + self.num_blocks * (self.giant - 1) + sums
        return _DIAGONAL_COST * self.diagonals * self.num_blocks + _ROTATION_COST * rotations

    def spread(self, values: Values) -> Values:
        """Return float64[num_slots], the input as the product wants it.

        Raises:
            PlanError: it has more or fewer values than the matrix has columns.
        """
        if values.shape != (self.columns,):
            raise PlanError(f"{values.shape} values for {self.columns} columns")
        padded = np.zeros(self.period)
        padded[: self.columns] = values
        slots = np.zeros(self.num_slots)
        width = self.num_slots if self.copies == 1 else self.stride
        places = np.arange(width)
        for copy in range(self.copies):
            start = copy * self.stride
            slots[start : start + width] = padded[(places + copy * self.diagonals) % self.period]
        return slots


def choose_shape(rows: int, columns: int, num_slots: int) -> Shape:
    """Return the cheapest layout of a matrix.

    Raises:
        PlanError: no dimension, or more columns than there are slots for.
    """
    if rows < 1 or columns < 1:
        raise PlanError(f"a matrix of {rows} x {columns} is none")
    shapes = (
        Shape(rows, columns, baby, giant, copies, num_slots)
        for copies in range(1, min(_MAX_COPIES, columns) + 1)
        for baby, giant in _steps(-(-columns // copies))
    )
    fitting = sorted((s for s in shapes if _fits(s)), key=lambda s: (s.cost_ms, s.baby))
    best = next((s for s in fitting if s.free_slots), None)
    if best is None:
        raise PlanError(f"a matrix of {rows} x {columns} does not fit {num_slots} slots")
    return best


def _steps(least: int) -> Iterator[tuple[int, int]]:
    """Yield baby and giant steps whose product is `least` or a little more."""
    root = math.isqrt(least)
    for baby in range(max(1, root // 2), 2 * root + 2):
        yield baby, -(-least // baby)


def _fits(shape: Shape) -> bool:
    """Say whether no rotation wraps around into what is used."""
    if shape.copies == 1:
        return shape.diagonals <= shape.num_slots
    return shape.copies * shape.stride <= shape.num_slots


class Product:
    """A matrix that ciphertexts are multiplied with; its diagonals exist only while they are used.

    Attributes:
        shape: how it is laid out.
    """

    def __init__(
        self,
        shape: Shape,
        matrix: NDArray[np.float32] | Values,
        factors: Values | None = None,
    ) -> None:
        """Take a matrix, which is not copied.

        Args:
            shape: how it is laid out.
            matrix: float[rows, columns].
            factors: float64[columns] that its columns are multiplied with: a norm's.

        Raises:
            PlanError: one of them has another shape.
        """
        if matrix.shape != (shape.rows, shape.columns):
            raise PlanError(f"a matrix of {matrix.shape} is not laid out as {shape}")
        if factors is not None and factors.shape != (shape.columns,):
            raise PlanError(f"{factors.shape} factors for {shape.columns} columns")
        self.shape = shape
        self._matrix = matrix
        self._factors = factors

    def babies(self, ev: Evaluator, x: Ciphertext) -> list[Ciphertext]:
        """Return the input's rotations, for this and all products with as many baby steps."""
        return [x, *(ev.rotate(x, i) for i in range(1, self.shape.baby))]

    def __call__(
        self, ev: Evaluator, x: Ciphertext, babies: Sequence[Ciphertext] | None = None
    ) -> list[Ciphertext]:
        """Return M x, a block of rows in each ciphertext, one level lower at the scale of x.

        Args:
            ev: what computes.
            x: the input as `Shape.spread` gives it, at level 1 or higher.
            babies: what `babies` gave of x for a product with the same baby steps.

        Raises:
            LevelError: x is at level 0.
            BackendError: a rotation's key is missing.
            RangeError: a block of rows is zero altogether, which SEAL cannot compute.
        """
        return list(self.blocks(ev, x, babies))

    def blocks(
        self, ev: Evaluator, x: Ciphertext, babies: Sequence[Ciphertext] | None = None
    ) -> Iterator[Ciphertext]:
        """Yield the ciphertexts of `__call__` one after the other."""
        rotated = self.babies(ev, x) if babies is None else babies
        if len(rotated) != self.shape.baby:
            raise PlanError("these baby steps are of another product")
        for block in range(self.shape.num_blocks):
            yield self._block(ev, rotated, self._padded(block))

    def _block(self, ev: Evaluator, babies: Sequence[Ciphertext], matrix: Values) -> Ciphertext:
        shape, level = self.shape, babies[0].level
        scale = float(ev.primes[level])
        total = None
        for j in range(shape.giant):
            part = None
            for i, values in self._diagonals(matrix, j):
                term = ev.mul_plain(babies[i], ev.encode(values, level, scale))
                part = term if part is None else ev.add(part, term)
            if part is None:
                continue
            part = ev.rotate(part, shape.baby * j) if j else part
            total = part if total is None else ev.add(total, part)
        if total is None:
            raise RangeError("a block of rows of a matrix is all zero")
        # Before the rescale, which divides what the rotations of this sum add to the noise.
        return ev.rescale(sum_blocks(ev, total, shape.copies, shape.stride))

    def _padded(self, block: int) -> Values:
        """Return a block of rows: float64[rows, C]."""
        shape = self.shape
        rows = self._matrix[block * shape.block_rows : (block + 1) * shape.block_rows]
        padded = np.zeros((len(rows), shape.period))
        padded[:, : shape.columns] = rows
        if self._factors is not None:
            padded[:, : shape.columns] *= self._factors
        return padded

    def _diagonals(self, matrix: Values, j: int) -> Iterator[tuple[int, Values]]:
        """Yield (i, float64[num_slots]) of the diagonals i + baby j that are not zero."""
        shape = self.shape
        copies, rows = np.divmod(np.arange(shape.copies * len(matrix)), len(matrix))
        first_columns = rows + copies * shape.diagonals + shape.baby * j
        row_starts = rows * shape.period
        # The giant step comes after the product, so its values stand that much further.
        slots = copies * shape.stride + rows + shape.baby * j
        for i in range(shape.baby):
            picked = matrix.take(row_starts + (first_columns + i) % shape.period)
            if picked.any():
                values = np.zeros(shape.num_slots)
                values[slots] = picked
                yield i, values
