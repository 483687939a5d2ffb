from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from he_chain.errors import PrecisionError, RangeError
from he_chain.exact import silu, softmax
from he_chain.polynomial.nonlin import norm_contract, silu_contract, softmax_contract

TARGET = 2.0**-13


@settings(deadline=None, max_examples=30)
@given(st.floats(0.01, 100), st.floats(1.2, 60), st.integers(1, 600), st.integers(0, 2**32 - 1))
def test_a_norm_keeps_its_promise(lo, ratio, channels, seed):
    norm = norm_contract(lo, lo * ratio, channels, 1e-5, TARGET)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(channels)
    x *= np.sqrt(lo * ratio ** rng.uniform(0, 1) / (x * x).mean())
    held = norm.factor * x
    assert np.abs(held).max() <= norm.largest
    u = (held * held).sum() + norm.offset
    assert abs(u) <= 1 + 1e-9
    found = held * norm.series.of_unit(np.array([u]))
    wanted = x / np.sqrt((x * x).mean() + 1e-5)
    assert np.abs(found / wanted - 1).max() < TARGET * 1.01
    assert norm.levels == norm.series.levels + 2


def test_a_norm_that_no_polynomial_covers():
    with pytest.raises(PrecisionError, match=r"the norm on .*degree 127"):
        norm_contract(1, 1e5, 64, 1e-5, TARGET)
    with pytest.raises(RangeError, match="mean squares"):
        norm_contract(0, 1, 64, 1e-5, TARGET)


def ratios_of(scores, squarings):
    centred = scores - scores.mean(axis=-1, keepdims=True)
    weights, found = np.exp(centred / 2**squarings), []
    for i in range(squarings + 1):
        total = weights.sum(axis=-1, keepdims=True)
        found.append(
            (0.97, float((total * scores.shape[-1] if i else total / scores.shape[-1]).max()) + 0.2)
        )
        weights = (weights / total) ** 2
    return np.abs(centred).max() + 0.25, tuple(found)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 16), st.integers(0, 2), st.floats(0.1, 1.5), st.integers(0, 2**32 - 1))
def test_a_softmax_keeps_its_promise(n, squarings, width, seed):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((20, n)) * width * 2**squarings + rng.uniform(-30, 30)
    bound, ratios = ratios_of(scores, squarings)
    contract = softmax_contract(bound, ratios, positions=n, room=16, target=TARGET)
    assert contract.squarings == squarings
    assert np.abs(contract(scores) - softmax(scores)).max() < 16 * TARGET


def as_ciphertexts_do(contract, scores):
    """Return the shares with an empty cache's slots, offsets and all, step by step."""
    n, room = contract.positions, contract.room
    argument = np.zeros(room)
    argument[:n] = (scores - scores.mean()) / contract.bound
    weights = contract.exponential.of_unit(argument)
    assert np.allclose(weights[n:], contract.padding)
    if contract.squarings:
        weights[n:] = 0.0
    for i, step in enumerate(contract.normalisations):
        weights = weights * weights if i else weights
        u = weights.sum() + step.offset
        assert abs(u) <= 1
        weights = weights * step.series.of_unit(np.array([u]))
    return weights[:n]


@pytest.mark.parametrize("squarings", [0, 1, 2])
@pytest.mark.parametrize("n", [1, 2, 7, 16])
def test_empty_positions_do_not_count(n, squarings):
    scores = np.random.default_rng(n).standard_normal(n) * 2
    bound, ratios = ratios_of(scores[None], squarings)
    contract = softmax_contract(bound, ratios, positions=n, room=16, target=TARGET)
    assert np.abs(as_ciphertexts_do(contract, scores) - softmax(scores)).max() < 16 * TARGET


@pytest.mark.parametrize("scores", [np.zeros(9), np.array([5.0, *[-3.0] * 8]), np.arange(9) * 0.7])
def test_equal_and_lopsided_scores(scores):
    bound, ratios = ratios_of(scores[None], 1)
    contract = softmax_contract(bound, ratios, positions=9, room=16, target=TARGET)
    assert np.abs(as_ciphertexts_do(contract, scores) - softmax(scores)).max() < 16 * TARGET


def test_degrees_do_not_depend_on_how_many_positions_there_are():
    contracts = [
        softmax_contract(6.0, ((0.97, 12.0),), positions=n, room=16, target=TARGET)
        for n in range(1, 17)
    ]
    assert len({c.exponential.degree for c in contracts}) == 1
    assert len({c.normalisations[0].series.degree for c in contracts}) == 1


def test_a_score_out_of_range_is_refused():
    contract = softmax_contract(2.0, ((0.97, 3.0),), positions=4, room=16, target=TARGET)
    with pytest.raises(RangeError):
        contract(np.array([5.0, 0.0, 0.0, 0.0]))


def test_softmaxes_that_cannot_be():
    with pytest.raises(RangeError, match="over 17 of 16 positions"):
        softmax_contract(2.0, ((0.97, 3.0),), positions=17, room=16, target=TARGET)
    with pytest.raises(PrecisionError, match="the reciprocal"):
        softmax_contract(9.0, ((0.97, 1e5),), positions=4, room=16, target=TARGET)
    with pytest.raises(PrecisionError, match="the exponential"):
        softmax_contract(200.0, ((0.97, 3.0),), positions=4, room=16, target=TARGET)


@pytest.mark.parametrize("bound", [2.0, 6.0, 12.0])
def test_silu_keeps_its_promise(bound):
    contract = silu_contract(bound, TARGET)
    x = np.linspace(-bound, bound, 999)
    assert np.abs(contract.series.of_unit(x / bound) * bound - silu(x)).max() < TARGET * bound


def test_gates_that_no_polynomial_covers():
    with pytest.raises(PrecisionError, match="SiLU"):
        silu_contract(400.0, TARGET)
    with pytest.raises(RangeError, match="gates"):
        silu_contract(0.0, TARGET)
