"""NUMERICS.md once more, one number at a time, without NumPy.

A Python float is binary64. Its sum, difference, product, quotient and square root of binary32
numbers, rounded to binary32 afterwards, equal the binary32 operation, because 53 >= 2 * 24 + 2
(S. A. Figueroa, When is double rounding innocuous?, 1995); quotients that are subnormal are the
exception, and no test asks for them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence


def r32(x: float) -> float:
    """Round to binary32."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def r16(x: float) -> float:
    """Round to binary16."""
    return struct.unpack("<e", struct.pack("<e", x))[0]


def from_bits(bits: int) -> float:
    return struct.unpack("<f", bits.to_bytes(4, "little"))[0]


def to_bits(x: float) -> int:
    return int.from_bytes(struct.pack("<f", x), "little")


def fold16(v: Sequence[float]) -> float:
    p = [0.0] * 16
    for i, x in enumerate(v):
        p[i % 16] = r32(p[i % 16] + x)
    for w in (8, 4, 2, 1):
        for j in range(w):
            p[j] = r32(p[j] + p[j + w])
    return p[0]


def quantise(x: Sequence[float]) -> tuple[list[int], list[float]]:
    xq, a = [], []
    for k in range(0, len(x), 32):
        block = x[k : k + 32]
        amax = max(abs(value) for value in block)
        if amax < 2.0**-100:
            xq += [0] * 32
            a.append(0.0)
            continue
        a.append(r32(amax / 127))
        r = r32(127 / amax)
        xq += [round(r32(value * r)) for value in block]
    return xq, a


def linear_integer(
    x: Sequence[float],
    q: Sequence[int],
    s: Sequence[float],
    m: Sequence[float] | None,
    group: int,
) -> float:
    """One row, one output."""
    xq, a = quantise(x)
    acc = 0.0
    for g in range(len(q) // group):
        span = range(g * group, (g + 1) * group)
        scale = a[g * group // 32]
        product = sum(q[i] * xq[i] for i in span)
        acc = r32(acc + r32(product * r32(s[g] * scale)))
        if m is not None:
            acc = r32(acc + r32(sum(xq[i] for i in span) * r32(m[g] * scale)))
    return acc


def linear_float(x: Sequence[float], w: Sequence[float]) -> float:
    acc = 0.0
    for weight, value in zip(w, x, strict=True):
        acc = r32(acc + r32(weight * value))
    return acc


def exp(x: float) -> float:
    if x < -87:
        return 0.0
    x = min(x, 88.0)
    n = round(r32(x * from_bits(0x3FB8AA3B)))
    r = r32(r32(x - r32(n * from_bits(0x3F318000))) - r32(n * from_bits(0xB95E8083)))
    p = from_bits(0x3AB688BE)
    for bits in (0x3C0905F1, 0x3D2AAA8C, 0x3E2AAA6E, 0x3F000000, 0x3F800000, 0x3F800000):
        p = r32(r32(p * r) + from_bits(bits))
    return from_bits(to_bits(p) + n * 2**23)


def silu_mul(g: float, u: float) -> float:
    return r32(r32(g / r32(1 + exp(-g))) * u)


def rmsnorm(x: Sequence[float], weight: Sequence[float], eps: float) -> list[float]:
    ss = fold16([r32(value * value) for value in x])
    r = r32(1 / r32(math.sqrt(r32(r32(ss / len(x)) + eps))))
    return [r32(r32(value * r) * w) for value, w in zip(x, weight, strict=True)]


def rotate(v: Sequence[float], c: Sequence[float], s: Sequence[float]) -> list[float]:
    h = len(c)
    out = list(v)
    for i in range(h):
        out[i] = r32(r32(v[i] * c[i]) - r32(v[i + h] * s[i]))
        out[i + h] = r32(r32(v[i + h] * c[i]) + r32(v[i] * s[i]))
    return out


def attend(
    q: Sequence[float], keys: Sequence[Sequence[float]], values: Sequence[Sequence[float]]
) -> list[float]:
    """One query head of one position over all the keys given."""
    scale = r32(1 / r32(math.sqrt(len(q))))
    scaled = [r32(value * scale) for value in q]
    z = [linear_float(scaled, key) for key in keys]
    m = max(z)
    e = [exp(r32(score - m)) for score in z]
    r = r32(1 / fold16(e))
    return [r32(linear_float(e, [value[d] for value in values]) * r) for d in range(len(values[0]))]
