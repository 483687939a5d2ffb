"""What happens when the file system refuses, at every call, and when the disk is full."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time

import pytest

from appliance.log import keeper, space
from appliance.log.anchor import Anchor
from appliance.log.check import LogCheck
from appliance.log.errors import LogUnavailableError
from appliance.log.writer import Limits
from crypto.errors import WriteError
from tests.appliance.log.case import KEYS, entry

CALLS = ("pwrite", "fdatasync", "fsync", "open", "link", "replace", "ftruncate")


def refuse(monkeypatch, name, number, code):
    """Let the `number`-th call of os.NAME from now on fail, and all after it."""
    real, left = getattr(os, name), [number]

    def call(*arguments, **settings):
        left[0] -= 1
        if left[0] <= 0:
            raise OSError(code, os.strerror(code))
        return real(*arguments, **settings)

    monkeypatch.setattr(os, name, call)
    return lambda: monkeypatch.setattr(os, name, real)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("number", [1, 5])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_refusal_loses_nothing_that_was_released(case, monkeypatch, name, number, code):
    released = []
    log = case.start()
    mend = refuse(monkeypatch, name, number, code)
    failed = None
    for text in range(48):
        try:
            released.append(log.append(entry(text)))
        except LogUnavailableError as error:
            failed = error
            break
    if failed is None:
        # Without room for a new segment the old one goes on; nothing else may go unnoticed.
        assert code == errno.ENOSPC
        assert name in ("link", "fsync", "ftruncate", "open", "replace")
        assert not list(case.folder.glob("*.partial"))
    else:
        assert (failed.reason, log.state) == ("failed", "failed")
        assert isinstance(log.failure, OSError | WriteError)
    mend()
    log.close()
    with case.start() as again:
        for committed in released:
            index = committed.position.index
            assert again.files.entry(index).body == committed.entry
            assert again.files.root(committed.head.size) == committed.head.root
        again.append(entry("after"))
    LogCheck(case.files(), keys=KEYS, are_objects=False).run()


@pytest.mark.parametrize("name", ["open", "ftruncate", "fsync"])
def test_a_start_that_cannot_write_says_so_and_can_be_repeated(case, monkeypatch, name):
    case.fill(3)
    path = case.last_file()
    with path.open("ab") as stream:
        stream.write(b"torn")
    head = case.files().head
    case.anchor.write(Anchor(head.log_id, head.size, head.root, head.time_ms))
    real = getattr(os, name)

    def call(target, flags=0, *arguments, **settings):
        if name != "open" or (flags & os.O_RDWR and str(target).endswith(".log")):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(target, flags, *arguments, **settings)

    monkeypatch.setattr(os, name, call)
    with pytest.raises(WriteError, match="Read-only"):
        case.start()
    monkeypatch.setattr(os, name, real)
    assert path.read_bytes().endswith(b"torn") == (name != "fsync")
    case.start().close()


def test_a_folder_that_cannot_be_locked(case, monkeypatch):
    def call(path, flags, *arguments, **settings):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", call)
    with pytest.raises(WriteError, match="lock"):
        case.start()


def test_a_short_write_is_continued(case, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: real(file, data[:100], at))
    case.fill(3)
    assert LogCheck(case.files(), are_objects=False).run().entries == 5


def test_an_anchor_that_cannot_be_written_stops_the_log(case):
    log = case.start()
    case.anchor.path.parent.joinpath("gone").mkdir()
    case.anchor.path = case.anchor.path.parent / "nowhere" / "anchor"
    with pytest.raises(LogUnavailableError) as caught:
        log.idle_checkpoint()
    assert caught.value.reason == "failed"
    assert isinstance(log.failure, WriteError)
    log.close()


def test_an_anchor_without_room_is_tried_again_and_only_closings_go_on(case, monkeypatch):
    monkeypatch.setattr(keeper, "INTERVAL_S", 0.0)
    real, full = case.anchor.write, []

    def write(anchor):
        if full:
            raise WriteError("no room") from OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(anchor)

    monkeypatch.setattr(case.anchor, "write", write)
    with case.start() as log:
        admitted = log.append(entry("admission"), admits=True, reserve_bytes=100)
        assert log.has_room
        full.append(True)
        with pytest.raises(LogUnavailableError) as caught:
            log.idle_checkpoint()
        assert caught.value.reason == "full"
        assert (log.state, log.has_room, log.failure) == ("ready", False, None)
        with pytest.raises(LogUnavailableError, match="no room for the anchor"):
            log.append(entry("another"))
        index = admitted.position.index
        log.append(entry("closing"), closes=index, reservation=admitted.reservation)
        full.clear()
        while not log.has_room:
            time.sleep(0.01)
        log.append(entry("another"))
    assert case.anchor.read().size == case.files().head.size


def test_a_full_disk_refuses_admissions_and_lets_them_be_closed(case, monkeypatch):
    full = []

    def allocate(descriptor, offset, length):
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(space, "keep_allocated", allocate)
    with case.start() as log:
        admitted = log.append(entry("admission"), admits=True, reserve_bytes=60_000)
        index = admitted.position.index
        log._writer.space._allocated = log._writer.space._end + log._writer.space.reserved
        full.append(True)
        with pytest.raises(LogUnavailableError) as caught:
            log.append(entry("another"), admits=True, reserve_bytes=60_000)
        assert caught.value.reason == "full"
        assert log.state == "ready"
        log.append(entry("closing"), closes=index, reservation=admitted.reservation)
        full.clear()
        log.append(entry("another"), admits=True, reserve_bytes=60_000)


def test_without_room_for_what_is_reserved_the_segment_goes_on(case, monkeypatch):
    moves = []

    def allocate(descriptor, offset, length):
        if offset == 144:
            moves.append(length)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(space, "keep_allocated", allocate)
    with case.start() as log:
        log.append(entry("admission"), admits=True, reserve_bytes=60_000)
        for number in range(20):
            log.append(entry(number))
        assert moves
        assert not log.files.closed
    assert [path.name for path in case.folder.glob("*.log")] == [f"{0:016d}.log"]
    case.start().close()


def test_where_blocks_cannot_be_allocated_free_space_is_counted(case, monkeypatch):
    def allocate(descriptor, offset, length):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(space, "keep_allocated", allocate)
    with case.start() as log:
        log.append(entry("fits"), admits=True, reserve_bytes=60_000)
        real = os.fstatvfs
        monkeypatch.setattr(os, "fstatvfs", lambda file: Few(real(file)))
        with pytest.raises(LogUnavailableError) as caught:
            log.append(entry("does not"))
        assert caught.value.reason == "full"


class Few:
    """A file system with few free bytes."""

    def __init__(self, status):
        self.f_frsize = status.f_frsize
        self.f_bavail = 1


def test_reserved_blocks_belong_to_the_segment(case):
    with case.start(limits=Limits()) as log:
        path = log.files.last.path
        kept = [log.reserve(60_000) for _ in range(50)]
        try:
            space.keep_allocated(log._writer._descriptor, 0, 1)
        except OSError:
            pytest.skip("this file system cannot allocate blocks behind the end of a file")
        assert path.stat().st_blocks * 512 >= 50 * 60_000
        assert path.stat().st_size < 10_000
        for reservation in kept:
            reservation.release()
            reservation.release()
        assert log._writer.space.reserved == 0
    assert path.stat().st_blocks * 512 < 60_000


CHILD = """
import resource, sys
from pathlib import Path
from appliance.log.errors import LogUnavailableError
from tests.appliance.log.case import *
case = Case.__new__(Case)
case.base, case.clock = Path(sys.argv[1]), Clock()
case.folder, case.anchor = case.base / "log", FileAnchor(case.base / "anchor")
with case.start(limits=Limits()) as log:
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    try:
        for number in range(100):
            log.append(lambda position: bytes(20_000))
            print(log.head.size, flush=True)
    except LogUnavailableError as error:
        print(error.reason, log.state)
"""


def test_a_limit_on_file_sizes_is_a_full_disk(case):
    result = subprocess.run(
        [sys.executable, "-c", CHILD, str(case.base)], capture_output=True, text=True, check=True
    )
    *sizes, last = result.stdout.splitlines()
    assert last == "full ready"
    assert 10 < len(sizes) < 20
    with case.start() as log:
        assert log.head.size == int(sizes[-1]) + 1
