"""Passes over whole vectors of logits, as vector code.

The same operations as `engine.sampling.reference`. A pass works on `blocks` blocks of 32 elements
at byte addresses; sixteen lanes are the sixteen partial sums of N1. Numbers go in and out as int64:
addresses, counts, and the bit patterns of f32 values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llvmlite import ir

from engine.kernels.functions import (
    ABS_MASK,
    INFINITY_BITS,
    exp,
    fold_integers,
    fold_sum,
    magnitude_bits,
)
from engine.kernels.machine import set_float_control
from simd.build import inline
from simd.code import F32, F32X16, I1, I16, I32, I64, Code, Val, vec

BLOCK: Final = 32
FIRST_BUCKET: Final = 0x3C80  # high half of the pattern of 2^-6
BUCKETS: Final = 2048
_BYTES: Final = 4 * BLOCK
_F32X32, _I32X32 = vec(F32, BLOCK), vec(I32, BLOCK)
_LOW_HALF, _HIGH_HALF = list(range(16)), list(range(16, 32))
Pass = Callable[..., int]
_HALF_ROOT: Final = 0x3F3504F3
_TWO_NINTHS: Final = 0x3E638E39
_SERIES: Final = (0x3E924925, 0x3ECCCCCD, 0x3F2AAAAB)
_LN2_HIGH: Final = 0x3F318000
_LN2_LOW: Final = 0xB95E8083


def _scalar(bits: Val) -> Val:
    return bits.trunc(I32).bitcast(F32)


def _as_bits(value: Val) -> Val:
    return value.bitcast(I32).zext(I64)


def _both(code: Code, first: Val, second: Val) -> Val:
    return code.val(code.builder.and_(first.ir, second.ir))


def _enter(code: Code) -> None:
    set_float_control(code)


def _scan(code: Code, source: Val, copy: Val, blocks: Val, start: Val) -> Val:
    """Copy; return the bits of the largest value and `start`, or -1 if a value is not finite."""
    largest = code.var(_scalar(start).splat(BLOCK))
    magnitude = code.var(code.const(_I32X32, 0))
    with code.loop(0, blocks) as i:
        v = code.load(_F32X32, source + i * _BYTES, align=4)
        code.store(v, copy + i * _BYTES, align=4)
        largest.set((v > largest.get()).select(v, largest.get()))
        magnitude.set(code.overloaded("llvm.umax", magnitude.get(), magnitude_bits(code, v)))
    m = largest.get()
    width = BLOCK // 2
    while width:
        low, high = m.shuffle(list(range(width))), m.shuffle(list(range(width, 2 * width)))
        m = (high > low).select(high, low)
        width //= 2
    is_finite = fold_integers(code, magnitude.get(), "max") < INFINITY_BITS
    return is_finite.select(_as_bits(m.lane(0)), code.i64(-1))


def _first(code: Code, logits: Val, blocks: Val, largest: Val) -> Val:
    """S6: return the index of the first value that equals `largest`."""
    m = _scalar(largest).splat(BLOCK)
    at = code.var(code.i64(0))
    with code.forever() as token:
        v = code.load(_F32X32, logits + at.get() * 4, align=4)
        hits = v.equals(m).bitcast(I32)
        is_hit = hits.differs(0)
        step = is_hit.select(_lowest(code, hits).zext(I64), code.i64(BLOCK))
        at.set(at.get() + step)
        code.leave_if(is_hit, token)
        code.leave_if(blocks * BLOCK < at.get() + 1, token)
    return at.get()


def _lowest(code: Code, bits: Val) -> Val:
    return code.call("llvm.cttz.i32", I32, bits, code.val(ir.Constant(I1, 0)))


def _distances(logits: Val, largest: Val, scale: Val) -> Val:
    return ((largest - logits).bitcast(_I32X32) & ABS_MASK).bitcast(_F32X32) * scale


def _inverse(code: Code, temperature: Val) -> Val:
    return (code.const(F32, 1.0) / _scalar(temperature)).splat(BLOCK)


def _temper(
    code: Code,
    logits: Val,
    distances: Val,
    buckets: Val,
    blocks: Val,
    largest: Val,
    temperature: Val,
) -> None:
    """S7: distances from the largest, and the bucket of each."""
    m, r = _scalar(largest).splat(BLOCK), _inverse(code, temperature)
    with code.loop(0, blocks) as i:
        d = _distances(code.load(_F32X32, logits + i * _BYTES, align=4), m, r)
        _store_distances(code, d, distances, buckets, i)


def _store_distances(code: Code, d: Val, distances: Val, buckets: Val, i: Val) -> None:
    """Store a block of distances and its buckets: the high half counted from 2^-6 on, clipped."""
    code.store(d, distances + i * _BYTES, align=4)
    b = (d.bitcast(_I32X32) >> 16) - FIRST_BUCKET
    b = code.overloaded("llvm.smax", b, code.const(_I32X32, 0))
    b = code.overloaded("llvm.smin", b, code.const(_I32X32, BUCKETS - 1))
    code.store(b.trunc(vec(I16, BLOCK)), buckets + i * (_BYTES // 2), align=2)


def _weigh(
    code: Code,
    logits: Val,
    distances: Val,
    buckets: Val,
    weights: Val,
    blocks: Val,
    largest: Val,
    temperature: Val,
) -> Val:
    """S7 and S9: as `temper`, and e^-d of each; return the bits of their sum (N1)."""
    m, r = _scalar(largest).splat(BLOCK), _inverse(code, temperature)
    sums = code.var(code.const(F32X16, 0.0))
    with code.loop(0, blocks) as i:
        d = _distances(code.load(_F32X32, logits + i * _BYTES, align=4), m, r)
        _store_distances(code, d, distances, buckets, i)
        e = exp(code, code.negate(d))
        code.store(e, weights + i * _BYTES, align=4)
        sums.set((sums.get() + e.shuffle(_LOW_HALF)) + e.shuffle(_HIGH_HALF))
    return _as_bits(fold_sum(code, sums.get()))


def _shares(code: Code, weights: Val, shares: Val, blocks: Val, total: Val) -> None:
    """S9: (e * (1 / total)) * 2^30, cut to an integer."""
    r = (code.const(F32, 1.0) / _scalar(total)).splat(BLOCK)
    scale = code.const(_F32X32, float(1 << 30))
    with code.loop(0, blocks) as i:
        share = (code.load(_F32X32, weights + i * _BYTES, align=4) * r) * scale
        code.store(share.to_int(_I32X32), shares + i * _BYTES, align=4)


def _gather(code: Code, distances: Val, blocks: Val, low: Val, high: Val, found: Val) -> Val:
    """List, ascending, the indices of the distances with a pattern in [low, high); count them."""
    count = code.var(code.i64(0))
    least, limit = low.trunc(I32).splat(BLOCK), high.trunc(I32).splat(BLOCK)
    with code.loop(0, blocks) as i:
        v = code.load(_I32X32, distances + i * _BYTES, align=4)
        hits = _both(code, v >= least, v < limit).bitcast(I32)
        with code.when(hits.differs(0)):
            rest = code.var(hits)
            with code.forever() as token:
                index = _lowest(code, rest.get()) + (i * BLOCK).trunc(I32)
                code.store(index, found + count.get() * 4, align=4)
                count.set(count.get() + 1)
                rest.set(rest.get() & (rest.get() - 1))
                code.leave_if(rest.get().equals(0), token)
    return count.get()


def _mass_above(
    code: Code, distances: Val, weights: Val, shares: Val, blocks: Val, least: Val
) -> Val:
    """S11: the sum of the shares nearer than the first weight below `least`."""
    nothing = code.const(_I32X32, ABS_MASK)
    bound, nearest = _scalar(least).splat(BLOCK), code.var(nothing)
    with code.loop(0, blocks) as i:
        e = code.load(_F32X32, weights + i * _BYTES, align=4)
        d = (e < bound).select(code.load(_I32X32, distances + i * _BYTES, align=4), nothing)
        nearest.set(code.overloaded("llvm.smin", nearest.get(), d))
    # A smallest value is the complement of the largest complement.
    complement = fold_integers(code, nearest.get() ^ -1, "max")
    limit = (complement ^ -1).splat(BLOCK)
    sums = code.var(code.const(_I32X32, 0))
    with code.loop(0, blocks) as i:
        d = code.load(_I32X32, distances + i * _BYTES, align=4)
        share = code.load(_I32X32, shares + i * _BYTES, align=4)
        sums.set(sums.get() + (d < limit).select(share, code.const(_I32X32, 0)))
    return fold_integers(code, sums.get(), "add").sext(I64)


def _log(code: Code, bits: Val) -> Val:
    """S13: the logarithm of a finite x >= 1."""
    pattern = bits.trunc(I32)
    # The difference is never negative for x >= 1, so that a logical shift is enough.
    exponent = (pattern - _HALF_ROOT) >> 23
    fraction = (pattern - (exponent << 23)).bitcast(F32)
    k = exponent.to_float(F32)
    one = code.const(F32, 1.0)
    s = (fraction - one) / (fraction + one)
    w = s * s
    p = code.bits(F32, _TWO_NINTHS)
    for coefficient in _SERIES:
        p = p * w + code.bits(F32, coefficient)
    y = s * code.const(F32, 2.0) + (s * w) * p
    return _as_bits((y + k * code.bits(F32, _LN2_LOW)) + k * code.bits(F32, _LN2_HIGH))


enter: Pass = inline(_enter, 0)
scan: Pass = inline(_scan, 4)
first: Pass = inline(_first, 3)
temper: Pass = inline(_temper, 6)
weigh: Pass = inline(_weigh, 7)
shares: Pass = inline(_shares, 4)
gather: Pass = inline(_gather, 5)
mass_above: Pass = inline(_mass_above, 5)
log: Pass = inline(_log, 1)
