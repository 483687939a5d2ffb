"""Exact integer dot products, path by path.

A panel has 16 rows; a path works on it in parts of `rows` rows, each lane of a result being one
row. One *step* is four
inputs: the weights of a part are then 4 * rows unsigned bytes (row-major, four inputs a row) and
the activations one int32 holding four int8, copied to all rows. Products are summed in an
accumulator that cannot overflow for a bounded number of steps (`steps_per_flush`); `flush` turns
it into one exact int32 a row.

Bounds, with activations -128..127 and weights below 2^bits: AVX2 sums pairs in int16, 2 * 128 * 15
* 8 steps = 30720, 2 * 128 * 31 * 4 = 31744, 2 * 128 * 63 * 2 = 32256; portable sums single
products, 128 * 15 * 8 = 15360, 128 * 31 * 8 = 31744, 128 * 63 * 4 = 32256: all below 32768.
Eight-bit weights go through twice, as two four-bit halves, but for AVX-512, whose instruction adds
four products to an int32 without saturating.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final

from engine.kernels.machine import add_in_order
from simd.code import I8, I16, I32, Code, IrType, Val, vec
from simd.target import TARGET


class Dot(ABC):
    """One path's way of multiplying four-input steps."""

    rows: ClassVar[int]
    splits_bytes: ClassVar[bool] = True

    @property
    def parts(self) -> int:
        """How many parts a panel has."""
        return 16 // self.rows

    @property
    def weights_type(self) -> IrType:
        """The vector of one part's weights in a step."""
        return vec(I8, 4 * self.rows)

    @abstractmethod
    def steps_per_flush(self, bits: int) -> int:
        """Return how many steps of `bits`-bit weights an accumulator holds."""

    @abstractmethod
    def add(self, code: Code, sum_so_far: Val | None, weights: Val, inputs: Val) -> Val:
        """Add one step; `inputs` is an int32 of four int8."""

    @abstractmethod
    def flush(self, code: Code, sums: Val) -> Val:
        """Return int32[rows]."""


class Avx2Dot(Dot):
    """vpmaddubsw into int16 pairs, vpmaddwd to int32."""

    rows = 8

    def steps_per_flush(self, bits: int) -> int:
        """Return the bound for pairs in int16."""
        return {4: 8, 5: 4, 6: 2}[bits]

    def add(self, code: Code, sum_so_far: Val | None, weights: Val, inputs: Val) -> Val:
        """Add pairs to pairs: the bound keeps them from wrapping."""
        spread = inputs.splat(self.rows).bitcast(self.weights_type)
        pairs = code.call("llvm.x86.avx2.pmadd.ub.sw", vec(I16, 2 * self.rows), weights, spread)
        return pairs if sum_so_far is None else add_in_order(code, sum_so_far, pairs)

    def flush(self, code: Code, sums: Val) -> Val:
        """Add the two pairs of each row."""
        ones = code.const(sums.type, 1)
        return code.call("llvm.x86.avx2.pmadd.wd", vec(I32, self.rows), sums, ones)


class Avx512Dot(Dot):
    """vpdpbusd into int32."""

    rows = 16
    splits_bytes = False

    def steps_per_flush(self, bits: int) -> int:
        """Return the whole group: int32 holds it."""
        return 8

    def add(self, code: Code, sum_so_far: Val | None, weights: Val, inputs: Val) -> Val:
        """Add four products a row."""
        total = code.const(vec(I32, 16), 0) if sum_so_far is None else sum_so_far
        spread = inputs.splat(16).bitcast(self.weights_type)
        return code.call("llvm.x86.avx512.vpdpbusd.512", total.type, total, weights, spread)

    def flush(self, code: Code, sums: Val) -> Val:
        """Return the sums: they are one a row already."""
        return sums


class EmulatedAvx512Dot(Avx512Dot):
    """The same tiles with the instruction spelled out: products in int32, four neighbours added."""

    def add(self, code: Code, sum_so_far: Val | None, weights: Val, inputs: Val) -> Val:
        """Add four products a row."""
        total = code.const(vec(I32, 16), 0) if sum_so_far is None else sum_so_far
        wide = vec(I32, 64)
        products = weights.zext(wide) * inputs.splat(16).bitcast(self.weights_type).sext(wide)
        for offset in range(4):
            total = total + products.shuffle(list(range(offset, 64, 4)))
        return total


class PortableDot(Dot):
    """Plain products in int16, summed lane by lane; `flush` adds the four of a row."""

    rows = 8

    def steps_per_flush(self, bits: int) -> int:
        """Return the bound for single products in int16."""
        return {4: 8, 5: 8, 6: 4}[bits]

    def add(self, code: Code, sum_so_far: Val | None, weights: Val, inputs: Val) -> Val:
        """Add one product a lane."""
        wide = vec(I16, 4 * self.rows)
        spread = inputs.splat(self.rows).bitcast(self.weights_type)
        products = weights.zext(wide) * spread.sext(wide)
        return products if sum_so_far is None else sum_so_far + products

    def flush(self, code: Code, sums: Val) -> Val:
        """Add the four lanes of each row."""
        wide = vec(I32, self.rows)
        lanes = [sums.shuffle(list(range(n, 4 * self.rows, 4))).sext(wide) for n in range(4)]
        return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])


_PATHS: Final[dict[str, Callable[[], Dot]]] = {
    "avx2": Avx2Dot,
    "avx512": Avx512Dot,
    "avx512-emulated": EmulatedAvx512Dot,
    "portable": PortableDot,
}
DOT: Final = _PATHS[TARGET.path]()
