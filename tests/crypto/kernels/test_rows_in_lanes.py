"""Rows and trees give the same hashes in lanes, on several threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.frontier_array import FrontierArray
from crypto.kernels.load import load_bulk
from crypto.sm3_rows import PORTABLE, RowHasher

HASHER = RowHasher(load_bulk(), num_threads=3)


@settings(deadline=None, max_examples=60)
@given(num_rows=st.integers(0, 60), width=st.integers(0, 300), prefix=st.binary(max_size=70))
def test_rows(num_rows: int, width: int, prefix: bytes) -> None:
    rows = np.random.default_rng(width).integers(0, 256, (num_rows, width), np.uint8)
    assert np.array_equal(HASHER.hash_rows(prefix, rows), PORTABLE.hash_rows(prefix, rows))


@pytest.mark.parametrize(("num_rows", "width"), [(31 * 64, 576), (33, 4096), (1000, 130)])
def test_rows_of_a_prefill(num_rows: int, width: int) -> None:
    rows = np.random.default_rng(1).standard_normal((num_rows, width)).astype(np.float32)
    assert np.array_equal(HASHER.hash_rows(b"\0", rows), PORTABLE.hash_rows(b"\0", rows))


def test_trees() -> None:
    lanes, plain = FrontierArray(31, hasher=HASHER), FrontierArray(31)
    for count in (1, 200, 64, 55, 1):
        leaves = np.random.default_rng(count).integers(0, 256, (31, count, 32), np.uint8)
        assert np.array_equal(lanes.append(leaves), plain.append(leaves))
        assert np.array_equal(lanes.roots(), plain.roots())
        assert np.array_equal(lanes.copy().roots(), plain.roots())
