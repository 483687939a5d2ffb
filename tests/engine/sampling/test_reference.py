"""The definition does what its steps say, compared with computations in double precision."""

from __future__ import annotations

import ast
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import NonFiniteError, SamplingError
from engine.sampling import reference
from engine.sampling.parameters import ONE, SamplingParameters
from engine.sampling.reference import ReferenceSampler, log
from tests.engine.sampling.support import F32s, pinned_logits

VALUES = np.array([1.0, 3.0, 2.0, 3.0, -1.0, 0.5], dtype=np.float32)


def sample(parameters: SamplingParameters, logits: F32s = VALUES, **kwargs):
    arguments = {"prompt_ids": [], "output_ids": [], "position": 0} | kwargs
    return ReferenceSampler(parameters, len(logits)).sample(logits, **arguments)


def seen(parameters: SamplingParameters, logits: F32s = VALUES, draws: int = 400, **kwargs):
    """Count the ids drawn at many positions."""
    return Counter(sample(parameters, logits, **{"position": i} | kwargs).id for i in range(draws))


def millionths(**kwargs: float) -> SamplingParameters:
    """Return parameters given as plain numbers."""
    return SamplingParameters(**{k + "_millionths": round(v * ONE) for k, v in kwargs.items()})


def test_temperature_zero_takes_the_first_of_the_largest() -> None:
    assert sample(millionths(temperature=0)).id == 1
    zeros = np.array([-1, -0.0, 0.0, -0.0], dtype=np.float32)
    assert sample(millionths(temperature=0), zeros).id == 1


def test_frequencies_follow_the_softmax() -> None:
    parameters = millionths(temperature=0.7)
    draws = 4000
    counts = seen(parameters, draws=draws)
    p = np.exp(VALUES.astype(np.float64) / 0.7)
    expected = p / p.sum() * draws
    chi = sum((counts[i] - expected[i]) ** 2 / expected[i] for i in range(len(VALUES)))
    assert chi < 30  # 5 degrees of freedom


def test_top_k_keeps_the_first_in_sorted_order() -> None:
    assert set(seen(SamplingParameters(top_k=1))) == {1}
    assert set(seen(SamplingParameters(top_k=3))) == {1, 2, 3}
    assert seen(SamplingParameters(top_k=6)) == seen(SamplingParameters())


def test_top_p_keeps_the_least_prefix_with_the_mass() -> None:
    flat = np.zeros(8, dtype=np.float32)
    for top_p, kept in [(0, 1), (0.125, 1), (0.126, 2), (0.5, 4), (0.99, 8), (1, 8)]:
        assert set(seen(millionths(top_p=top_p), flat)) == set(range(kept))


def test_min_p_is_relative_to_the_first() -> None:
    logits = np.log(np.array([0.5, 0.25, 0.06, 0.04], dtype=np.float64)).astype(np.float32)
    assert set(seen(millionths(min_p=0.1), logits)) == {0, 1, 2}
    assert set(seen(millionths(min_p=1), VALUES)) == {1, 3}


def test_repetition_penalty_divides_positive_and_multiplies_negative_logits() -> None:
    logits = np.array([4, -4, 2.5, -1], dtype=np.float32)
    adjusted = reference.adjust(
        millionths(repetition_penalty=2), logits, np.array([0, 1, 1]), np.array([0])
    )
    assert adjusted.tolist() == [2, -8, 2.5, -1]


def test_presence_and_frequency_count_the_output_only() -> None:
    logits = np.zeros(4, dtype=np.float32)
    adjusted = reference.adjust(
        millionths(presence_penalty=0.5, frequency_penalty=0.25),
        logits,
        np.array([3, 3]),
        np.array([0, 1, 1, 1]),
    )
    assert adjusted.tolist() == [-0.75, -1.25, 0, 0]


def test_bias_moves_an_id() -> None:
    biased = SamplingParameters(
        temperature_millionths=0, logit_bias_millionths=((1, -100 * ONE), (4, 50 * ONE))
    )
    assert sample(biased).id == 4


