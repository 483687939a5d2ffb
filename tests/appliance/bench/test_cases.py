"""Which cases are measured, and what is made of the numbers."""

from __future__ import annotations

import json

import pytest

from appliance.bench.cases import Case, Series, plan, spread
from engine.errors import ConfigError


def test_every_prompt_at_depth_0_one_deeper_and_decode_everywhere() -> None:
    labels = [case.label for case in plan((128, 512, 2048), (0, 512, 2048), 64)]
    assert labels == [
        "prefill 128",
        "prefill 512",
        "prefill 2048",
        "prefill 512 at 512",
        "prefill 512 at 2048",
        "decode at 0",
        "decode at 512",
        "decode at 2048",
    ]


def test_the_deep_prompt_is_the_one_nearest_to_512() -> None:
    assert Case("prefill", 700, 9) in plan((64, 700), (9,), 1)
    assert Case("prefill", 64, 9) not in plan((64, 700), (9,), 1)


@pytest.mark.parametrize(
    ("prefill", "depths", "decode"),
    [((), (0,), 1), ((1,), (), 1), ((0,), (0,), 1), ((1,), (0,), 0)],
)
def test_nothing_to_measure_is_refused(prefill: tuple, depths: tuple, decode: int) -> None:
    with pytest.raises(ConfigError):
        plan(prefill, depths, decode)


def test_ratios_are_made_within_a_round() -> None:
    # The machine is three times slower in the second round: the ratio does not see it.
    series = Series(Case("decode", 64, 0), 1, [300.0, 100.0], [150.0, 50.0], [100.0, 33.0])
    assert series.ratios == [3.0, pytest.approx(100 / 33)]
    assert series.trace_costs == [1.0, 1.0]
    assert series.best_ratio == 3.0
    value = series.as_json()
    assert value["ratio"] == {"median": 3.01515, "min": 3.0, "max": 3.0303,
                              "rounds": [3.0, 3.0303]}  # fmt: skip
    assert value["depth_tokens"] == 0
    json.dumps(value, allow_nan=False)


def test_without_a_rival_there_is_no_ratio() -> None:
    value = Series(Case("decode", 64, 0), 2, [300.0], [150.0]).as_json()
    assert value["ratio"] is None
    assert value["ratio_of_best"] is None
    assert value["llama_bench_tokens_per_s"] is None


def test_numbers_keep_six_digits() -> None:
    found = spread([1234.56789, 0.000123456789, 0.0])
    assert found["rounds"] == [1234.57, 0.000123457, 0.0]
    assert found["median"] == 0.000123457
