"""The compression function of SM3 on one block of every lane.

Source: GB/T 32905-2016, sections 4 and 5. Capital letters are the standard's registers.
"""

from __future__ import annotations

from typing import Final

from crypto.kernels.lanes import load_words, quarter, rotate_bytes, swap_bytes, transpose, words
from simd.code import Code, Val, Var

BLOCK_BYTES: Final = 64
INITIAL: Final = (
    0x7380166F,
    0x4914B2B9,
    0x172442D7,
    0xDA8A0600,
    0xA96F30BC,
    0x163138AA,
    0xE38DEE4D,
    0xB0FB0E4E,
)
_FIRST_T: Final = 0x79CC4519  # rounds 0 .. 15
_SECOND_T: Final = 0x7A879D8A  # rounds 16 .. 63
_ROUNDS: Final = 64


def _constant(round_number: int) -> int:
    """Return T rotated left by the number of the round."""
    value = _FIRST_T if round_number < 16 else _SECOND_T
    by = round_number % 32
    return (value << by | value >> (32 - by)) & 0xFFFFFFFF


class Compression:
    """Writes the compression function for one width of registers."""

    def __init__(self, lanes: int, *, has_rotate: bool) -> None:
        """Choose how to rotate.

        Args:
            lanes: 4, 8 or 16.
            has_rotate: whether vectors rotate in one instruction; where they do not, three are
                needed, and a rotation that differs from another by whole bytes is a shuffle of it.
        """
        self.lanes = lanes
        self._has_rotate = has_rotate

    def _further(self, rotated: Val, plain: Val, bits: int, already: int) -> Val:
        """Rotate `plain` by `bits`, given it rotated by `already`; they differ by whole bytes."""
        if self._has_rotate:
            return plain.rotate_left(bits)
        return rotate_bytes(rotated, (bits - already) // 8)

    def compress(self, code: Code, state: Val, pointers: Val, offset: Val, blocks: Val) -> None:
        """Compress `blocks` blocks of every lane.

        Args:
            code: where to write.
            state: address of u32[8, lanes].
            pointers: address of i64[lanes], where each lane's input lies.
            offset: of the first block in each input.
            blocks: how many; may be 0.
        """
        kind = words(self.lanes)
        row_bytes = 4 * self.lanes
        registers = [code.var(code.load(kind, state + k * row_bytes)) for k in range(8)]
        with code.loop(0, blocks) as block:
            at = offset + block * BLOCK_BYTES
            inputs = [code.word(pointers, lane) + at for lane in range(self.lanes)]
            self._one_block(code, registers, inputs)
        for k, register in enumerate(registers):
            code.store(register.get(), state + k * row_bytes)

    def _one_block(self, code: Code, registers: list[Var], inputs: list[Val]) -> None:
        w: list[Val] = []
        for offset in range(0, BLOCK_BYTES, 16):
            w += load_words(code, inputs, offset)
        by_7: dict[int, Val] = {}
        before = [register.get() for register in registers]
        A, B, C, D, E, F, G, H = before
        for j in range(_ROUNDS):
            if j >= 12:
                w.append(self._expanded(w, by_7))
            a_12 = A.rotate_left(12)
            ss1 = (a_12 + (E + _constant(j))).rotate_left(7)
            if j < 16:
                ff, gg = A ^ B ^ C, E ^ F ^ G
            else:
                ff, gg = (A & B) | (C & (A | B)), G ^ (E & (F ^ G))
            tt1 = (ff + D + (w[j] ^ w[j + 4])) + (ss1 ^ a_12)
            tt2 = (gg + H + w[j]) + ss1
            by_9 = tt2.rotate_left(9)
            D, C, B, A = C, B.rotate_left(9), A, tt1
            H, G, F, E = G, F.rotate_left(19), E, tt2 ^ by_9 ^ self._further(by_9, tt2, 17, 9)
        for register, old, new in zip(registers, before, (A, B, C, D, E, F, G, H), strict=True):
            register.set(old ^ new)

    def _expanded(self, w: list[Val], by_7: dict[int, Val]) -> Val:
        """Return the next word of the expanded message."""
        j = len(w)
        by_7[j - 13] = by_7.get(j - 13) or w[j - 13].rotate_left(7)
        if self._has_rotate or j - 3 > 54:  # no later word needs that one rotated by 7
            by_15 = w[j - 3].rotate_left(15)
        else:
            by_7[j - 3] = w[j - 3].rotate_left(7)
            by_15 = rotate_bytes(by_7[j - 3], 1)
        x = w[j - 16] ^ w[j - 9] ^ by_15
        x_15 = x.rotate_left(15)
        p1 = x ^ x_15 ^ self._further(x_15, x, 23, 15)
        return p1 ^ by_7[j - 13] ^ w[j - 6]

    def start(self, code: Code, state: Val) -> None:
        """Write the initial value of every lane."""
        for k, word in enumerate(INITIAL):
            code.store(code.const(words(self.lanes), word), state + 4 * self.lanes * k)

    def store_digests(self, code: Code, state: Val, out: Val) -> None:
        """Write every lane's digest, u8[lanes, 32]."""
        for half in range(2):
            rows = [
                swap_bytes(code.load(words(self.lanes), state + 4 * self.lanes * (4 * half + k)))
                for k in range(4)
            ]
            for j, column in enumerate(transpose(rows)):
                for q in range(self.lanes // 4):
                    code.store(quarter(column, q), out + 32 * (4 * q + j) + 16 * half)
