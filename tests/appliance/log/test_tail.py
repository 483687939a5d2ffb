"""What an interrupted write leaves, and what it cannot leave."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.log.layout import CHECKPOINT, ENTRY, MAX_BATCH_BYTES, encode_record
from appliance.log.records import BrokenRecordError, read_records
from appliance.log.tail import is_interrupted

CHAIN = bytes(range(32))
TEXT = bytes(range(1, 251))


def batch(chain, index, bodies):
    """Return the records of a batch and the chain after it."""
    data = b""
    for number, body in enumerate(bodies):
        record = encode_record(chain, ENTRY, index + number, body)
        data, chain = data + record, record[-32:]
    record = encode_record(chain, CHECKPOINT, index + len(bodies), b"checkpoint" + TEXT)
    return data + record, record[-32:]


def judge(folder, start, tail):
    """Say what the tail of a file is taken for, if it is no whole batch."""
    path = folder / "segment"
    path.write_bytes(bytes(start) + tail)
    last = None
    with path.open("rb") as stream:
        try:
            for record in read_records(stream.fileno(), start, start + len(tail), CHAIN):
                last = record.head.kind
        except BrokenRecordError as error:
            return is_interrupted(tail, start, error.offset, is_beginning=error.is_beginning)
    return "whole" if last == CHECKPOINT else True


bodies = st.lists(st.integers(1, 1500).map(lambda n: (TEXT * 6)[:n]), max_size=4)
starts = st.integers(144, 3000)


@given(st.data(), bodies, starts)
@settings(deadline=None, max_examples=100)
def test_any_beginning_of_a_batch_is_interrupted(tmp_path_factory, data, entries, start):
    tail, _ = batch(CHAIN, 7, entries)
    end = data.draw(st.integers(0, len(tail) - 1))
    assert judge(tmp_path_factory.getbasetemp(), start, tail[:end]) is True


@given(st.data(), bodies, starts)
@settings(deadline=None, max_examples=100)
def test_any_sectors_that_were_not_written_are_interrupted(tmp_path_factory, data, entries, start):
    tail, _ = batch(CHAIN, 7, entries)
    sectors = range(start // 512, (start + len(tail) - 1) // 512 + 1)
    lost = data.draw(st.sets(st.sampled_from(sectors), min_size=1))
    torn = bytearray(tail)
    longest = 0
    for sector in lost:
        first = max(0, sector * 512 - start)
        last = min(len(tail), (sector + 1) * 512 - start)
        torn[first:last] = bytes(last - first)
        longest = max(longest, last - first)
    if longest >= 32:  # a shorter part of a sector is not told from damage, and refused
        assert judge(tmp_path_factory.getbasetemp(), start, bytes(torn)) is True


@given(st.data(), bodies, starts, st.integers(0, 7))
@settings(deadline=None, max_examples=150)
def test_any_wrong_bit_of_a_whole_batch_is_damage(tmp_path_factory, data, entries, start, bit):
    tail, _ = batch(CHAIN, 7, entries)
    at = data.draw(st.integers(0, len(tail) - 1))
    wrong = bytearray(tail)
    wrong[at] ^= 1 << bit
    assert judge(tmp_path_factory.getbasetemp(), start, bytes(wrong)) is False


@given(st.data(), bodies, bodies, starts)
@settings(deadline=None, max_examples=100)
def test_whatever_is_lost_of_a_batch_before_another_is_damage(
    tmp_path_factory, data, entries, others, start
):
    first, chain = batch(CHAIN, 7, entries)
    second, _ = batch(chain, 7 + len(entries), others)
    # A second batch is begun when the first is durable: its checkpoint is not the file's end.
    end = data.draw(st.integers(1, len(second)))
    at = data.draw(st.integers(0, max(0, len(first) - 400)))
    tail = bytearray(first + second[:end])
    length = data.draw(st.integers(1, 60))
    tail[at : at + length] = bytes(byte ^ 0xFF for byte in tail[at : at + length])
    assert judge(tmp_path_factory.getbasetemp(), start, bytes(tail)) is False


def test_a_hole_before_a_checkpoint_with_more_behind_it_is_damage(tmp_path):
    first, chain = batch(CHAIN, 7, [TEXT * 6])
    second, _ = batch(chain, 8, [])
    torn = bytearray(first)
    torn[368:880] = bytes(512)  # a sector of the file
    assert judge(tmp_path, 144, bytes(torn)) is True
    assert judge(tmp_path, 144, bytes(torn) + second[:20]) is False
    assert judge(tmp_path, 144, bytes(torn) + second) is False


def test_more_than_a_batch_is_damage():
    assert is_interrupted(bytes(MAX_BATCH_BYTES), 144, 144, is_beginning=False)
    assert not is_interrupted(bytes(MAX_BATCH_BYTES + 1), 144, 144, is_beginning=False)


def test_a_few_zeros_at_the_end_of_a_batch_are_no_hole(tmp_path):
    for length in range(1, 5000):  # a batch whose digest ends with a zero byte, by chance
        tail, _ = batch(CHAIN, 7, [bytes([1]) * length])
        if tail[-1] == 0:
            break
    start = 144 + (1 - 144 - len(tail)) % 512
    assert (start + len(tail)) % 512 == 1  # and that byte has a sector for itself
    assert judge(tmp_path, start, tail) == "whole"
    wrong = bytearray(tail)
    wrong[60] ^= 1
    assert judge(tmp_path, start, bytes(wrong)) is False
