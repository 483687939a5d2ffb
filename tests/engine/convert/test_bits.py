"""Decimal numbers become the nearest binary32 and binary64, in one rounding."""

from __future__ import annotations

import struct
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.convert.bits import MAX_DIGITS, binary32_bits, binary64_bits
from engine.errors import ConversionError


def bits64(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def bits32(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_binary64_is_its_own_nearest(value: float):
    assert binary64_bits(Decimal(value)) == bits64(value)
    assert binary64_bits(Decimal(repr(value))) == bits64(value)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_every_binary32_is_its_own_nearest(value: float):
    assert binary32_bits(Decimal(value)) == bits32(value)


@given(st.integers(0, 0x7F7FFFFE), st.integers(-1, 1))
def test_ties_go_to_the_even_binary32(bits: int, side: int):
    low, high = (struct.unpack("<f", struct.pack("<I", b))[0] for b in (bits, bits + 1))
    with localcontext(prec=400):
        middle = (Decimal(low) + Decimal(high)) / 2
        nudged = middle + side * (Decimal(high) - Decimal(low)) / Decimal(10) ** 12
    even = bits if bits % 2 == 0 else bits + 1
    assert binary32_bits(nudged) == {-1: bits, 0: even, 1: bits + 1}[side]


def test_rounding_twice_would_differ():
    # just above the middle of two binary32; as a binary64 it is exactly the middle
    value = Decimal(1) + Decimal(2) ** -24 + Decimal(2) ** -80
    assert bits32(float(value)) == 0x3F800000
    assert binary32_bits(value) == 0x3F800001


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("0", 0),
        ("-0", 0x80000000),
        ("1e-5", 0x3727C5AC),
        ("1e-6", 0x358637BD),
        ("1e-300", 0),
        ("-1.5", 0xBFC00000),
        ("3.4028235677973367e38", None),
        ("3.4028235677973366e38", 0x7F7FFFFF),
        ("1e39", None),
        ("1e401", None),
        ("1e999999999", None),
        ("NaN", None),
        ("Infinity", None),
        ("1." + "3" * MAX_DIGITS, None),
    ],
)
def test_binary32_of_text(text: str, bits: int | None):
    if bits is None:
        with pytest.raises(ConversionError):
            binary32_bits(Decimal(text))
    else:
        assert binary32_bits(Decimal(text)) == bits
