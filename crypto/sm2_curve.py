"""The curve of SM2: its parameters, and whether a point lies on it.

Source: GB/T 32918.5-2017 (recommended parameters, `sm2p256v1`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

P: Final = 0xFFFFFFFEFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF00000000FFFFFFFFFFFFFFFF
A: Final = P - 3
B: Final = 0x28E9FA9E9D9F5E344D5A9E4BCF6509A7F39789F515AB8F92DDBCBD414D940E93
N: Final = 0xFFFFFFFEFFFFFFFFFFFFFFFFFFFFFFFF7203DF6B21C6052B53BBF40939D54123
"""The order of the base point, a prime; the cofactor is 1."""

FIELD_BYTES: Final = 32
POINT_BYTES: Final = 1 + 2 * FIELD_BYTES
UNCOMPRESSED: Final = b"\x04"
MAX_SECRET: Final = N - 2
"""The largest private key: 1 + d must have an inverse modulo n (GB/T 32918.1-2016, 6.1)."""


class Point(NamedTuple):
    """An affine point: x, y. The point at infinity has no such form."""

    x: int
    y: int

    def encode(self) -> bytes:
        """Return 04 || x || y, 65 bytes (GB/T 32918.1-2016, 4.2.9)."""
        x, y = self.x.to_bytes(FIELD_BYTES, "big"), self.y.to_bytes(FIELD_BYTES, "big")
        return UNCOMPRESSED + x + y


G: Final = Point(
    0x32C4AE2C1F1981195F9904466A39C9948FE30BBFF2660BE1715A4589334C74C7,
    0xBC3736A2F4F6779C59BDCEE36B692153D0A9877CC62A474002DF32E52139F0A0,
)


def is_on_curve(x: int, y: int) -> bool:
    """Return whether x and y are field elements with y^2 = x^3 + a x + b.

    Such a point has the order n, because the cofactor is 1.
    """
    return 0 <= x < P and 0 <= y < P and (y * y - (x * x + A) * x - B) % P == 0


def decode_point(data: bytes) -> Point | None:
    """Return the point that 65 bytes 04 || x || y encode, or None if they encode none."""
    if len(data) != POINT_BYTES or data[:1] != UNCOMPRESSED:
        return None
    x = int.from_bytes(data[1 : 1 + FIELD_BYTES], "big")
    y = int.from_bytes(data[1 + FIELD_BYTES :], "big")
    return Point(x, y) if is_on_curve(x, y) else None
