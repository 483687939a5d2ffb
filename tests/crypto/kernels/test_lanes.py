"""Every set of instructions that this machine has gives the bytes of the portable one."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.bulk import PortableBulk
from crypto.kernels.bulk import LaneBulk
from crypto.kernels.driver import Driver
from crypto.kernels.variants import VARIANTS
from tests.crypto.kernels.cases import can_run, lane_bulk, pattern, results

ORACLE = PortableBulk()
KEY = bytes(pattern(16, 0))


@pytest.fixture(params=[v.name for v in VARIANTS if can_run(v)])
def bulk(request: pytest.FixtureRequest) -> LaneBulk:
    return lane_bulk(request.param)


def driver_of(bulk: LaneBulk) -> Driver:
    """Return what knows the sizes at which the code goes other ways."""
    return next(v.driver for v in VARIANTS if v.name == bulk.name)


def test_the_standards_examples(bulk: LaneBulk) -> None:
    # GB/T 32905-2016 A.1 and A.2; GB/T 32907-2016 A.1, whose plain text is the counter here
    for prefix, part, digest in (
        (b"", b"abc", "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0"),
        (b"abcd", b"abcd" * 15, "debe9ff92275b8a138604889c18e5a4d6fdb70e5387e5765293dcba39c0c5732"),
    ):
        for count in (1, bulk.lanes):
            assert bulk.sm3_many(prefix, [part] * count) == [bytes.fromhex(digest)] * count
    key = bytes.fromhex("0123456789abcdeffedcba9876543210")
    block = bytearray(16)
    bulk.sm4_ctr_many(key, [int.from_bytes(key)], [block])
    assert block.hex() == "681edf34d206965e86b3e94f536e4246"


def test_all_short_lengths(bulk: LaneBulk) -> None:
    for length in range(301):
        count = 1 + length % (bulk.lanes + 2)
        assert results(bulk, length, count) == results(ORACLE, length, count), length


def test_lengths_around_the_ends_of_pieces(bulk: LaneBulk) -> None:
    driver = driver_of(bulk)
    batch, piece = driver.batch_bytes, driver.piece_bytes
    for edge in (batch, 2 * batch, piece, piece + 63, 2 * piece):
        for length in (edge - 1, edge, edge + 1):
            assert results(bulk, length, 3) == results(ORACLE, length, 3), length


def test_prefixes_of_any_length(bulk: LaneBulk) -> None:
    data = [pattern(200, n) for n in range(3)]
    for length in range(257):
        prefixes = [bytes(pattern(length, n)) for n in range(3)]
        for size in (0, 31, 200):
            parts = [part[:size] for part in data]
            hashed = bulk.sm3_many(prefixes[0], parts)
            assert hashed == ORACLE.sm3_many(prefixes[0], parts), (length, size)
            tags = bulk.hmac_sm3_many(KEY, prefixes, parts)
            assert tags == ORACLE.hmac_sm3_many(KEY, prefixes, parts), (length, size)


def test_any_number_of_inputs(bulk: LaneBulk) -> None:
    for count in range(41):
        assert results(bulk, 300, count) == results(ORACLE, 300, count), count


@pytest.mark.parametrize("exponent", [0, 32, 64, 96, 128])
def test_counters_carry_and_wrap(bulk: LaneBulk, exponent: int) -> None:
    batch = driver_of(bulk).batch_bytes // 16
    distances = {1, 2, 15, 16, 17, 300, *range(batch - 2, batch + 3), 2 * batch - 1, 2 * batch}
    blocks = [(2**exponent - distance) % 2**128 for distance in distances]
    data, expected = ([bytearray(5000) for _ in blocks] for _ in range(2))
    bulk.sm4_ctr_many(KEY, blocks, data)
    ORACLE.sm4_ctr_many(KEY, blocks, expected)
    assert data == expected


def test_keys_of_any_length_for_tags(bulk: LaneBulk) -> None:
    for length in (0, 1, 32, 63, 64, 65, 200):
        key = bytes(pattern(length, 7))
        tags = bulk.hmac_sm3_many(key, [b"x"] * bulk.lanes, [b"y"] * bulk.lanes)
        assert tags == ORACLE.hmac_sm3_many(key, [b"x"], [b"y"]) * bulk.lanes


def test_long_inputs_with_a_short_last_chunk(bulk: LaneBulk) -> None:
    data = pattern((1 << 20) + 4097, 3)
    for part in (data[: 1 << 20], data[1 << 20 :]):
        for count in (1, 3):
            parts, expected = ([bytearray(part) for _ in range(count)] for _ in range(2))
            digests = ORACLE.sm4_ctr_sm3_many(KEY, [5] * count, b"\0", expected)
            assert bulk.sm4_ctr_sm3_many(KEY, [5] * count, b"\0", parts) == digests
            assert parts == expected


# One fixture for a whole module, for hypothesis repeats the test and not its fixtures.
@pytest.fixture(params=[v.name for v in VARIANTS if can_run(v)], scope="module")
def bulk_name(request: pytest.FixtureRequest) -> str:
    return request.param


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_anything(bulk_name: str, data: st.DataObject) -> None:
    used = lane_bulk(bulk_name)
    length, count = data.draw(st.integers(0, 9000)), data.draw(st.integers(1, 20))
    assert results(used, length, count) == results(ORACLE, length, count)


@pytest.mark.parametrize("offset", [1, 3, 17, 63])
def test_buffers_anywhere_and_nothing_around_them(bulk: LaneBulk, offset: int) -> None:
    size, stride, count = 1000, 1100, bulk.lanes + 3
    area = pattern(offset + count * stride, 1)
    before = bytes(area)
    starts = [offset + n * stride for n in range(count)]
    views = [memoryview(area)[start : start + size] for start in starts]
    expected = [bytearray(view) for view in views]
    digests = bulk.sm4_ctr_sm3_many(KEY, starts, b"p", views)
    assert digests == ORACLE.sm4_ctr_sm3_many(KEY, starts, b"p", expected)
    for start, part in zip(starts, expected, strict=True):
        assert area[start : start + size] == part
        area[start : start + size] = before[start : start + size]
    assert area == before


def test_buffers_of_any_type(bulk: LaneBulk) -> None:
    array = np.arange(3000, dtype="<f4").reshape(30, 100)
    raw = array.tobytes()
    given_as = [raw, bytearray(raw), memoryview(raw), array.data, memoryview(array)]
    assert bulk.sm3_many(b"\0", given_as) == ORACLE.sm3_many(b"\0", [raw]) * 5
    for rows in (array.data, raw):
        assert bulk.sm3_rows(b"\0", rows, 30) == ORACLE.sm3_rows(b"\0", raw, 30)
    assert bulk.sm3_rows(b"\0", b"", 3) == ORACLE.sm3_rows(b"\0", b"", 3)


def test_nothing_secret_stays_in_scratch_memory(bulk: LaneBulk) -> None:
    parts = [pattern(777, n) for n in range(bulk.lanes)]
    bulk.sm4_ctr_sm3_many(KEY, [1] * bulk.lanes, b"", parts)
    assert not bulk._memory.words.any()
    bulk.hmac_sm3_many(KEY, [b"x"] * bulk.lanes, parts)
    assert not bulk._memory.words.any()


def test_other_threads_run_meanwhile(bulk: LaneBulk) -> None:
    data = bytes(5_000_000)
    steps, seen = [0], []
    interval = sys.getswitchinterval()

    def hash_it() -> None:
        before = steps[0]
        bulk.sm3_many(b"", [data] * bulk.lanes)
        seen.append(steps[0] - before)

    worker = threading.Thread(target=hash_it)
    try:
        # A thread that holds the lock could lose it only between two operations of Python.
        sys.setswitchinterval(1e-6)
        worker.start()
        while worker.is_alive():
            steps[0] += 1
    finally:
        sys.setswitchinterval(interval)
        worker.join()
    assert seen[0] > 100


def test_threads_do_not_share_scratch_memory(bulk: LaneBulk) -> None:
    parts = [[pattern(4000, n)] * bulk.lanes for n in range(4)]
    expected = [ORACLE.sm3_many(b"", part) * 20 for part in parts]
    found: list[list[bytes]] = [[] for _ in parts]

    def work(number: int) -> None:
        for _ in range(20):
            found[number] += bulk.sm3_many(b"", parts[number])

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == expected
