"""RoPE's inverse frequencies as binary64 patterns, scaling included (NUMERICS N7).

Computed with `decimal` at 50 digits by `ln`, `exp` and the four operations, each of which is
correctly rounded by specification, and rounded once to binary64 at the end: no library of any
machine has a say.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import NamedTuple

from engine.convert.bits import binary64_bits
from engine.errors import ConversionError

DIGITS = 50

MAX_THETA = Decimal(10) ** 30

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")


class Llama3Scaling(NamedTuple):
    """Constants of the `llama3` scaling: long waves are slowed, short ones kept."""

    factor: Decimal
    low_freq_factor: Decimal
    high_freq_factor: Decimal
    original_context_tokens: int


def inverse_frequencies(
    theta: Decimal,
    rotated_dims: int,
    *,
    linear_factor: Decimal = Decimal(1),
    divisors: Sequence[Decimal] | None = None,
    llama3: Llama3Scaling | None = None,
) -> tuple[int, ...]:
    """Compute theta^(-2i / rotated_dims), scale it, and round it to binary64.

    Args:
        theta: Base of the frequencies.
        rotated_dims: Dimensions of a head that are rotated, an even number.
        linear_factor: Every frequency is divided by it (`linear` scaling).
        divisors: One divisor per frequency (`rope_freqs.weight` of a GGUF file).
        llama3: Constants of the `llama3` scaling.

    Returns:
        `rotated_dims / 2` binary64 patterns.

    Raises:
        ConversionError: A constant is out of its range, or a frequency is above 1 or rounds to 0.

    Source: RoFormer (arXiv 2104.09864) section 3.4; Llama 3.1 model card code for `llama3`.
    """
    if not 1 <= theta <= MAX_THETA:
        raise ConversionError(f"RoPE theta {theta} is not between 1 and {MAX_THETA}")
    _check_factor("factor of linear scaling", linear_factor)
    if llama3 is not None:
        _check_llama3(llama3)
    if divisors is not None and len(divisors) != rotated_dims // 2:
        raise ConversionError(
            f"{len(divisors)} RoPE frequency factors for {rotated_dims // 2} frequencies"
        )
    patterns = []
    with localcontext(Context(prec=DIGITS, rounding=ROUND_HALF_EVEN)):
        log_theta = theta.ln()
        for i in range(rotated_dims // 2):
            frequency = (-(Decimal(2 * i) / Decimal(rotated_dims)) * log_theta).exp()
            if llama3 is not None:
                frequency = _scale_llama3(frequency, llama3)
            if divisors is not None:
                _check_factor(f"frequency factor {i}", divisors[i])
                frequency = frequency / divisors[i]
            patterns.append(_pattern(frequency / linear_factor))
    return tuple(patterns)


def _scale_llama3(frequency: Decimal, scaling: Llama3Scaling) -> Decimal:
    wavelength = 2 * PI / frequency
    original = Decimal(scaling.original_context_tokens)
    if wavelength < original / scaling.high_freq_factor:
        return frequency
    if wavelength > original / scaling.low_freq_factor:
        return frequency / scaling.factor
    smooth = (original / wavelength - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    return (1 - smooth) * frequency / scaling.factor + smooth * frequency


def _check_llama3(scaling: Llama3Scaling) -> None:
    _check_factor("factor of llama3 scaling", scaling.factor)
    _check_factor("low_freq_factor", scaling.low_freq_factor)
    _check_factor("high_freq_factor", scaling.high_freq_factor)
    if scaling.low_freq_factor >= scaling.high_freq_factor:
        raise ConversionError("low_freq_factor of llama3 scaling is not below high_freq_factor")
    if not 1 <= scaling.original_context_tokens <= 1 << 30:
        raise ConversionError("original_max_position_embeddings is out of range")


def _check_factor(name: str, value: Decimal) -> None:
    if not Decimal("1e-6") <= value <= Decimal("1e6"):
        raise ConversionError(f"{name}: {value} is out of range")


def _pattern(frequency: Decimal) -> int:
    if not 0 < frequency <= 1:
        raise ConversionError(f"a RoPE frequency of {frequency:.6} is not between 0 and 1")
    bits = binary64_bits(frequency)
    if bits == 0:
        raise ConversionError("a RoPE frequency rounds to zero")
    return bits
