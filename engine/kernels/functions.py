"""exp, SiLU and the folds of one vector, as code (NUMERICS N1, N6)."""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from simd.code import I32, I32X16, Code, Val, vec

_LOG2_E: Final = 0x3FB8AA3B
_LN2_HIGH: Final = 0x3F318000
_LN2_LOW: Final = 0xB95E8083
_COEFFICIENTS: Final = (0x3C0905F1, 0x3D2AAA8C, 0x3E2AAA6E, 0x3F000000, 0x3F800000, 0x3F800000)
_FIRST_COEFFICIENT: Final = 0x3AB688BE
ABS_MASK: Final = 0x7FFFFFFF
INFINITY_BITS: Final = 0x7F800000


def exp(code: Code, x: Val, *, at_most_zero: bool = False) -> Val:
    """Emit exp of f32 lanes (N6); `at_most_zero` promises x <= 0.

    Below -87 the polynomial's lanes are meaningless and not chosen.
    """
    kind = x.type
    if not at_most_zero:
        highest = code.const(kind, 88.0)
        x = (x > highest).select(highest, x)
    n = code.rint(x * code.bits(kind, _LOG2_E))
    r = (x - n * code.bits(kind, _LN2_HIGH)) - n * code.bits(kind, _LN2_LOW)
    p = code.bits(kind, _FIRST_COEFFICIENT)
    for pattern in _COEFFICIENTS:
        p = p * r + code.bits(kind, pattern)
    integers = vec(I32, kind.count)
    bits = p.bitcast(integers) + (n.to_int(integers) << 23)
    return (x < code.const(kind, -87.0)).select(code.const(kind, 0.0), bits.bitcast(kind))


def silu_mul(code: Code, gate: Val, up: Val) -> Val:
    """Emit (g / (1 + exp(-g))) * u."""
    one = code.const(gate.type, 1.0)
    return (gate / (one + exp(code, code.negate(gate)))) * up


def fold_sum(code: Code, sums: Val) -> Val:
    """Emit the tree of fold16 over sixteen partial sums; returns the f32 scalar."""
    width = 8
    while width:
        high = sums.shuffle(list(range(width, 2 * width)))
        sums = sums.shuffle(list(range(width))) + high
        width //= 2
    return sums.lane(0)


def fold_max(code: Code, values: Val) -> Val:
    """Emit the maximum of sixteen f32 lanes, none of them NaN; returns the scalar."""
    width = 8
    while width:
        low = values.shuffle(list(range(width)))
        high = values.shuffle(list(range(width, 2 * width)))
        values = (high > low).select(high, low)
        width //= 2
    return values.lane(0)


def fold_integers(code: Code, values: Val, operation: str) -> Val:
    """Emit an exact reduction of int32 lanes, in any order: `add`, or `max` (unsigned)."""
    width = values.type.count // 2
    while width:
        high = values.shuffle(list(range(width, 2 * width)))
        low = values.shuffle(list(range(width)))
        values = low + high if operation == "add" else code.overloaded("llvm.umax", low, high)
        width //= 2
    return values.lane(0)


def magnitude_bits(code: Code, values: Val) -> Val:
    """Return the bit patterns of |x|: ordered like the magnitudes, infinity and NaN above all."""
    return values.bitcast(vec(I32, values.type.count)) & ABS_MASK


def lane_numbers(code: Code) -> Val:
    """Return int32 0..15."""
    return code.val(ir.Constant(I32X16, list(range(16))))
