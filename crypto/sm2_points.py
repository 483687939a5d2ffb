"""Sums of multiples of points, for public numbers.

A multiple is written with 264 signs, k = sum of +-2^i, which every odd number below 2^264 has; the
order n is odd, so k or k + n is one. The signs stand in a grid of 11 columns: the signs of a column
are teeth at a fixed distance, and a table holds the sum of the teeth for all their signs. A sum of
multiples then takes 10 doublings in all and, for each tooth-wide piece of a column, one addition.

    base point   8 teeth,  3 pieces a column:  3 tables of 256 points, 33 additions
    others       6 teeth,  4 pieces a column:  4 tables of  64 points, 44 additions

Tables are built when they are first needed: the one of the base point is kept, and those of the 16
points used last. What is looked up, and the time of a first use, depend on the numbers and points:
nothing secret that is used more than once may come here.

Coordinates (X, Y, Z^2, Z^3) stand for the affine point (X / Z^2, Y / Z^3); Z = 0 is the point at
infinity. Adding an affine point to them takes nine reductions.

Source: Explicit-Formulas Database (Bernstein, Lange), short Weierstrass curves, XYZZ coordinates;
Hankerson, Menezes, Vanstone, Guide to Elliptic Curve Cryptography, 3.3.2 (combs) and algorithm 2.26
(inverses at the price of one); Hedabou, Pinel, Beneteau, A comb method to render ECC resistant
against side channel attacks, 2004 (digits without zero).
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import accumulate
from typing import Final

from crypto.sm2_curve import G, N, P, Point

_Scaled = tuple[int, int, int, int]
_Affine = tuple[int, int]
_Table = list[_Affine]
_INFINITY: Final[_Scaled] = (1, 1, 0, 0)
_SIGNS: Final = 264
_COLUMNS: Final = 11
_GENERATOR_TEETH: Final = 8
_TEETH: Final = 6
_KEPT_POINTS: Final = 16


def multiply(k: int, point: Point) -> Point | None:
    """Return k times a point of the curve, None for infinity; k is 0 or more and public.

    A number that is drawn for one encryption and used once counts as public here.
    """
    return _sum([(k, _tables_of(point))])


def multiply_generator(k: int) -> Point | None:
    """Return k times the base point, None for infinity; see `multiply`."""
    return _sum([(k, _generator_tables())])


def add_multiples(s: int, t: int, point: Point) -> Point | None:
    """Return s times the base point plus t times `point`, None for infinity; all public."""
    return _sum([(s, _generator_tables()), (t, _tables_of(point))])


@cache
def _generator_tables() -> list[_Table]:
    return _build_tables(G, _GENERATOR_TEETH)


@lru_cache(maxsize=_KEPT_POINTS)
def _tables_of(point: Point) -> list[_Table]:
    return _build_tables(point, _TEETH)


def _build_tables(point: Point, teeth: int) -> list[_Table]:
    """Return, for each piece of a column, the sums of its teeth for the signs of an index.

    A one in the index is a plus; its highest bit belongs to the highest tooth. No sum is infinity:
    it is the point times 2^i times an odd number, together below n.
    """
    doubles: list[_Scaled] = [(point.x, point.y, 1, 1)]
    for _ in range(_SIGNS - _COLUMNS + 1):
        doubles.append(_double(doubles[-1]))
    bases = _to_affine(doubles[:-1:_COLUMNS])
    steps = _to_affine(doubles[1::_COLUMNS])  # from a minus to a plus at the same tooth
    pieces = len(bases) // teeth
    sums: list[_Scaled] = []
    for piece in range(pieces):
        *lower, (x, y) = bases[piece::pieces]
        lowest: _Scaled = (x, y, 1, 1)
        for x, y in lower:
            lowest = _add(lowest, x, P - y)
        of_piece = [lowest]
        for x, y in steps[piece::pieces][:-1]:
            of_piece += [_add(one, x, y) for one in of_piece]
        sums += of_piece
    upper = _to_affine(sums)
    half = 1 << (teeth - 1)
    tables = []
    for start in range(0, len(upper), half):
        plus = upper[start : start + half]
        tables.append([(x, P - y) for x, y in reversed(plus)] + plus)
    return tables


def _sum(terms: list[tuple[int, list[_Table]]]) -> Point | None:
    """Add up multiples of points, given with their tables."""
    columns: list[_Table] = [[] for _ in range(_COLUMNS)]
    for k, tables in terms:
        signs = _signs(k)
        distance = len(tables) * _COLUMNS
        for piece, table in enumerate(tables):
            last = distance - 1 - piece * _COLUMNS
            for column in range(_COLUMNS):
                columns[column].append(table[int(signs[last - column :: distance], 2)])
    total = _INFINITY
    for points in reversed(columns):
        total = _double(total)
        for x, y in points:
            total = _add(total, x, y)
    if not total[2]:
        return None
    return Point(*_to_affine([total])[0])


def _signs(k: int) -> str:
    """Return the signs of k modulo n, the highest first: 1 is plus, 0 is minus."""
    if k < 0:
        raise ValueError("a multiple is not negative")
    odd = k % N
    if not odd & 1:
        odd += N
    return f"{(odd + (1 << _SIGNS)) >> 1:0{_SIGNS}b}"


def _double(point: _Scaled) -> _Scaled:
    """Return twice a point."""
    x, y, zz, zzz = point
    if not zz:
        return point  # there is no point of order 2: n is odd and the cofactor 1
    yy4 = 4 * y * y % P
    yyy8 = 2 * y * yy4 % P
    v = x * yy4 % P
    slope = 3 * (x - zz) * (x + zz) % P
    x3 = (slope * slope - 2 * v) % P
    return x3, (slope * (v - x3) - yyy8 * y) % P, yy4 * zz % P, yyy8 * zzz % P


def _add(point: _Scaled, x2: int, y2: int) -> _Scaled:
    """Return the sum of a point and an affine one, equal and opposite ones included."""
    x1, y1, zz, zzz = point
    if not zz:
        return x2, y2, 1, 1
    h = (x2 * zz - x1) % P
    r = (y2 * zzz - y1) % P
    if not h:
        return _INFINITY if r else _double(point)
    hh = h * h % P
    hhh = h * hh % P
    v = x1 * hh % P
    x3 = (r * r - hhh - 2 * v) % P
    return x3, (r * (v - x3) - y1 * hhh) % P, zz * hh % P, zzz * hhh % P


def _to_affine(points: list[_Scaled]) -> list[_Affine]:
    """Return the affine forms of points other than infinity, with one inversion for all."""
    products = list(accumulate((point[3] for point in points), _multiply_mod, initial=1))
    inverse = pow(products.pop(), -1, P)
    affine = []
    for x, y, zz, zzz in reversed(points):
        one = inverse * products.pop() % P  # 1 / Z^3
        inverse = inverse * zzz % P
        root = one * zz % P
        affine.append((x * (root * root % P) % P, y * one % P))
    return affine[::-1]


def _multiply_mod(a: int, b: int) -> int:
    return a * b % P
