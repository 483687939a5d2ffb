"""What a start repairs, and what it refuses, each with its reason."""

from __future__ import annotations

import shutil

import pytest

from appliance.log.anchor import Anchor
from appliance.log.check import LogCheck
from appliance.log.create import create_log
from appliance.log.errors import LogDamageError
from appliance.log.layout import HEADER_BYTES, OVERHEAD_BYTES
from appliance.log.records import read_records
from appliance.log.writer import Limits
from crypto.errors import WriteError
from tests.appliance.log.case import Case, entry, refused

LARGE = Limits()


def copy_of(case, name="copy"):
    """Keep a copy of the log; return its folder."""
    target = case.base / name
    shutil.copytree(case.folder, target)
    return target


def put_back(case, copy):
    """Replace the log by a copy."""
    shutil.rmtree(case.folder)
    shutil.copytree(copy, case.folder)


def without_anchor(case):
    """Make the anchor as old as a second ago: that of the genesis."""
    head = case.files().head
    root = case.files().root(1)
    case.anchor.write(Anchor(head.log_id, 1, root, head.time_ms))


def flip(path, offset, bit=0x10):
    data = bytearray(path.read_bytes())
    data[offset] ^= bit
    path.write_bytes(data)


def one_segment(case, entries=3):
    """Fill a log of one segment; return its file and where its last batch begins."""
    with case.start(limits=LARGE) as log:
        for number in range(entries):
            before = log.files.last.end
            log.append(entry(number))
    return case.last_file(), before


def test_every_beginning_of_a_batch_is_cut(case):
    path, before = one_segment(case)
    whole = path.read_bytes()
    without_anchor(case)
    for end in [*range(before, len(whole), 7), len(whole) - 1]:
        path.write_bytes(whole[:end])
        files = case.files()
        assert (files.last.end, files.last.cut) == (before, end - before)
        assert files.head.size == 4
    path.write_bytes(whole[: before + 40])
    with case.start() as log:
        assert log.append(entry("after")).position.index == 5
        assert log.files.entry(4).body.find(b"cut 40") > 0


def test_whole_entries_without_a_checkpoint_are_cut(case):
    path, before = one_segment(case)
    data = path.read_bytes()
    length = len(b"2 at 4") + OVERHEAD_BYTES
    path.write_bytes(data[: before + length])
    without_anchor(case)
    assert case.files().last.cut == length
    case.start().close()


def test_places_that_were_never_written_are_cut(case):
    path, before = one_segment(case)
    whole = path.read_bytes()
    without_anchor(case)
    zeros = bytes(len(whole))
    sector = before + 512 - before % 512
    assert sector < len(whole)
    for start, end in ((before, len(whole)), (before, sector), (sector, len(whole))):
        path.write_bytes(whole[:start] + zeros[start:end] + whole[end:])
        assert case.files().last.cut == len(whole) - before
    path.write_bytes(whole[:before] + zeros[before:])
    case.start().close()


def test_a_bit_in_the_last_batch_is_damage_even_before_an_anchor(case):
    path, before = one_segment(case)
    whole = path.read_bytes()
    without_anchor(case)
    for offset in [*range(before, len(whole), 4), len(whole) - 1]:
        flip(path, offset)
        error = refused(case.start)
        assert (error.reason, error.file) == ("corrupted", path)
        path.write_bytes(whole)
    case.start().close()


def test_zeros_in_an_earlier_batch_are_damage(case):
    path, _ = one_segment(case, entries=6)
    whole = path.read_bytes()
    without_anchor(case)
    start = len(whole) // 2 - len(whole) // 2 % 512
    path.write_bytes(whole[:start] + bytes(512) + whole[start + 512 :])
    assert refused(case.start).reason == "corrupted"


def test_more_than_a_batch_behind_the_checkpoint_is_damage(case):
    path, _ = one_segment(case)
    with path.open("ab") as stream:
        stream.write(bytes(65 * (65_536 + 64) + 1))
    assert refused(case.start).reason == "corrupted"


