"""Sums of multiples of points, for public numbers.

Jacobian coordinates (X, Y, Z) stand for the affine point (X / Z^2, Y / Z^3); Z = 0 is the point at
infinity. Multiples are taken with signed odd digits, so the time depends on the numbers: nothing
secret that is used more than once may come here.

Source: Hankerson, Menezes, Vanstone, Guide to Elliptic Curve Cryptography, 3.2.2 (formulas for
a = -3) and 3.3.1 (width-w non-adjacent form).
"""

from __future__ import annotations

from functools import cache
from typing import Final

from crypto.sm2_curve import G, P, Point

_Jacobian = tuple[int, int, int]
_INFINITY: Final[_Jacobian] = (1, 1, 0)
_WIDTH: Final = 5
_GENERATOR_WIDTH: Final = 7


def multiply(k: int, point: Point) -> Point | None:
    """Return k times a point of the curve, None for infinity; k is 0 or more and public.

    A number that is drawn for one encryption and used once counts as public here.
    """
    return _affine(_sum([(_digits(k, _WIDTH), _odd_multiples(point, _WIDTH))]))


def multiply_generator(k: int) -> Point | None:
    """Return k times the base point, None for infinity; see `multiply`."""
    return _affine(_sum([(_digits(k, _GENERATOR_WIDTH), _generator_multiples())]))


def add_multiples(s: int, t: int, point: Point) -> Point | None:
    """Return s times the base point plus t times `point`, None for infinity; all public."""
    return _affine(
        _sum(
            [
                (_digits(s, _GENERATOR_WIDTH), _generator_multiples()),
                (_digits(t, _WIDTH), _odd_multiples(point, _WIDTH)),
            ]
        )
    )


def _digits(k: int, width: int) -> list[int]:
    """Return the width-w non-adjacent form of k: odd or zero, below 2^(w-1), lowest first."""
    if k < 0:
        raise ValueError("a multiple is not negative")
    digits = []
    base = 1 << width
    while k:
        digit = 0
        if k & 1:
            digit = k % base
            if digit >= base >> 1:
                digit -= base
            k -= digit
        digits.append(digit)
        k >>= 1
    return digits


def _sum(terms: list[tuple[list[int], list[_Jacobian]]]) -> _Jacobian:
    """Add up multiples given as digits and the odd multiples of their point: one doubling a bit."""
    total = _INFINITY
    for position in reversed(range(max(len(digits) for digits, _ in terms))):
        total = _double(total)
        for digits, multiples in terms:
            digit = digits[position] if position < len(digits) else 0
            if digit > 0:
                total = _add(total, multiples[digit >> 1])
            elif digit < 0:
                x, y, z = multiples[-digit >> 1]
                total = _add(total, (x, P - y, z))
    return total


def _odd_multiples(point: Point, width: int) -> list[_Jacobian]:
    """Return 1, 3, 5 .. 2^(w-1) - 1 times a point."""
    multiples: list[_Jacobian] = [(point.x, point.y, 1)]
    twice = _double(multiples[0])
    for _ in range((1 << (width - 2)) - 1):
        multiples.append(_add(multiples[-1], twice))
    return multiples


@cache
def _generator_multiples() -> list[_Jacobian]:
    """Return the odd multiples of the base point with Z = 1, which are cheaper to add."""
    points = [_affine(multiple) for multiple in _odd_multiples(G, _GENERATOR_WIDTH)]
    return [(point.x, point.y, 1) for point in points if point is not None]


def _double(point: _Jacobian) -> _Jacobian:
    """Return twice a point."""
    x, y, z = point
    if not z:
        return point  # there is no point of order 2: n is odd and the cofactor 1
    yy = y * y % P
    zz = z * z % P
    xyy4 = 4 * x * yy % P
    slope = 3 * (x - zz) * (x + zz) % P
    x3 = (slope * slope - 2 * xyy4) % P
    return x3, (slope * (xyy4 - x3) - 8 * yy * yy) % P, 2 * y * z % P


def _add(p: _Jacobian, q: _Jacobian) -> _Jacobian:
    """Return the sum of two points, equal and opposite ones included."""
    x1, y1, z1 = p
    x2, y2, z2 = q
    if not z1:
        return q
    if not z2:
        return p
    z1z1 = z1 * z1 % P
    if z2 == 1:
        u1, s1 = x1, y1
    else:
        z2z2 = z2 * z2 % P
        u1, s1 = x1 * z2z2 % P, y1 * z2z2 * z2 % P
    h = (x2 * z1z1 - u1) % P
    r = (y2 * z1z1 * z1 - s1) % P
    if not h:
        return _INFINITY if r else _double(p)
    hh = h * h % P
    hhh = h * hh % P
    v = u1 * hh % P
    x3 = (r * r - hhh - 2 * v) % P
    return x3, (r * (v - x3) - s1 * hhh) % P, z1 * z2 * h % P


def _affine(point: _Jacobian) -> Point | None:
    """Return the affine form, None for infinity."""
    x, y, z = point
    if not z:
        return None
    inverse = pow(z, -1, P)
    square = inverse * inverse % P
    return Point(x * square % P, y * square * inverse % P)
