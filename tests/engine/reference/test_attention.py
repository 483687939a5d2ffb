from __future__ import annotations

import numpy as np
import pytest

from engine.errors import NonFiniteError
from engine.reference.arrays import quiet
from engine.reference.attention import attention
from tests.engine.reference import scalar
from tests.engine.reference.support import SplitMix64, same_bits


def inputs(seed, rows, start, heads, kv_heads, dims, scale=2.0):
    source = SplitMix64(seed)
    shape = (start + rows, kv_heads, dims)
    return (
        source.floats((rows, heads, dims), scale),
        source.floats(shape, scale).astype(np.float16),
        source.floats(shape, scale).astype(np.float16),
    )


@pytest.mark.parametrize(
    ("rows", "start", "heads", "kv_heads"),
    [(1, 0, 1, 1), (5, 0, 6, 2), (3, 31, 4, 4), (1, 40, 3, 1)],
)
@pytest.mark.parametrize("scale", [0.5, 16.0])
def test_equals_the_scalar_program(rows, start, heads, kv_heads, scale):
    q, keys, values = inputs(90, rows, start, heads, kv_heads, 16, scale)
    found = attention(q, keys, values, start)
    for t in range(rows):
        for h in range(heads):
            g = h // (heads // kv_heads)
            n = start + t + 1
            expected = scalar.attend(q[t, h].tolist(), keys[:n, g].tolist(), values[:n, g].tolist())
            assert same_bits(found[t, h], np.array(expected, dtype=np.float32))


def test_is_close_to_the_real_function():
    q, keys, values = inputs(91, 20, 30, 4, 2, 32)
    k = np.repeat(keys, 2, axis=1).astype(np.float64)
    v = np.repeat(values, 2, axis=1).astype(np.float64)
    scores = np.einsum("thd,nhd->thn", q, k) / np.sqrt(32)
    unseen = np.arange(20)[:, None, None] + 30 < np.arange(50)
    scores = np.where(unseen, -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    exact = np.einsum("thn,nhd->thd", weights / weights.sum(axis=2, keepdims=True), v)
    np.testing.assert_allclose(attention(q, keys, values, 30), exact, atol=3e-6)


def test_rows_do_not_depend_on_the_chunk_they_arrive_in():
    q, keys, values = inputs(92, 40, 0, 4, 2, 16)
    whole = attention(q, keys, values, 0)
    for start, end in ((0, 1), (1, 17), (17, 18), (18, 40)):
        piece = attention(q[start:end], keys[:end], values[:end], start)
        assert same_bits(piece, whole[start:end])


def test_what_lies_beyond_a_row_does_not_reach_it():
    q, keys, values = inputs(93, 6, 0, 2, 1, 16)
    whole = attention(q, keys, values, 0)
    keys[4:] = np.inf
    values[4:] = np.nan
    with quiet(), pytest.raises(NonFiniteError):
        attention(q, keys, values, 0)
    assert same_bits(attention(q[:4], keys[:4], values[:4], 0), whole[:4])


def test_one_key_returns_its_value():
    q, keys, values = inputs(94, 1, 0, 2, 2, 16)
    assert same_bits(attention(q, keys, values, 0)[0], values[0].astype(np.float32))


def test_scores_beyond_the_range_of_exp_count_nothing():
    q = np.full((1, 1, 16), 100, dtype=np.float32)
    keys = np.full((2, 1, 16), -100, dtype=np.float16)
    keys[1] = 100
    values = np.array([np.full((1, 16), 7), np.full((1, 16), 3)], dtype=np.float16)
    assert (attention(q, keys, values, 1) == 3).all()


def test_scores_that_overflow_upwards_end_the_request():
    q = np.full((1, 1, 16), 3e38, dtype=np.float32)
    keys = np.full((1, 1, 16), 6e4, dtype=np.float16)
    with quiet(), pytest.raises(NonFiniteError, match="attention score"):
        attention(q, keys, keys, 0)
