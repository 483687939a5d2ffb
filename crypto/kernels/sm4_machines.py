"""The instructions with which CPUs compute an S-box in vectors: those for AES, and GFNI.

A machine inverts every byte in the field of AES and applies maps of `crypto.kernels.sm4_maps`.
What comes out of `substitute` may lie in another order; `place` puts it right while it rotates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, Protocol

from crypto.kernels.lanes import as_bytes, as_words
from crypto.kernels.sm4_maps import Affine, Maps, derive
from simd.code import I8, I64, Code, Val, vec


class Machine(Protocol):
    """What the rounds of SM4 need."""

    @property
    def maps(self) -> Maps:
        """The maps that go with `substitute`."""
        ...

    def linear(self, code: Code, x: Val, affine: Affine) -> Val:
        """Apply a map's linear part to the bytes of a vector of words."""
        ...

    def substitute(self, code: Code, x: Val, maps: Sequence[Affine]) -> list[Val]:
        """Return each map of what the machine substitutes for the bytes of x."""
        ...

    def place(self, x: Val, rotation: int) -> Val:
        """Put the result of `substitute` in order, rotated left by whole bytes."""
        ...


class Gfni:
    """GFNI: one instruction for the inversion and an affine map."""

    @property
    def maps(self) -> Maps:
        """The maps around the inversion."""
        return derive()

    def _instruction(self, code: Code, name: str, x: Val, affine: Affine) -> Val:
        lanes = x.type.count
        matrix = code.const(vec(I64, lanes // 2), affine.as_qword()).bitcast(vec(I8, 4 * lanes))
        constant = code.const(I8, affine.constant)
        name = f"llvm.x86.vgf2p8affine{name}qb.{32 * lanes}"
        return as_words(code.call(name, matrix.type, as_bytes(x), matrix, constant))

    def linear(self, code: Code, x: Val, affine: Affine) -> Val:
        """Apply a map's linear part to the bytes of a vector of words."""
        return self._instruction(code, "", x, affine.linear)

    def substitute(self, code: Code, x: Val, maps: Sequence[Affine]) -> list[Val]:
        """Return each map of the inverse of each byte."""
        return [self._instruction(code, "inv", x, affine) for affine in maps]

    def place(self, x: Val, rotation: int) -> Val:
        """Rotate left by whole bytes."""
        return x.rotate_left(8 * rotation) if rotation else x


class GfniSpelledOut(Gfni):
    """The same with its instructions written in plain vector operations, for any CPU.

    It is there to run the rest of the code where these instructions cannot be executed.
    """

    def _instruction(self, code: Code, name: str, x: Val, affine: Affine) -> Val:
        inverts = name == "inv"
        slot = code.buffer(x.type)
        code.store(x, slot)

        def emit(inner: Code, address: Val, matrix: Val, constant: Val) -> None:
            value = inner.load(vec(I8, 4 * x.type.count), address)
            if inverts:
                value = _inverted(value)
            rows = [(matrix >> (56 - 8 * bit)).trunc(I8) for bit in range(8)]
            result = constant.trunc(I8).splat(value.type.count)
            for bit, row in enumerate(rows):
                parity = value & row.splat(value.type.count)
                for shift in (4, 2, 1):
                    parity = parity ^ (parity >> shift)
                result = result ^ ((parity & 1) << bit)
            inner.store(result, address)

        qword = affine.as_qword()
        signed = qword - (qword >> 63 << 64)
        subroutine = f"gfni_affine_{name}_{x.type.count}"
        code.subroutine(subroutine, emit, slot, code.i64(signed), code.i64(affine.constant))
        return code.load(x.type, slot)


def _product(a: Val, b: Val) -> Val:
    """Multiply bytes in the field of AES."""
    product = a ^ a
    for bit in range(8):
        product = product ^ (b & (1 << bit)).differs(0).select(a, a ^ a)
        a = (a << 1) ^ (a & 0x80).differs(0).select(a.code.const(a.type, 0x1B), a ^ a)
    return product


def _inverted(x: Val) -> Val:
    """Return x^254: the product of x^2, x^4 ... x^128."""
    square = _product(x, x)
    power = square
    for _ in range(6):
        square = _product(square, square)
        power = _product(power, square)
    return power


# Where AES's ShiftRows puts the bytes of 16: row r of column c comes from column c + r.
_SHIFT_ROWS: Final = [(i + 4 * (i % 4)) % 16 for i in range(16)]
_UNSHIFT: Final = [_SHIFT_ROWS.index(i) for i in range(16)]


class Aes:
    """The last round of AES, and affine maps from tables by four bits."""

    def __init__(self, *, is_wide: bool) -> None:
        """Choose the instruction.

        Args:
            is_wide: on 32 bytes at once (VAES); else on 16.
        """
        self._is_wide = is_wide

    @cached_property
    def maps(self) -> Maps:
        """The maps around AES's S-box."""
        return derive().after_aes_sbox()

    def linear(self, code: Code, x: Val, affine: Affine) -> Val:
        """Apply a map's linear part to the bytes of a vector of words."""
        return self._mapped(code, x, [affine.linear])[0]

    def substitute(self, code: Code, x: Val, maps: Sequence[Affine]) -> list[Val]:
        """Return each map of what AES's S-box gives for each byte, rows shifted."""
        bits = 128 if not self._is_wide else 32 * x.type.count
        kind, suffix = vec(I64, bits // 64), "" if bits == 128 else f".{bits}"
        whole = x.bitcast(vec(I64, x.type.count // 2))
        step = kind.count
        parts = [
            whole.shuffle(list(range(i, i + step))) if step < whole.type.count else whole
            for i in range(0, whole.type.count, step)
        ]
        name = f"llvm.x86.aesni.aesenclast{suffix}"
        parts = [code.call(name, kind, part, code.const(kind, 0)) for part in parts]
        while len(parts) > 1:
            parts = [a.join(b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return self._mapped(code, parts[0].bitcast(x.type), maps)

    def place(self, x: Val, rotation: int) -> Val:
        """Undo the shift of rows and rotate left by whole bytes."""
        size = 4 * x.type.count
        rotated = [4 * (i // 4) + (i - rotation) % 4 for i in range(16)]
        order = [part + _UNSHIFT[i] for part in range(0, size, 16) for i in rotated]
        return as_words(as_bytes(x).shuffle(order))

    @staticmethod
    def _mapped(code: Code, x: Val, maps: Sequence[Affine]) -> list[Val]:
        size = 4 * x.type.count
        mask = code.const(x.type, 0x0F0F0F0F)
        low, high = as_bytes(x & mask), as_bytes((x >> 4) & mask)

        def look_up(table: bytes, index: Val) -> Val:
            repeated = code.table(index.type, table * (size // 16))
            return code.call("llvm.x86.avx2.pshuf.b", index.type, repeated, index)

        found = []
        for affine in maps:
            by_low, by_high = affine.as_tables()
            found.append(as_words(look_up(by_low, low) ^ look_up(by_high, high)))
        return found
