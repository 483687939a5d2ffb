"""RoPE: the table of a step (NUMERICS N7), and the rotation into the cache (N9)."""

from __future__ import annotations

from fractions import Fraction
from math import factorial
from typing import Final

from engine.kernels.cache_number import BLOCK_POSITIONS, KEYS_IN_VECTOR, CacheNumber
from engine.kernels.functions import INFINITY_BITS, fold_integers, fold_sum, magnitude_bits
from engine.kernels.program import (
    STEP_BLOCK_TABLES,
    STEP_POSITIONS,
    STEP_ROWS,
    argument,
    grab,
)
from engine.kernels.rows import flag_row
from simd.code import F32, F32X16, F64, I32, I32X16, I64, Code, Val, vec

_TWO_OVER_PI: Final = 0x3FE45F306DC9C883
_PARTS: Final = (0x3FF921FB54400000, 0x3DD0B4611A600000, 0x3BA3198A2E037073)
_SINE: Final = tuple(float(Fraction((-1) ** n, factorial(2 * n + 1))) for n in range(6, 0, -1))
_COSINE: Final = tuple(float(Fraction((-1) ** n, factorial(2 * n))) for n in range(7, 0, -1))


def _horner(code: Code, w: Val, coefficients: tuple[float, ...]) -> Val:
    total = code.const(F64, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * w + code.const(F64, coefficient)
    return total


def emit_table(code: Code, instruction: Val, step: Val, _thread: Val) -> None:
    """Write cosines and sines of every row's position: f32[rows, 2, pairs]."""
    frequencies, pairs = argument(code, instruction, 0), argument(code, instruction, 1)
    table, positions = argument(code, instruction, 2), code.word(step, STEP_POSITIONS)
    with grab(code, instruction, code.word(step, STEP_ROWS), 1) as (begin, end):
        with code.loop(begin, end) as row:
            position = code.load(I32, positions + row * 4, align=4).to_float(F64)
            with code.loop(0, pairs) as i:
                z = position * code.load(F64, frequencies + i * 8, align=8)
                n = code.rint(z * code.bits(F64, _TWO_OVER_PI))
                y = z
                for pattern in _PARTS:
                    y = y - n * code.bits(F64, pattern)
                w = y * y
                sine = y + (y * w) * _horner(code, w, _SINE)
                cosine = code.const(F64, 1.0) + w * _horner(code, w, _COSINE)
                quadrant = n.to_int(I64) & 3
                odd = (quadrant & 1).differs(0)
                c, s = odd.select(sine, cosine), odd.select(cosine, sine)
                flip_c = ((quadrant + 1) & 2).differs(0)
                flip_s = (quadrant & 2).differs(0)
                c, s = flip_c.select(code.negate(c), c), flip_s.select(code.negate(s), s)
                target = table + (row * pairs * 2 + i) * 4
                code.store(c.fptrunc(F32), target, align=4)
                code.store(s.fptrunc(F32), target + pairs * 4, align=4)


# Arguments of emit_rotate.
(
    QUERIES,
    KEYS,
    VALUES,
    HEADS,
    KV_HEADS,
    HEAD_SIZE,
    PAIRS,
    TABLE,
    LAYER_OFFSET,
    Q_NORM,
    K_NORM,
    EPSILON,
    Q_STRIDE,
    K_STRIDE,
    V_STRIDE,
) = range(15)


def _normalise_head(code: Code, head: Val, size: Val, weight: Val, epsilon: Val) -> None:
    """RMSNorm of one head in place (N8)."""
    sums = code.var(code.const(F32X16, 0.0))
    with code.loop(0, size, 16) as k:
        values = code.load(F32X16, head + k * 4)
        sums.set(sums.get() + values * values)
    mean = fold_sum(code, sums.get()) / size.to_float(F32)
    r = (code.const(F32, 1.0) / code.sqrt(mean + epsilon)).splat(16)
    with code.loop(0, size, 16) as k:
        code.store(
            (code.load(F32X16, head + k * 4) * r) * code.load(F32X16, weight + k * 4), head + k * 4
        )


def _rotate_head(code: Code, head: Val, pairs: Val, cosines: Val) -> None:
    """Rotate one head in place."""
    eight = vec(F32, 8)
    with code.loop(0, pairs, 8) as i:
        c, s = code.load(eight, cosines + i * 4), code.load(eight, cosines + (pairs + i) * 4)
        a, b = code.load(eight, head + i * 4), code.load(eight, head + (pairs + i) * 4)
        code.store(a * c - b * s, head + i * 4)
        code.store(b * c + a * s, head + (pairs + i) * 4)


def emit_rotate(code: Code, number: CacheNumber, instruction: Val, step: Val, _thread: Val) -> None:
    """Normalise heads where the model does, rotate, scale queries, store keys and values.

    A block of the cache holds, for one layer and key/value head, keys as [4][head size][16
    positions] and then values as [64 positions][head size].
    """
    size, pairs = argument(code, instruction, HEAD_SIZE), argument(code, instruction, PAIRS)
    epsilon = argument(code, instruction, EPSILON).trunc(I32).bitcast(F32)
    positions, tables = code.word(step, STEP_POSITIONS), code.word(step, STEP_BLOCK_TABLES)
    scale = (code.const(F32, 1.0) / code.sqrt(size.to_float(F32))).splat(16)
    rows = code.word(step, STEP_ROWS)
    with grab(code, instruction, rows, (rows > 64).select(code.i64(4), code.i64(1))) as (
        begin,
        end,
    ):
        with code.loop(begin, end) as row:
            cosines = argument(code, instruction, TABLE) + row * pairs * 8
            worst = code.var(code.const(I32X16, 0))
            queries = argument(code, instruction, QUERIES) + row * argument(
                code, instruction, Q_STRIDE
            )
            q_norm = argument(code, instruction, Q_NORM)
            with code.loop(0, argument(code, instruction, HEADS)) as head:
                q = queries + head * size * 4
                with code.when(q_norm.differs(0)):
                    _normalise_head(code, q, size, q_norm, epsilon)
                _rotate_head(code, q, pairs, cosines)
                with code.loop(0, size, 16) as d:
                    values = code.load(F32X16, q + d * 4)
                    worst.set(
                        code.overloaded("llvm.umax", worst.get(), magnitude_bits(code, values))
                    )
                    code.store(values * scale, q + d * 4)
            position = code.load(I32, positions + row * 4, align=4).sext(I64)
            table = code.word(tables + row * 8, 0)
            block = code.word(table + (position // BLOCK_POSITIONS) * 8, 0)
            block = block + argument(code, instruction, LAYER_OFFSET)
            slot = position % BLOCK_POSITIONS
            head_bytes = size * (2 * BLOCK_POSITIONS * number.size_bytes)
            keys = argument(code, instruction, KEYS) + row * argument(code, instruction, K_STRIDE)
            values = argument(code, instruction, VALUES) + row * argument(
                code, instruction, V_STRIDE
            )
            k_norm = argument(code, instruction, K_NORM)
            with code.loop(0, argument(code, instruction, KV_HEADS)) as head:
                k = keys + head * size * 4
                with code.when(k_norm.differs(0)):
                    _normalise_head(code, k, size, k_norm, epsilon)
                _rotate_head(code, k, pairs, cosines)
                group, lane = slot // KEYS_IN_VECTOR, slot % KEYS_IN_VECTOR
                target = (
                    block
                    + head * head_bytes
                    + (group * size * KEYS_IN_VECTOR + lane) * number.size_bytes
                )
                value_target = block + head * head_bytes + number.bytes(size * BLOCK_POSITIONS)
                value_target = value_target + number.bytes(slot * size)
                with code.loop(0, size, 16) as d:
                    key = number.narrow(code.load(F32X16, k + d * 4))
                    for lane_number in range(16):
                        address = target + number.bytes((d + lane_number) * KEYS_IN_VECTOR)
                        code.store(key.lane(lane_number), address, align=2)
                    value = number.narrow(code.load(F32X16, values + (head * size + d) * 4))
                    code.store(value, value_target + number.bytes(d))
                    for stored in (key, value):
                        bits = magnitude_bits(code, number.widen(stored))
                        worst.set(code.overloaded("llvm.umax", worst.get(), bits))
            largest = fold_integers(code, worst.get(), "max")
            flag_row(code, step, row, largest >= INFINITY_BITS)
