from __future__ import annotations

import decimal
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ConfigError
from engine.sampling.choice import check_vocabulary
from engine.sampling.parameters import ONE, SamplingParameters, millionths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-0.0", 0),
        ("1", ONE),
        ("0.7", 700_000),
        ("1e-3", 1_000),
        ("2.5E+0", 2_500_000),
        ("-1.25", -1_250_000),
        ("0.0000005", 0),
        ("0.0000015", 2),
        ("0.0000025", 2),
        ("0.00000250000000000000000000000000000000000001", 3),
        ("-0.0000015", -2),
        ("0.30000000000000004", 300_000),
        ("1e-99999999", 0),
        ("0e99999999", 0),
        ("9999999999999999999999999999999999", 9999999999999999999999999999999999 * ONE),
    ],
)
def test_millionths(text: str, expected: int) -> None:
    assert millionths(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", ".5", "5.", "01", "+1", "1e", "NaN", "Infinity", "0x1", "1_0", " 1", "1 ", "\u0661", "-",
     "1" * 101, "1e34", "1e99999999999999999999999999999999999999"],
)  # fmt: skip
def test_what_is_no_decimal_number_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        millionths(text)


@given(st.decimals(-(10**20), 10**20, allow_nan=False))
def test_millionths_round_half_to_even(number: decimal.Decimal) -> None:
    text = str(number)
    with decimal.localcontext(prec=200):
        exact = number.scaleb(6).to_integral_value(decimal.ROUND_HALF_EVEN)
    if len(text) <= 100:
        assert millionths(text) == int(exact)


@given(st.floats(-1e6, 1e6))
def test_every_json_number_of_a_float_is_read(number: float) -> None:
    assert abs(millionths(json.dumps(number)) - number * ONE) <= 0.5 + abs(number) * ONE * 1e-15


@pytest.mark.parametrize(
    "change",
    [
        {"seed": -1},
        {"seed": 1 << 64},
        {"seed": True},
        {"seed": 1.0},
        {"temperature_millionths": -1},
        {"temperature_millionths": 100 * ONE + 1},
        {"top_k": -1},
        {"top_p_millionths": ONE + 1},
        {"min_p_millionths": -1},
        {"repetition_penalty_millionths": 0},
        {"presence_penalty_millionths": 100 * ONE + 1},
        {"frequency_penalty_millionths": -100 * ONE - 1},
        {"logprobs": 21},
        {"logprobs": -1},
        {"logit_bias_millionths": ((3, 0), (3, 0))},
        {"logit_bias_millionths": ((3, 0), (2, 0))},
        {"logit_bias_millionths": ((-1, 0),)},
        {"logit_bias_millionths": ((0, 100 * ONE + 1),)},
        {"logit_bias_millionths": tuple((i, 0) for i in range(1025))},
    ],
    ids=repr,
)
def test_values_outside_their_range_are_refused(change) -> None:
    with pytest.raises(ConfigError):
        replace(SamplingParameters(), **change)


def test_the_vocabulary_bounds_biases() -> None:
    parameters = SamplingParameters(logit_bias_millionths=((7, ONE),))
    check_vocabulary(parameters, 8)
    for vocab_size in (7, 0, (1 << 20) + 1):
        with pytest.raises(ConfigError):
            check_vocabulary(parameters, vocab_size)
