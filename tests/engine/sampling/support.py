"""Logits and parameters for the tests of sampling."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.sampling.generator import philox4x32_10
from engine.sampling.parameters import ONE, SamplingParameters

F32s = NDArray[np.float32]


def pinned_logits(size: int, key: int) -> F32s:
    """Return logits that are the same everywhere: words of the generator over -12 .. 12."""
    blocks = [philox4x32_10((i, 0, 0, 1), (key, 0)) for i in range(-(-size // 4))]
    words = np.array(blocks, dtype=np.uint32).reshape(-1)[:size].view(np.int32)
    unit = words.astype(np.float32) * np.float32(2.0**-31)
    return unit * unit * unit * np.float32(12)


def nearby(value: float) -> list[np.float32]:
    """Return a number and its neighbours, which sampling must tell apart."""
    centre = np.float32(value)
    up, down = np.float32(np.inf), np.float32(-np.inf)
    return [np.nextafter(centre, down), centre, np.nextafter(centre, up)]


CLOSE = [*nearby(1), *nearby(0), np.float32(-0.0), *nearby(-3.5), *nearby(17)]
EXTREMES = [
    np.float32(x) for x in (3.4e38, -3.4e38, 1e30, -1e30, 88, -87, 1e-38, 1e-45, -1e-45, 0, -0.0)
]

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
ordinary = st.floats(-30, 30, width=32)


def arrays_of(elements: st.SearchStrategy, max_size: int = 150) -> st.SearchStrategy[F32s]:
    """Return float32 arrays of at least one element."""
    lists = st.lists(elements, min_size=1, max_size=max_size)
    return lists.map(lambda values: np.array(values, dtype=np.float32))


logits = st.one_of(
    arrays_of(ordinary),
    arrays_of(st.sampled_from(CLOSE)),
    arrays_of(st.sampled_from(EXTREMES)),
    arrays_of(finite),
    st.builds(pinned_logits, st.integers(1, 700), st.integers(0, 9)),
    st.builds(lambda n: np.full(n, 2, dtype=np.float32), st.integers(1, 400)),
    # Many in the same bucket, and in the first and the last one.
    st.builds(
        lambda n, k: pinned_logits(n, k) * np.float32(2**-9), st.integers(1, 700), st.just(1)
    ),
    st.builds(lambda n, k: pinned_logits(n, k) * np.float32(300), st.integers(1, 300), st.just(2)),
)


def fractions(low: int, high: int, *special: int) -> st.SearchStrategy[int]:
    """Return millionths of a range, the special ones often."""
    return st.one_of(st.sampled_from([low, high, *special]), st.integers(low, high))


@st.composite
def parameters(draw: st.DrawFn, vocab_size: int) -> SamplingParameters:
    """Return any valid parameters."""
    ids = draw(st.sets(st.integers(0, vocab_size - 1), max_size=4))
    bias = fractions(-100 * ONE, 100 * ONE, 0, ONE)
    return SamplingParameters(
        seed=draw(st.integers(0, 2**64 - 1)),
        temperature_millionths=draw(fractions(0, 100 * ONE, 1, ONE, 8 * ONE // 10)),
        top_k=draw(st.one_of(st.sampled_from([0, 1, 2, vocab_size]), st.integers(0, 800))),
        top_p_millionths=draw(fractions(0, ONE, 1, ONE - 1, ONE // 2, 95 * ONE // 100)),
        min_p_millionths=draw(fractions(0, ONE, 0, 1, ONE // 20)),
        repetition_penalty_millionths=draw(fractions(ONE // 100, 100 * ONE, ONE, 11 * ONE // 10)),
        presence_penalty_millionths=draw(fractions(-100 * ONE, 100 * ONE, 0)),
        frequency_penalty_millionths=draw(fractions(-100 * ONE, 100 * ONE, 0)),
        logit_bias_millionths=tuple((i, draw(bias)) for i in sorted(ids)),
        logprobs=draw(st.one_of(st.none(), st.integers(0, 20))),
    )
