"""The S-box of SM4 as an inversion in the field of AES between two affine maps, and what follows.

CPUs invert in the field of AES: x^8 + x^4 + x^3 + x + 1. SM4 inverts in that of
x^8 + x^7 + x^6 + x^5 + x^4 + x^2 + 1: S(x) = A inv(A x + C) + C, A circulant. The two fields are
isomorphic, so S(x) = exit(inv(enter(x))) with affine maps of eight bits and AES's inversion.

A round replaces X0 by X0 + L(S(t)), t = X1 + X2 + X3 + round key (+ is exclusive or). With << as
the shift of a byte, >> likewise and y1 .. y3 the next lower bytes, a byte of L(y) is

    (y + y<<2) + (y1 + y2)<<2 + (y1 + y2)>>6 + (y3 + y3>>6)

which is the same map of every byte of a word, rotated. So a round is two maps of inv(enter(t)):

    X0 + w + rol8(v) + rol16(v) + rol24(v + w)

Rounds work on enter(X), linear part only, so that `enter` falls away inside: v and w end with it.

Sources: GB/T 32907-2016 (S-box, L); the form of the S-box is public knowledge since 2008 (F. Liu et
al., "Analysis of the SMS4 block cipher"), and `derive` compares all its 256 values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from crypto.errors import SelfTestError

SBOX: Final = bytes.fromhex(
    "d690e9fecce13db716b614c228fb2c052b679a762abe04c3aa44132649860699"
    "9c4250f491ef987a33540b43edcfac62e4b31ca9c908e89580df94fa758f3fa6"
    "4707a7fcf37317ba83593c19e6854fa8686b81b27164da8bf8eb0f4b70569d35"
    "1e240e5e6358d1a225227c3b01217887d40046579fd327524c3602e7a0c4c89e"
    "eabf8ad240c738b5a3f7f2cef96115a1e0ae5da49b341a55ad933230f58cb1e3"
    "1df6e22e8266ca60c02923ab0d534e6fd5db3745defd8e2f03ff6a726d6c5b51"
    "8d1baf92bbddbc7f11d95c411f105ad80ac13188a5cd7bbd2d74d012b8e5b4b0"
    "8969974a0c96777e65b9f109c56ec68418f07dec3adc4d2079ee5f3ed7cb3948"
)
_AES_FIELD: Final = 0x11B
_SM4_FIELD: Final = 0x1F5
_CIRCULANT: Final = 0xA7  # first row of A
_CONSTANT: Final = 0xD3  # C
_AES_CIRCULANT: Final = 0xF1  # row of the matrix behind the inversion in AES's S-box
_AES_CONSTANT: Final = 0x63


@dataclass(frozen=True, slots=True)
class Affine:
    """A map of bytes: the exclusive or of `constant` and the columns where the input has a bit."""

    columns: tuple[int, ...]
    constant: int

    def __call__(self, x: int) -> int:
        """Return the image of a byte."""
        image = self.constant
        for bit, column in enumerate(self.columns):
            image ^= column if x >> bit & 1 else 0
        return image

    @property
    def linear(self) -> Affine:
        """The map without its constant."""
        return Affine(self.columns, 0)

    def as_qword(self) -> int:
        """Return the matrix as the operand of a GFNI instruction: rows, the lowest bit's last."""
        rows = [sum((c >> i & 1) << bit for bit, c in enumerate(self.columns)) for i in range(8)]
        return int.from_bytes(bytes(reversed(rows)), "little")

    def as_tables(self) -> tuple[bytes, bytes]:
        """Return the images by the low four bits, and what the high four bits add to them."""
        low = bytes(self(x) for x in range(16))
        high = bytes(self(x << 4) ^ self.constant for x in range(16))
        return low, high


class Maps(NamedTuple):
    """The maps of a round. `exit` and later ones take what AES's inversion gives.

    enter: before the inversion. exit: behind it, to the S-box's value. v, w: see above.
    leave: from enter's linear part back.
    """

    enter: Affine
    exit: Affine
    v: Affine
    w: Affine
    leave: Affine

    def after_aes_sbox(self) -> Maps:
        """Return the maps for what AES's S-box gives in place of its inversion."""
        undo = _affine(_inverse(_affine(lambda x: _circulant(_AES_CIRCULANT, x) ^ _AES_CONSTANT)))

        def after(affine: Affine) -> Affine:
            """Return the map behind undoing what AES's S-box adds to its inversion."""
            return _affine(lambda x: affine(undo(x)))

        return self._replace(exit=after(self.exit), v=after(self.v), w=after(self.w))


def _affine(function: Callable[[int], int]) -> Affine:
    """Return a function that is known to be affine as a matrix and a constant."""
    constant = function(0)
    return Affine(tuple(function(1 << bit) ^ constant for bit in range(8)), constant)


def _inverse(function: Callable[[int], int]) -> Callable[[int], int]:
    """Return the inverse of a permutation of bytes."""
    return {function(x): x for x in range(256)}.__getitem__


def _circulant(row: int, x: int) -> int:
    """Multiply by the matrix whose row i is `row` rotated left by i; bit i of the product."""
    rows = [(row << i | row >> (8 - i)) & 0xFF for i in range(8)]
    return sum(((r & x).bit_count() & 1) << i for i, r in enumerate(rows))


def multiply(a: int, b: int, field: int) -> int:
    """Multiply in the field of 256 elements with a reduction polynomial."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a <<= 1
        a ^= field if a & 0x100 else 0
        b >>= 1
    return product


def invert(x: int, field: int) -> int:
    """Return the inverse in the field, 0 for 0."""
    power = 1
    for _ in range(254):
        power = multiply(power, x, field)
    return power


def _isomorphism() -> Affine:
    """Return the linear map from SM4's field to AES's: its x goes to a root of its polynomial."""
    for root in range(2, 256):
        powers = [1]
        for _ in range(8):
            powers.append(multiply(powers[-1], root, _AES_FIELD))
        value = 0
        for exponent, power in enumerate(powers):
            value ^= power if _SM4_FIELD >> exponent & 1 else 0
        if value == 0:
            return Affine(tuple(powers[:8]), 0)
    raise SelfTestError("fields of 256 elements are not isomorphic")


@cache
def derive() -> Maps:
    """Return the maps, compared with the S-box.

    Raises:
        SelfTestError: they do not give it.
    """
    to_aes = _isomorphism()
    from_aes = _inverse(to_aes)
    enter = _affine(lambda x: to_aes(_circulant(_CIRCULANT, x) ^ _CONSTANT))
    exit_ = _affine(lambda x: _circulant(_CIRCULANT, from_aes(x)) ^ _CONSTANT)
    if bytes(exit_(invert(enter(x), _AES_FIELD)) for x in range(256)) != SBOX:
        raise SelfTestError("SM4: the S-box is not what its maps give")
    linear = enter.linear
    return Maps(
        enter=enter,
        exit=exit_,
        v=_affine(lambda x: linear((exit_(x) << 2 | exit_(x) >> 6) & 0xFF)),
        w=_affine(lambda x: linear((exit_(x) ^ exit_(x) << 2) & 0xFF)),
        leave=_affine(_inverse(linear)),
    )
