from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.bulk import PortableBulk
from crypto.sm3 import sm3
from crypto.sm3_rows import PORTABLE, RowHasher

hash_rows, hash_pairs = PORTABLE.hash_rows, PORTABLE.hash_pairs


@settings(deadline=None, max_examples=60)
@given(
    prefix=st.binary(max_size=70),
    num_rows=st.integers(0, 9),
    width=st.integers(0, 130),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_equal_the_hash_of_each(prefix, num_rows, width, seed):
    rows = np.random.default_rng(seed).integers(0, 256, (num_rows, width), np.uint8)
    digests = hash_rows(prefix, rows)
    assert digests.dtype == np.uint8
    assert digests.shape == (num_rows, 32)
    assert [bytes(digest) for digest in digests] == [sm3(prefix + bytes(row)) for row in rows]


@pytest.mark.parametrize("dtype", ["u1", "<f2", "<f4", "<i8", "?"])
def test_elements_are_hashed_as_their_bytes(dtype):
    rows = np.arange(24).reshape(3, 8).astype(dtype)
    expected = [sm3(b"p" + row.tobytes()) for row in rows]
    assert [bytes(digest) for digest in hash_rows(b"p", rows)] == expected


@pytest.mark.parametrize(
    "rows",
    [
        np.arange(60, dtype="<f4").reshape(6, 10)[::2],
        np.arange(60, dtype="<f4").reshape(6, 10)[:, 3:7],
        np.arange(60, dtype="<f4").reshape(6, 10).T,
        np.broadcast_to(np.float32(1.5), (4, 5)),
    ],
    ids=["every-second-row", "some-columns", "transposed", "broadcast"],
)
def test_strided_rows(rows):
    assert [bytes(digest) for digest in hash_rows(b"", rows)] == [
        sm3(row.tobytes()) for row in rows
    ]


def test_signed_zero_and_nan_patterns_are_distinct():
    rows = np.array([[0x00000000], [0x80000000], [0x7FC00000], [0x7FC00001]], "<u4").view("<f4")
    assert len({bytes(digest) for digest in hash_rows(b"\0", rows)}) == 4


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros(4, np.uint8),
        np.zeros((1, 2, 3), np.uint8),
        np.zeros((2, 2), ">f4"),
        np.array([[None]], object),
    ],
    ids=["one-dimension", "three-dimensions", "big-endian", "objects"],
)
def test_refuses_other_arrays(rows):
    with pytest.raises(ValueError, match="rows must"):
        hash_rows(b"", rows)


@settings(deadline=None, max_examples=30)
@given(num_pairs=st.integers(0, 9), seed=st.integers(0, 2**32 - 1))
def test_pairs_equal_the_hash_of_each(num_pairs, seed):
    left, right = np.random.default_rng(seed).integers(0, 256, (2, num_pairs, 32), np.uint8)
    expected = [sm3(b"\1" + bytes(a) + bytes(b)) for a, b in zip(left, right, strict=True)]
    assert [bytes(digest) for digest in hash_pairs(b"\1", left, right)] == expected


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 32), (3, 32)),
        ((2, 31), (2, 31)),
        ((2, 32), (2, 33)),
        ((1, 2, 32), (1, 2, 32)),
    ],
)
def test_pairs_refuse_other_shapes(left, right):
    with pytest.raises(ValueError, match="digests must be two arrays"):
        hash_pairs(b"", np.zeros(left, np.uint8), np.zeros(right, np.uint8))


def test_pairs_refuse_other_types():
    digests = np.zeros((2, 32), np.uint8)
    with pytest.raises(ValueError, match="digests must be uint8"):
        hash_pairs(b"", digests, digests.astype(np.int8))


class Counting(PortableBulk):
    """Remembers how many rows each call had, and on which thread it was."""

    lanes = 8

    def __init__(self):
        self.calls = []

    def sm3_rows(self, prefix, rows, num_rows):
        self.calls.append((threading.get_ident(), num_rows))
        return super().sm3_rows(prefix, rows, num_rows)


@pytest.mark.parametrize(
    ("num_rows", "parts"),
    [
        (0, [0]),
        (1, [1]),
        (127, [127]),  # less than two threads' worth
        (256, [128, 128]),
        (383, [192, 191]),  # two parts of whole lanes: 383 rows are 47.9 times eight
        (1001, [336, 336, 329]),
    ],
)
def test_large_arrays_are_shared_in_parts_of_whole_lanes(num_rows, parts):
    bulk = Counting()
    hasher = RowHasher(bulk, num_threads=3)
    rows = np.arange(num_rows * 256, dtype="<u4").reshape(num_rows, 256)
    digests = hasher.hash_rows(b"\0", rows)
    assert sorted(n for _, n in bulk.calls) == sorted(parts)
    assert np.array_equal(digests, hash_rows(b"\0", rows))
    hasher.close()
    bulk.calls.clear()
    assert np.array_equal(hasher.hash_rows(b"\0", rows), digests)
    assert bulk.calls == [(threading.get_ident(), num_rows)]


def test_an_error_on_another_thread_is_the_callers():
    class Failing(Counting):
        def sm3_rows(self, prefix, rows, num_rows):
            found = super().sm3_rows(prefix, rows, num_rows)
            if len(self.calls) > 1:
                raise MemoryError
            return found

    hasher = RowHasher(Failing(), num_threads=2)
    with pytest.raises(MemoryError):
        hasher.hash_rows(b"", np.zeros((256, 1024), np.uint8))
    hasher.close()


def test_there_must_be_a_thread():
    with pytest.raises(ValueError, match="at least one thread, not 0"):
        RowHasher(PortableBulk(), num_threads=0)
