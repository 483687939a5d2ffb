from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

import crypto.private_file as module
from crypto.errors import KeyFileError
from crypto.private_file import read_private_file, read_until_end, wipe


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"content")
    path.chmod(0o600)
    return path


def reason(path, **options):
    with pytest.raises(KeyFileError) as caught:
        read_private_file(path, **{"max_bytes": 100} | options)
    assert str(path) in str(caught.value)
    return caught.value.reason


def test_reads_the_whole_file(file):
    content = read_private_file(file, max_bytes=7)
    assert type(content) is bytearray
    assert content == b"content"


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700, 0o500])
def test_modes_that_only_the_owner_has(file, mode):
    file.chmod(mode)
    assert read_private_file(file, max_bytes=100) == b"content"


@pytest.mark.parametrize("bit", [0o040, 0o020, 0o010, 0o004, 0o002, 0o001])
def test_any_bit_of_group_or_others_is_refused(file, bit):
    file.chmod(0o600 | bit)
    assert reason(file) == "mode"


@pytest.mark.parametrize(
    ("mode", "accepted"),
    [
        (0o440, True),
        (0o400, True),
        (0o640, True),
        (0o460, False),
        (0o450, False),
        (0o444, False),
        (0o442, False),
        (0o441, False),
    ],
)
def test_modes_where_the_group_may_read(file, mode, accepted):
    file.chmod(mode)
    if accepted:
        assert read_private_file(file, max_bytes=100, group_may_read=True) == b"content"
    else:
        assert reason(file, group_may_read=True) == "mode"


def test_a_file_of_another_user_is_refused(file, monkeypatch):
    if os.geteuid() == 0:
        os.chown(file, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert reason(file) == "owner"


def test_a_file_of_root_is_read(file, monkeypatch):
    status = list(file.stat())
    status[4] = 0
    monkeypatch.setattr(os, "fstat", lambda descriptor: os.stat_result(status))
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert read_private_file(file, max_bytes=100) == b"content"


def test_a_symbolic_link_is_refused(file, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(file)
    assert reason(link) == "symlink"
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert reason(loop) == "symlink"


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    tmp_path.chmod(0o700)
    assert reason(tmp_path) == "kind"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert reason(pipe) == "kind"
    # The path of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder) / "socket"
        listener.bind(str(path))
        assert reason(path) == "unreadable"
    assert reason(Path("/dev/null")) == "kind"


def test_a_file_that_is_not_there(tmp_path):
    assert reason(tmp_path / "nothing") == "missing"
    assert reason(tmp_path / "nothing" / "nothing") == "missing"
    assert reason(tmp_path / ("a" * 300)) == "unreadable"


@pytest.mark.parametrize(("size", "limit"), [(0, 100), (101, 100), (1 << 20, 100)])
def test_sizes_out_of_range_are_refused_before_reading(file, size, limit, monkeypatch):
    def readv(descriptor, buffers):
        pytest.fail("read")

    file.write_bytes(bytes(size))
    monkeypatch.setattr(os, "readv", readv)
    assert reason(file, max_bytes=limit) == "size"


@pytest.mark.parametrize("size", [1, 99, 100])
def test_sizes_in_range(file, size):
    file.write_bytes(bytes(size))
    assert read_private_file(file, max_bytes=100) == bytes(size)


@pytest.mark.parametrize("size", [0, 101, 5000])
def test_a_file_that_changed_its_size_meanwhile_is_refused(file, size, monkeypatch):
    status = file.stat()
    file.write_bytes(bytes(size))
    monkeypatch.setattr(os, "fstat", lambda descriptor: status)
    assert reason(file) == "size"


def test_an_error_while_reading(file, monkeypatch):
    def readv(descriptor, buffers):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "readv", readv)
    assert reason(file) == "unreadable"


def test_no_descriptor_stays_open(file, tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    read_private_file(file, max_bytes=100)
    reason(file, max_bytes=3)
    reason(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_path_below_an_open_directory(file):
    descriptor = os.open(file.parent, os.O_RDONLY)
    try:
        assert read_private_file(file.name, max_bytes=100, dir_fd=descriptor) == b"content"
    finally:
        os.close(descriptor)


def test_short_reads_are_joined_and_buffers_are_wiped(monkeypatch):
    seen = []
    data = bytearray(b"a passphrase in small pieces")

    def readv(descriptor, buffers):
        count = min(5, len(data), len(buffers[0]))
        buffers[0][:count] = data[:count]
        del data[:count]
        seen.append(buffers[0].obj)
        return count

    monkeypatch.setattr(os, "readv", readv)
    assert read_until_end(0, "name", max_bytes=100) == b"a passphrase in small pieces"
    assert {id(buffer) for buffer in seen} == {id(seen[0])}
    assert not any(seen[0])


def test_wipe():
    buffer = bytearray(b"secret")
    wipe(buffer)
    assert buffer == bytes(6)
    wipe(bytearray())


def test_flags():
    for flag in (os.O_NOFOLLOW, os.O_CLOEXEC, os.O_NONBLOCK, os.O_NOCTTY):
        assert module._FLAGS & flag