def test_mask_removes_ids_before_everything_that_ranks() -> None:
    mask = np.array([True, False, True, False, True, False])
    assert sample(millionths(temperature=0), mask=mask).id == 2
    assert set(seen(SamplingParameters(top_k=2), mask=mask)) == {0, 2}
    with pytest.raises(SamplingError):
        sample(SamplingParameters(), mask=np.zeros(6, dtype=np.bool_))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_logit_that_is_not_finite_ends_the_request(bad: float) -> None:
    logits = VALUES.copy()
    logits[4] = bad
    mask = np.array([True, True, True, True, False, True])
    with pytest.raises(NonFiniteError):
        sample(SamplingParameters(), logits, mask=mask)


def test_a_penalty_that_overflows_ends_the_request() -> None:
    logits = np.array([-3e38, 1], dtype=np.float32)
    with pytest.raises(NonFiniteError):
        sample(millionths(repetition_penalty=2), logits, prompt_ids=[0])


@pytest.mark.parametrize(
    "change",
    [
        {"logits": np.zeros(5, dtype=np.float32)},
        {"logits": np.zeros(6, dtype=np.float64)},
        {"mask": np.zeros(5, dtype=np.bool_)},
        {"mask": np.ones(6, dtype=np.uint8)},
        {"position": -1},
        {"position": 1 << 64},
        {"prompt_ids": [6]},
        {"output_ids": [-1]},
        {"output_ids": [[1]]},
    ],
    ids=repr,
)
def test_arguments_that_do_not_fit_are_refused(change) -> None:
    arguments = {"logits": VALUES, "prompt_ids": [], "output_ids": [], "position": 0} | change
    with pytest.raises(SamplingError):
        ReferenceSampler(SamplingParameters(), 6).sample(**arguments)


def test_logprobs_are_of_the_untouched_distribution() -> None:
    parameters = SamplingParameters(
        temperature_millionths=0, logit_bias_millionths=((4, 90 * ONE),), logprobs=3
    )
    choice = sample(parameters, output_ids=[1, 1])
    exact = VALUES - np.log(np.exp(VALUES.astype(np.float64)).sum())
    assert choice.id == 4
    assert choice.logprob == pytest.approx(exact[4], rel=1e-6)
    assert [i for i, _ in choice.top] == [1, 3, 2]
    assert [p for _, p in choice.top] == pytest.approx(exact[[1, 3, 2]], rel=1e-6)


def test_logprobs_have_a_floor_and_can_be_absent() -> None:
    logits = np.array([3e38, -3e38], dtype=np.float32)
    choice = sample(SamplingParameters(logprobs=5), logits)
    assert choice.top == [(0, 0.0), (1, -9999.0)]
    assert sample(SamplingParameters()).logprob is None
    none_listed = sample(SamplingParameters(logprobs=0))
    assert none_listed.logprob is not None
    assert none_listed.top == []


@given(st.floats(1, 2**20, width=32))
def test_log_is_within_its_bound(x: float) -> None:
    exact = math.log(x)
    assert abs(float(log(np.float32(x))) - exact) <= 1.76e-7 * exact


def test_log_at_every_switch_of_exponent() -> None:
    for exponent in range(20):
        centre = np.array([0x3FB504F3 + (exponent << 23)], dtype=np.int32)
        for step in range(-3, 4):
            x = (centre + np.int32(step)).view(np.float32)[0]
            assert abs(float(log(x)) - math.log(x)) <= 1.76e-7 * math.log(x)


def test_sampling_leaves_its_arguments_alone() -> None:
    logits = pinned_logits(100, 3)
    before = logits.copy()
    sample(millionths(repetition_penalty=2, top_p=0.5), logits, output_ids=[3])
    assert logits.tobytes() == before.tobytes()


def test_the_definition_uses_no_reduction_of_floats_and_no_unstable_sort() -> None:
    tree = ast.parse(Path(reference.__file__).read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    forbidden = [
        "sum",
        "mean",
        "max",
        "min",
        "argmax",
        "argmin",
        "dot",
        "exp",
        "log",
        "power",
        "partition",
        "argpartition",
    ]
    assert not names & set(forbidden)
    for call in calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in {"sort", "argsort"}:
            assert [k.value.value for k in call.keywords if k.arg == "kind"] == ["stable"]
    assert not any(isinstance(n, ast.MatMult | ast.Pow) for n in ast.walk(tree))
