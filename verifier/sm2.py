"""SM2 signatures (GB/T 32918.2-2016 section 7, curve of GB/T 32918.5-2017): verification only."""

from __future__ import annotations

from verifier.errors import MalformedError
from verifier.sm3 import sm3

P = 0xFFFFFFFEFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF00000000FFFFFFFFFFFFFFFF
N = 0xFFFFFFFEFFFFFFFFFFFFFFFFFFFFFFFF7203DF6B21C6052B53BBF40939D54123
A = P - 3
B = 0x28E9FA9E9D9F5E344D5A9E4BCF6509A7F39789F515AB8F92DDBCBD414D940E93
G = (
    0x32C4AE2C1F1981195F9904466A39C9948FE30BBFF2660BE1715A4589334C74C7,
    0xBC3736A2F4F6779C59BDCEE36B692153D0A9877CC62A474002DF32E52139F0A0,
)
SPKI_HEAD = bytes.fromhex("3059301306072a8648ce3d020106082a811ccf5501822d034200")
IDENTITY = b"1234567812345678"

Point = tuple[int, int]
Jacobian = tuple[int, int, int]


def _bytes(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(32, "big") for number in numbers)


class PublicKey:
    """A point of the curve, its key id, and the odd multiples that verification needs."""

    def __init__(self, point: Point) -> None:
        x, y = point
        if not (0 <= x < P and 0 <= y < P) or (y * y - (x * x + A) * x - B) % P:
            raise MalformedError("point")
        self.point = point
        self.key_id = sm3(SPKI_HEAD, b"\x04", _bytes(x, y))
        self.identity_digest = sm3(
            (8 * len(IDENTITY)).to_bytes(2, "big"), IDENTITY, _bytes(A, B, *G, x, y)
        )
        self._multiples: list[list[Point]] = []

    @classmethod
    def from_spki(cls, der: bytes) -> PublicKey:
        """Read the one DER form that the key id is made of, 91 bytes (MalformedError)."""
        if len(der) != 91 or der[:26] != SPKI_HEAD or der[26] != 4:
            raise MalformedError("spki")
        return cls((int.from_bytes(der[27:59], "big"), int.from_bytes(der[59:], "big")))

    @property
    def multiples(self) -> list[list[Point]]:
        """1, 3, 5 .. 15 times the point, and so for 2^64, 2^128 and 2^192 times the point."""
        if not self._multiples:
            base: Jacobian = (*self.point, 1)
            self._multiples = [_odd_multiples(base)]
            for _ in range(3):
                for _ in range(64):
                    base = _double(base)
                self._multiples.append(_odd_multiples(base))
        return self._multiples


def verifies(key: PublicKey, message: bytes, signature: bytes) -> bool:
    """Return whether r || s is a signature of the message under the default identity."""
    if len(signature) != 64:
        return False
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    t = (r + s) % N
    if not (0 < r < N and 0 < s < N) or t == 0:
        return False
    e = int.from_bytes(sm3(key.identity_digest, message), "big")
    x, _, z = _sum_of_multiples(s, _BASE.multiples, t, key.multiples)
    if z == 0:
        return False
    inverse = pow(z, -1, P)
    return (e + x * inverse * inverse % P) % N == r


def _double(point: Jacobian) -> Jacobian:
    x, y, z = point
    zz = z * z % P
    yy = y * y % P
    b = x * yy % P
    m = 3 * (x - zz) * (x + zz) % P
    x3 = (m * m - 8 * b) % P
    return x3, (m * (4 * b - x3) - 8 * yy * yy) % P, 2 * y * z % P


def _add(point: Jacobian, other: Point) -> Jacobian:
    x1, y1, z1 = point
    x2, y2 = other
    if z1 == 0:
        return x2, y2, 1
    zz = z1 * z1 % P
    h = (x2 * zz - x1) % P
    w = (y2 * zz * z1 - y1) % P
    if h == 0:
        return _double(point) if w == 0 else (1, 1, 0)
    hh = h * h % P
    hhh = h * hh % P
    v = x1 * hh % P
    x3 = (w * w - hhh - 2 * v) % P
    return x3, (w * (v - x3) - y1 * hhh) % P, z1 * h % P


def _affine(points: list[Jacobian]) -> list[Point]:
    """Bring points other than infinity to z = 1 with one inversion."""
    products = [1]
    for _, _, z in points:
        products.append(products[-1] * z % P)
    inverse = pow(products[-1], -1, P)
    result = []
    for (x, y, z), before in zip(reversed(points), reversed(products[:-1]), strict=True):
        i = inverse * before % P
        inverse = inverse * z % P
        ii = i * i % P
        result.append((x * ii % P, y * ii * i % P))
    return result[::-1]


def _odd_multiples(base: Jacobian) -> list[Point]:
    (twice,) = _affine([_double(base)])
    multiples = [base]
    for _ in range(7):
        multiples.append(_add(multiples[-1], twice))
    return _affine(multiples)


def _digits(scalar: int) -> list[int]:
    """Return the signed digits of width 5, the lowest first: 0, or odd from -15 to 15."""
    digits = []
    while scalar:
        digit = 0
        if scalar & 1:
            digit = scalar & 31
            if digit > 15:
                digit -= 32
            scalar -= digit
        digits.append(digit)
        scalar >>= 1
    return digits


def _sum_of_multiples(
    s: int, of_base: list[list[Point]], t: int, of_key: list[list[Point]]
) -> Jacobian:
    """Add the quarters of both scalars in one run of 65 doublings."""
    terms: list[list[Point]] = [[] for _ in range(65)]
    for scalar, tables in ((s, of_base), (t, of_key)):
        for quarter, multiples in enumerate(tables):
            for place, digit in enumerate(_digits(scalar >> 64 * quarter & (1 << 64) - 1)):
                if digit:
                    x, y = multiples[abs(digit) >> 1]
                    terms[place].append((x, y if digit > 0 else P - y))
    total: Jacobian = (1, 1, 0)
    for points in reversed(terms):
        total = _double(total)
        for point in points:
            total = _add(total, point)
    return total


_BASE = PublicKey(G)