def test_an_altered_byte_of_a_closed_segment_is_named(case):
    case.fill(20)
    path = sorted(case.folder.glob("*.log"))[1]
    whole = path.read_bytes()
    for offset in range(0, len(whole), max(1, len(whole) // 60)):
        flip(path, offset)
        with pytest.raises(LogDamageError) as caught:
            LogCheck(case.files(), are_objects=False).run()
        assert (caught.value.reason, caught.value.file) == ("corrupted", path)
        assert 8 <= caught.value.index <= 16
        path.write_bytes(whole)


def test_an_altered_byte_of_an_index_is_named_or_the_index_made_anew(case):
    case.fill(20)
    path = sorted(case.folder.glob("*.idx"))[1]
    whole = path.read_bytes()
    for offset in range(0, len(whole), max(1, len(whole) // 60)):
        flip(path, offset)
        found = None
        try:
            assert LogCheck(case.files(), are_objects=False).run().indexes_lost == 1
        except LogDamageError as error:
            found = (error.reason, error.file, error.index)
        assert found in (None, ("corrupted", path, 8))
        path.write_bytes(whole)
    assert LogCheck(case.files(), are_objects=False).run().indexes_lost == 0


def test_a_swap_of_two_records_is_damage(case):
    path, _ = one_segment(case, entries=4)
    data = path.read_bytes()
    with path.open("rb") as stream:
        header = stream.read(HEADER_BYTES)
        records = list(read_records(stream.fileno(), HEADER_BYTES, len(data), header[-32:]))
    entries = [record for record in records if record.head.index > 2]
    first, second = entries[0], entries[2]
    a, b = data[first.offset : first.end], data[second.offset : second.end]
    assert len(a) == len(b)
    swapped = bytearray(data)
    swapped[first.offset : first.end], swapped[second.offset : second.end] = b, a
    path.write_bytes(swapped)
    error = refused(case.start)
    assert (error.reason, error.index) == ("corrupted", first.head.index)


def test_a_log_cut_back_to_an_earlier_copy_is_refused(case):
    case.fill(12)
    copy = copy_of(case)
    case.fill(12)
    put_back(case, copy)
    error = refused(case.start)
    assert error.reason == "older-than-anchor"
    assert error.index == 14


def test_a_log_that_ends_in_a_batch_below_the_anchor_is_truncated(case):
    path, before = one_segment(case)
    path.write_bytes(path.read_bytes()[: before + 50])
    size = path.stat().st_size
    assert refused(case.start).reason == "truncated"
    assert path.stat().st_size == size  # nothing was cut


def test_a_fork_is_refused(case):
    case.fill(4)
    copy = copy_of(case)
    case.fill(4)
    put_back(case, copy)
    anchor = case.anchor.read()
    case.anchor.path.unlink()
    case.anchor.write(Anchor(anchor.log_id, 1, case.files().root(1), anchor.time_ms))
    case.fill(9)  # another history of the same log, longer than the first
    case.anchor.write(anchor)
    assert refused(case.start).reason == "forked"


def test_with_log_and_anchor_rolled_back_it_starts(case):
    case.fill(4)
    copy, anchor = copy_of(case), case.anchor.path.read_bytes()
    later = case.fill(4)
    put_back(case, copy)
    case.anchor.path.write_bytes(anchor)
    with case.start() as log:  # who holds the later head notices: it cannot be extended
        assert log.head.size < later.size
        while log.head.size < later.size:
            log.append(entry("other"))
        assert log.files.root(later.size) != later.root


def test_an_anchor_must_be_there_beside_a_log_with_entries(case):
    case.anchor.path.unlink()
    case.fill(1)  # a genesis alone may have none: the machine stopped between the two
    case.anchor.path.unlink()
    assert refused(case.start).reason == "anchor-missing"


def test_a_damaged_anchor_is_refused(case):
    case.fill(1)
    whole = case.anchor.path.read_bytes()
    for offset in range(0, len(whole), 3):
        flip(case.anchor.path, offset)
        assert refused(case.start).reason == "anchor-damaged"
        case.anchor.path.write_bytes(whole)
    case.anchor.path.chmod(0o644)
    assert refused(case.start).reason == "anchor-damaged"


def test_another_log_is_refused(case, tmp_path):
    case.fill(20)
    (tmp_path / "other").mkdir()
    other = Case(tmp_path / "other")
    other.fill(20)
    anchor = case.anchor.path.read_bytes()
    case.anchor.path.write_bytes(other.anchor.path.read_bytes())
    assert refused(case.start).reason == "other-log"
    case.anchor.path.write_bytes(anchor)
    path = sorted(case.folder.glob("*.log"))[1]
    shutil.copyfile(other.folder / path.name, path)
    path.with_suffix(".idx").unlink()
    error = refused(case.start)
    assert (error.reason, error.file) == ("other-log", path)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_segment_that_is_gone_is_missed(case, which):
    case.fill(30)
    path = sorted(case.folder.glob("*.log"))[which]
    path.unlink()
    error = refused(case.start)
    assert (error.reason, error.file) == ("missing-segment", path)
    path.with_suffix(".idx").unlink()
    error = refused(case.start)
    assert (error.reason, error.file) == ("missing-segment", path)
    assert error.index == int(path.stem)


def test_a_last_segment_that_is_gone_is_missed(case):
    case.fill(27)
    copy = copy_of(case)
    case.last_file().unlink()
    assert refused(case.start).reason == "older-than-anchor"
    put_back(case, copy)
    case.fill(2)  # closes it
    case.last_file().unlink()
    case.last_file().unlink()
    assert refused(case.start).reason == "missing-segment"  # its index is left


def test_segments_in_the_wrong_order_are_refused(case):
    case.fill(30)
    first, second = sorted(case.folder.glob("*.log"))[1:3]
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    for path in case.folder.glob("*.idx"):
        path.unlink()
    error = refused(case.start)
    assert (error.reason, error.file) == ("corrupted", first)


def test_lost_indexes_are_made_anew(case):
    case.fill(30)
    kept = {path: path.read_bytes() for path in case.folder.glob("*.idx")}
    assert len(kept) >= 3
    for number, path in enumerate(kept):
        if number % 2:
            path.write_bytes(b"")
        else:
            path.unlink()
    case.start().close()
    assert {path: path.read_bytes() for path in kept} == kept


def test_a_segment_that_was_begun_and_not_used_is_continued(case):
    case.fill(6)  # the eighth entry closes the segment
    assert case.files().last.end == HEADER_BYTES
    with case.start() as log:
        assert log.head.size == 9
        assert log.files.entry(8).body.find(b"boot") > 0


def test_no_log_is_no_damage(case, tmp_path):
    shutil.rmtree(case.folder)
    case.folder.mkdir()
    with pytest.raises(FileNotFoundError):
        case.start()


def test_a_log_is_made_once(case):
    with pytest.raises(WriteError, match="already"):
        create_log(case.folder, **{**case.settings(), "anchor": NoAnchor()})


class NoAnchor:
    """A place that has no anchor yet."""

    def read(self):
        return None

    def write(self, anchor):
        raise AssertionError("nothing was made that could be remembered")
