"""The quantisers: never worse than the plain one, exact where exact is possible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from engine.convert.quantize import GROUP, quantize
from engine.errors import ConversionError
from engine.vqf.panels import pack, values

KINDS = ("Q4_1", "Q8_0")


def weighted_errors(weights: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """What the search minimises, in binary64, for each group."""
    x = weights.astype(np.float64).reshape(-1, GROUP)
    y = stored.astype(np.float64).reshape(-1, GROUP)
    importance = np.abs(x) + np.sqrt((x * x).mean(axis=1, keepdims=True))
    return (importance * (x - y) ** 2).sum(axis=1)


def plain(kind: str, weights: np.ndarray) -> np.ndarray:
    """Scale and minimum from the extremes, rounded to binary16; the nearest codes."""
    x = weights.reshape(-1, GROUP).astype(np.float32)
    if kind == "Q8_0":
        d = (np.abs(x).max(axis=1) / np.float32(127)).astype(np.float16).astype(np.float32)
        m, low, high = np.zeros_like(d), -127, 127
    else:
        d = ((x.max(axis=1) - x.min(axis=1)) / np.float32(15)).astype(np.float16)
        d, m, low, high = d.astype(np.float32), x.min(axis=1), 0, 15
        m = m.astype(np.float16).astype(np.float32)
    safe = np.where(d > 0, d, 1)[:, None]
    codes = np.where(d[:, None] > 0, np.rint((x - m[:, None]) / safe), 0).clip(low, high)
    return (codes * d[:, None] + m[:, None]).astype(np.float32).reshape(weights.shape)


def assert_not_worse_than_plain(kind: str, weights: np.ndarray) -> None:
    fields = quantize(kind, weights)
    pack(kind, fields, *weights.shape)  # the fields are what a file can hold
    ours = weighted_errors(weights, values(kind, fields))
    theirs = weighted_errors(weights, plain(kind, weights))
    # the search compares errors in binary32
    assert (ours <= theirs * (1 + 1e-4) + 1e-30).all()


finite = st.floats(-65504, 65504, width=32)
small = st.floats(-1, 1, width=32)
denormal = st.floats(-(2.0**-127), 2.0**-127, width=32)


@given(
    st.sampled_from(KINDS),
    st.sampled_from([finite, small, denormal]).flatmap(
        lambda elements: hnp.arrays(np.float32, (2, 2 * GROUP), elements=elements)
    ),
)
def test_never_worse_than_the_plain_quantiser(kind: str, weights: np.ndarray):
    assert_not_worse_than_plain(kind, weights)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e-2, 1.0, 1e3])
def test_never_worse_than_the_plain_quantiser_on_normal_weights(kind: str, scale: float):
    rng = np.random.default_rng(3)
    weights = (rng.standard_normal((64, 256)) * scale).astype(np.float32)
    assert_not_worse_than_plain(kind, weights)


@pytest.mark.parametrize(("kind", "gain"), [("Q4_1", 0.92), ("Q8_0", 1.0)])
def test_better_than_the_plain_quantiser_by_the_unweighted_error_too(kind: str, gain: float):
    weights = np.random.default_rng(4).standard_normal((64, 512)).astype(np.float32)
    ours = np.sqrt(((weights - values(kind, quantize(kind, weights))) ** 2).mean())
    theirs = np.sqrt(((weights - plain(kind, weights)) ** 2).mean())
    assert ours < gain * theirs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_stay_zeros_with_positive_sign(kind: str, zero: float):
    fields = quantize(kind, np.full((1, GROUP), zero, np.float32))
    assert all(not array.view(np.uint8).any() for array in fields.values())


@pytest.mark.parametrize("value", [1.0, -0.5, 65504.0, -65504.0, 2.0**-24])
def test_q4_1_stores_a_constant_that_binary16_can_hold_exactly(value: float):
    weights = np.full((2, GROUP), value, np.float32)
    assert (values("Q4_1", quantize("Q4_1", weights)) == weights).all()


@given(
    hnp.arrays(np.uint8, (1, GROUP), elements=st.integers(0, 15)),
    st.integers(-(2**10), 2**10),
    st.integers(1, 2**6),
)
def test_q4_1_finds_a_grid_that_fits_exactly(codes: np.ndarray, minimum: int, step: int):
    codes[0, :2] = 0, 15
    weights = codes.astype(np.float32) * np.float32(step) + np.float32(minimum)
    assert (values("Q4_1", quantize("Q4_1", weights)) == weights).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [65536.0, -1e30, 3e38])
def test_weights_beyond_binary16_are_refused(kind: str, value: float):
    weights = np.zeros((1, GROUP), np.float32)
    weights[0, 5] = value
    with pytest.raises(ConversionError, match="too large"):
        quantize(kind, weights)


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_does_not_depend_on_its_neighbours(kind: str):
    weights = np.random.default_rng(5).standard_normal((16, 320)).astype(np.float32)
    whole = quantize(kind, weights)
    for row in (0, 7, 15):
        alone = quantize(kind, weights[row : row + 1])
        for name, array in whole.items():
            assert (array[row : row + 1] == alone[name]).all()
