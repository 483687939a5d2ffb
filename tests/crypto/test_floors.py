"""The file of floors: it only rises, survives crashes and rivals, and is never silently new."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.cbor import encode
from crypto.errors import FormatError, PolicyError, UnavailableError, WriteError
from crypto.floors import MAX_LINES, Floors, FloorStore, decode_floors, encode_floors

CHECKOUT = Path(__file__).parents[2]
LABEL = b"windhover/floors;v=1\0"
LINES = st.text("ab9._-", min_size=0, max_size=4).map("x{}".format)
NUMBERS = st.integers(1, 2**53 - 1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "floors"


def with_digest(body):
    return body + hashlib.new("sm3", body).digest()


def test_the_bytes_are_those_of_the_readme():
    body = LABEL + encode({"releases": {"a": 3}, "revocation_sequence": 7})
    assert encode_floors(Floors({"a": 3}, 7)) == with_digest(body)


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(LINES, NUMBERS, max_size=5), st.integers(0, 2**53 - 1))
def test_floors_are_read_as_they_were_written(releases, sequence):
    floors = decode_floors(encode_floors(Floors(releases, sequence)))
    assert (dict(floors.releases), floors.revocation_sequence) == (releases, sequence)


def test_first_use_has_to_be_said(path):
    with pytest.raises(PolicyError) as caught:
        FloorStore(path).read()
    assert caught.value.reason == "floors-missing"
    with pytest.raises(PolicyError) as caught:
        FloorStore(path).raise_to("a", 1)
    assert caught.value.reason == "floors-missing"
    assert not path.exists()
    floors = FloorStore(path, create=True).read()
    assert floors.is_new
    assert floors.release("a") == floors.revocation_sequence == 0
    assert not path.exists()


def test_the_file_can_be_made_before_anything_was_seen(path):
    assert not FloorStore(path, create=True).raise_revocations(0).is_new
    assert FloorStore(path).read() == Floors()


def test_numbers_only_rise(path):
    store = FloorStore(path, create=True)
    assert store.raise_to("a", 5).release("a") == 5
    assert store.raise_to("a", 3).release("a") == 5
    assert store.raise_to("b", 2).release("a") == 5
    assert store.raise_revocations(9).revocation_sequence == 9
    assert store.raise_revocations(4).revocation_sequence == 9
    floors = FloorStore(path).read()
    assert dict(floors.releases) == {"a": 5, "b": 2}
    assert floors.revocation_sequence == 9
    assert not floors.is_new


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(LINES, NUMBERS), max_size=6), st.lists(st.integers(0, 99), max_size=3))
def test_the_file_holds_the_greatest_of_each(tmp_path_factory, releases, sequences):
    store = FloorStore(tmp_path_factory.mktemp("floors") / "f", create=True)
    for line, release in releases:
        store.raise_to(line, release)
    for sequence in sequences:
        store.raise_revocations(sequence)
    floors = store.read()
    assert dict(floors.releases) == {
        line: max(release for name, release in releases if name == line) for line, _ in releases
    }
    assert floors.revocation_sequence == max(sequences, default=0)


def test_what_changes_nothing_does_not_write(path):
    store = FloorStore(path, create=True)
    store.raise_to("a", 5)
    before = path.stat().st_ino
    store.raise_to("a", 5)
    store.raise_revocations(0)
    assert path.stat().st_ino == before


def test_only_the_owner_can_read_the_file(path):
    previous = os.umask(0)
    try:
        FloorStore(path, create=True).raise_to("a", 5)
    finally:
        os.umask(previous)
    assert {entry.name: entry.stat().st_mode & 0o777 for entry in path.parent.iterdir()} == {
        "floors": 0o600,
        ".floors.lock": 0o600,
    }


@pytest.mark.parametrize(
    ("line", "release"),
    [
        ("", 1),
        ("A", 1),
        (".a", 1),
        ("a" * 65, 1),
        ("a\n", 1),
        ("a", 0),
        ("a", -1),
        ("a", 2**53),
        ("a", True),
    ],
)
def test_what_cannot_be_is_not_written(path, line, release):
    store = FloorStore(path, create=True)
    store.raise_to("a", 5)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="cannot be written"):
        store.raise_to(line, release)
    assert path.read_bytes() == before


def test_lines_are_limited(path):
    full = Floors({f"{number:064}": 2**53 - 1 for number in range(MAX_LINES)}, 2**53 - 1)
    path.write_bytes(encode_floors(full))
    path.chmod(0o600)
    store = FloorStore(path)
    assert len(store.read().releases) == MAX_LINES
    with pytest.raises(ValueError, match="floors-map"):
        store.raise_to("one-more", 1)
    assert len(store.read().releases) == MAX_LINES


def test_every_damage_is_an_error(path):
    store = FloorStore(path, create=True)
    store.raise_to("chat-8b", 5)
    whole = path.read_bytes()
    damaged = [whole[:length] for length in range(len(whole))] + [whole + b"\0"]
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << position % 8
        damaged.append(bytes(flipped))
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(FormatError):
            store.read()
        with pytest.raises(FormatError):
            store.raise_to("chat-8b", 9)
        assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b"windhover/floors;v=2\0" + encode({}), "floors-label"),
        (LABEL + encode([]), "floors-map"),
        (LABEL + encode({"releases": {}}), "floors-map"),
        (LABEL + encode({"releases": {}, "revocation_sequence": 0, "x": 0}), "floors-map"),
        (LABEL + encode({"releases": [], "revocation_sequence": 0}), "floors-map"),
        (LABEL + encode({"releases": {"A": 1}, "revocation_sequence": 0}), "floors-line"),
        (LABEL + encode({"releases": {1: 1}, "revocation_sequence": 0}), "floors-line"),
        (LABEL + encode({"releases": {"a": 0}, "revocation_sequence": 0}), "floors-range"),
        (LABEL + encode({"releases": {"a": True}, "revocation_sequence": 0}), "floors-range"),
        (LABEL + encode({"releases": {"a": 1}, "revocation_sequence": -1}), "floors-range"),
        (LABEL + encode({"releases": {"a": 1}, "revocation_sequence": 2**53}), "floors-range"),
        (LABEL + encode({}) + b"\0", "trailing-bytes"),
        (LABEL, "truncated"),
        (LABEL + bytes(65_536), "floors-size"),
    ],
)
def test_rules(body, rule):
    with pytest.raises(FormatError) as caught:
        decode_floors(with_digest(body))
    assert caught.value.rule == rule


def test_an_empty_file_is_damaged(path):
    path.touch(0o600)
    with pytest.raises(FormatError) as caught:
        FloorStore(path, create=True).read()
    assert caught.value.rule == "floors-size"


def test_a_file_that_others_can_get_at_is_refused(path):
    store = FloorStore(path, create=True)
    store.raise_to("a", 5)
    for mode in (0o620, 0o602, 0o640):
        path.chmod(mode)
        with pytest.raises(PolicyError) as caught:
            store.read()
        assert caught.value.reason == "floors-unsafe"


def test_another_kind_of_file_is_refused(path):
    path.symlink_to("elsewhere")
    with pytest.raises(PolicyError) as caught:
        FloorStore(path, create=True).read()
    assert caught.value.reason == "floors-unsafe"
    path.unlink()
    path.mkdir()
    with pytest.raises(PolicyError) as caught:
        FloorStore(path, create=True).read()
    assert caught.value.reason == "floors-unsafe"


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(WriteError, match="cannot be locked"):
        FloorStore(tmp_path / "absent" / "floors", create=True).raise_to("a", 1)


def test_a_file_that_cannot_be_read_was_not_checked(path, monkeypatch):
    store = FloorStore(path, create=True)
    store.raise_to("a", 5)

    def broken(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "readv", broken)
    with pytest.raises(UnavailableError):
        store.read()


def test_a_full_disk_leaves_the_old_file(path, monkeypatch):
    store = FloorStore(path, create=True)
    store.raise_to("a", 5)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(WriteError, match="floors"):
            store.raise_to("a", 6)
    assert store.read().release("a") == 5
    assert sorted(entry.name for entry in path.parent.iterdir()) == [".floors.lock", "floors"]


def in_another_process(program, path, **options):
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)], cwd=CHECKOUT, text=True, **options
    )


RAISE_MANY = """
import sys
from pathlib import Path
from crypto.floors import FloorStore
store = FloorStore(Path(sys.argv[1]), create=True)
for number in range(1, 31):
    store.raise_to("shared", number)
    store.raise_to(sys.stdin.readline().strip() or "own", number)
