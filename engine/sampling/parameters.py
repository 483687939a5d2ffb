"""S1: sampling parameters, integers in millionths made from the decimal text of a request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from engine.errors import ConfigError

ONE: Final = 1_000_000
MAX_LOGPROBS: Final = 20
MAX_LOGIT_BIASES: Final = 1024
MAX_VOCAB_SIZE: Final = 1 << 20

_NUMBER: Final = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_MAX_TEXT: Final = 100
_PLACES: Final = 6
_MAX_DIGITS: Final = 40
_HUNDRED: Final = 100 * ONE


def millionths(text: str) -> int:
    """Round the decimal text of a JSON number to millionths, half to even.

    The number never passes through a float, so that every reader of a request computes the same.

    Args:
        text: a number by the grammar of RFC 8259, section 6, of at most 100 characters.

    Raises:
        ConfigError: not such a number, or of 10^34 or more.
    """
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise ConfigError(f"{text[:_MAX_TEXT]!r} is not a decimal number of at most 100 characters")
    sign, whole, fraction, exponent = match.groups()
    digits = int(whole + (fraction or ""))
    shift = int(exponent or "0") - len(fraction or "") + _PLACES
    if digits == 0:
        return 0
    if len(str(digits)) + shift > _MAX_DIGITS:
        raise ConfigError(f"{text!r} is too large")
    value: int = digits * 10**shift if shift >= 0 else _divide_half_even(digits, -shift)
    return -value if sign else value


def _divide_half_even(digits: int, places: int) -> int:
    if places > len(str(digits)):
        return 0
    unit: int = 10**places
    quotient, rest = divmod(digits, unit)
    double = 2 * rest
    return quotient + int(double > unit or (double == unit and quotient % 2 == 1))


@dataclass(frozen=True, slots=True)
class SamplingParameters:
    """How tokens are chosen. The default draws from the model's own distribution.

    Attributes:
        seed: key of the generator, 0 .. 2^64 - 1.
        temperature_millionths: 0 takes the largest logit; at most 100.
        top_k: candidates kept, 0 for all.
        top_p_millionths: probability mass kept, 0 .. 1; 1 for all, 0 for the first candidate.
        min_p_millionths: least probability relative to the first candidate's, 0 .. 1.
        repetition_penalty_millionths: 0.01 .. 100, for ids of prompt and output; 1 for none.
        presence_penalty_millionths: -100 .. 100, once for each id of the output.
        frequency_penalty_millionths: -100 .. 100, for each time that an id is in the output.
        logit_bias_millionths: pairs (id, -100 .. 100), ids strictly ascending, at most 1024.
        logprobs: None for no log-probabilities, else the number of alternatives listed, 0 .. 20.

    Raises:
        ConfigError: a value is outside its range.
    """

    seed: int = 0
    temperature_millionths: int = ONE
    top_k: int = 0
    top_p_millionths: int = ONE
    min_p_millionths: int = 0
    repetition_penalty_millionths: int = ONE
    presence_penalty_millionths: int = 0
    frequency_penalty_millionths: int = 0
    logit_bias_millionths: tuple[tuple[int, int], ...] = ()
    logprobs: int | None = None

    def __post_init__(self) -> None:
        """Refuse values outside their ranges."""
        _require("seed", self.seed, 0, (1 << 64) - 1)
        _require("temperature", self.temperature_millionths, 0, _HUNDRED)
        _require("top_k", self.top_k, 0, (1 << 31) - 1)
        _require("top_p", self.top_p_millionths, 0, ONE)
        _require("min_p", self.min_p_millionths, 0, ONE)
        _require("repetition_penalty", self.repetition_penalty_millionths, ONE // 100, _HUNDRED)
        _require("presence_penalty", self.presence_penalty_millionths, -_HUNDRED, _HUNDRED)
        _require("frequency_penalty", self.frequency_penalty_millionths, -_HUNDRED, _HUNDRED)
        if self.logprobs is not None:
            _require("logprobs", self.logprobs, 0, MAX_LOGPROBS)
        _require("number of logit biases", len(self.logit_bias_millionths), 0, MAX_LOGIT_BIASES)
        last = -1
        for token_id, bias in self.logit_bias_millionths:
            _require("id of a logit bias", token_id, last + 1, MAX_VOCAB_SIZE - 1)
            _require("logit bias", bias, -_HUNDRED, _HUNDRED)
            last = token_id

    @property
    def has_penalties(self) -> bool:
        """Whether earlier ids change the logits."""
        return (
            self.repetition_penalty_millionths != ONE
            or self.presence_penalty_millionths != 0
            or self.frequency_penalty_millionths != 0
        )


def _require(name: str, value: int, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise ConfigError(f"{name} is outside its range")
