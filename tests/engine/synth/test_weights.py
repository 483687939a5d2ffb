"""Random matrices: deviation, filling, and the same bytes in whatever pieces they are made."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.synth import weights
from engine.synth.weights import RandomMatrix, Stream, random_vector
from engine.vqf.kinds import KINDS
from engine.vqf.panels import packed_bytes, rows_beyond_are_zero, unpack, values

STREAM = Stream(seed=3, number=5)
ROWS, COLUMNS = 200, 2304


def made(kind: str, *, rows: int = ROWS, stream: Stream = STREAM) -> np.ndarray:
    return np.concatenate([*RandomMatrix(kind, (rows, COLUMNS), stream, 0.02).pieces()])


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_a_kind(kind: str):
    data = made(kind)
    assert data.size == packed_bytes(kind, ROWS, COLUMNS)
    assert rows_beyond_are_zero(kind, data, ROWS, COLUMNS)
    fields = unpack(kind, data, ROWS, COLUMNS)
    scales = {name: field for name, field in fields.items() if name in ("d", "m", "dmin")}
    assert all(np.isfinite(field).all() and field.all() for field in scales.values())
    found = values(kind, fields)
    assert 0.0197 < found.std() < 0.0203
    # Neither all values nor the values of a row have a part in common.
    assert abs(found.mean()) < 5 * 0.02 / found.size**0.5
    assert abs(found.sum(axis=1)).max() < 6 * 0.02 * COLUMNS**0.5
    assert abs(np.corrcoef(found[:20]) - np.eye(20)).max() < 0.12


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0", "Q6_K"])
def test_all_codes_occur(kind: str):
    codes = unpack(kind, made(kind), ROWS, COLUMNS)["q"]
    assert np.unique(codes).size == 1 << (KINDS[kind].code_bits or 8)


@settings(deadline=None, max_examples=30)
@given(kind=st.sampled_from([*KINDS]), first=st.integers(0, 12), count=st.integers(1, 13))
def test_any_run_of_panels(kind: str, first: int, count: int):
    count = min(count, 13 - first)
    matrix = RandomMatrix(kind, (ROWS, COLUMNS), STREAM, 0.02)
    assert matrix.num_panels == 13
    size = packed_bytes(kind, 16, COLUMNS)
    expected = made(kind)[first * size : (first + count) * size]
    assert np.array_equal(matrix.panels(first, count), expected)


def test_the_size_of_a_piece_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    expected = made("Q4_1")
    monkeypatch.setattr(weights, "PIECE_BYTES", 1)
    assert len([*RandomMatrix("Q4_1", (ROWS, COLUMNS), STREAM, 0.02).pieces()]) == 13
    assert np.array_equal(made("Q4_1"), expected)


def test_seed_and_tensor_choose_the_stream():
    streams = [STREAM, Stream(4, 5), Stream(3, 6), Stream(5, 3), Stream(3, 5 << 32)]
    assert len({made("Q4_0", rows=16, stream=stream).tobytes() for stream in streams}) == 5


def test_the_stream_is_the_raw_output_of_the_generator():
    key = np.array([3, 5], np.uint64)
    raw = np.random.Philox(key=key, counter=7).random_raw(9).astype("<u8").tobytes()
    assert STREAM.draw(7, 70).tobytes() == raw[:70]


def test_a_vector():
    found = random_vector(1001, STREAM, 1.0, 0.25).view("<f4")
    assert found.size == 1001
    assert 0.75 <= found.min() < 0.76
    assert 1.24 < found.max() <= 1.25


def test_columns_that_a_kind_cannot_have():
    with pytest.raises(ValueError, match="columns come in 256"):
        RandomMatrix("Q4_K", (16, 576), STREAM, 1.0)