"""


def test_two_processes_lose_nothing_of_each_other(path):
    rivals = [in_another_process(RAISE_MANY, path, stdin=subprocess.PIPE) for _ in range(2)]
    for index, rival in enumerate(rivals):
        rival.communicate("".join(f"rival-{index}-{number}\n" for number in range(30)))
        assert rival.returncode == 0
    expected = {f"rival-{index}-{n}": n + 1 for index in range(2) for n in range(30)}
    assert dict(FloorStore(path).read().releases) == {"shared": 30, **expected}


RAISE_FOR_EVER = """
import sys
from pathlib import Path
from crypto.floors import FloorStore
store = FloorStore(Path(sys.argv[1]), create=True)
number = 0
while True:
    number += 1
    store.raise_to("a", number)
    print(number, flush=True)
"""


def test_a_killed_writer_leaves_what_it_had_said_and_frees_the_lock(path):
    seen = 0
    for stop_after in (1, 4, 9):
        writer = in_another_process(RAISE_FOR_EVER, path, stdout=subprocess.PIPE)
        for _ in range(stop_after):
            seen = max(seen, int(writer.stdout.readline()))
        writer.send_signal(signal.SIGKILL)
        rest = writer.communicate()[0].split()
        # The last line may have been cut by the kill.
        seen = max([seen, *map(int, rest[:-1])])
        assert FloorStore(path).read().release("a") >= seen
    assert FloorStore(path).raise_to("a", 10**9).release("a") == 10**9
