"""From decimal numbers to the bit patterns that a manifest holds, rounded exactly once.

`float(text)` followed by a conversion to binary32 would round twice; this is exact integer
arithmetic instead, so that the result depends on nothing but the number.
"""

from __future__ import annotations

from decimal import Decimal

from engine.errors import ConversionError

MAX_DIGITS = 800
"""Longest number that is accepted: more than any binary64 needs to be written exactly."""

MAX_EXPONENT = 400
"""Largest decimal exponent, in magnitude, that is accepted: beyond it no binary64 is left."""


def binary32_bits(value: Decimal) -> int:
    """Return the pattern of the binary32 nearest to `value`, ties to even.

    Raises:
        ConversionError: `value` is not finite, too long, or rounds to infinity.

    Source: IEEE 754-2019, sections 3.4 and 4.3.1.
    """
    return _nearest(value, fraction_bits=23, least_exponent=-149, sign_bit=31)


def binary64_bits(value: Decimal) -> int:
    """Return the pattern of the binary64 nearest to `value`, ties to even.

    Raises:
        ConversionError: `value` is not finite, too long, or rounds to infinity.

    Source: IEEE 754-2019, sections 3.4 and 4.3.1.
    """
    return _nearest(value, fraction_bits=52, least_exponent=-1074, sign_bit=63)


def _nearest(value: Decimal, *, fraction_bits: int, least_exponent: int, sign_bit: int) -> int:
    if not value.is_finite():
        raise ConversionError(f"{value} is not a finite number")
    sign = int(value.is_signed()) << sign_bit
    if not value:
        return sign
    if abs(value.adjusted()) > MAX_EXPONENT or len(value.as_tuple().digits) > MAX_DIGITS:
        raise ConversionError("the number is out of range or has too many digits")
    numerator, denominator = value.copy_abs().as_integer_ratio()
    leading = numerator.bit_length() - denominator.bit_length()
    if _shifted(numerator, -leading) < _shifted(denominator, leading):
        leading -= 1  # 2^leading is the value's leading bit
    last = max(leading - fraction_bits, least_exponent)
    upper, lower = _shifted(numerator, -last), _shifted(denominator, last)
    significand, remainder = divmod(upper, lower)
    if 2 * remainder > lower or (2 * remainder == lower and significand & 1):
        significand += 1
    # the leading bit of a normal significand adds one to the exponent field, as does a carry
    bits = significand + ((last - least_exponent) << fraction_bits)
    infinity = (1 << sign_bit) - (1 << fraction_bits)
    if bits >= infinity:
        raise ConversionError("the number is too large")
    return sign | bits


def _shifted(number: int, places: int) -> int:
    """Multiply by 2^places where that is a whole number; the caller shifts the other side."""
    return number << max(places, 0)
