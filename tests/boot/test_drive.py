"""The disk whose power is cut: what was flushed is there, and nothing else has to be."""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boot import disks
from tests.boot.drive import BLOCK, Drive, DriveServer

NUM_BLOCKS = 64


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Drive]:
    made = Drive(disks.blank(tmp_path / "disk", NUM_BLOCKS * BLOCK))
    yield made
    made.close()


def on_disk(tmp_path: Path, number: int) -> bytes:
    return (tmp_path / "disk").read_bytes()[number * BLOCK : (number + 1) * BLOCK]


def test_what_was_not_flushed_is_read_until_the_cut_and_then_gone(
    drive: Drive, tmp_path: Path
) -> None:
    drive.write(0, b"a" * BLOCK)
    drive.flush()
    drive.write(BLOCK, b"b" * BLOCK)
    assert drive.read(0, 2 * BLOCK) == b"a" * BLOCK + b"b" * BLOCK
    assert on_disk(tmp_path, 1) == bytes(BLOCK)
    assert drive.cut(None) == (1, 0)
    assert drive.read(0, 2 * BLOCK) == b"a" * BLOCK + bytes(BLOCK)


def test_an_older_flush_of_a_block_is_what_a_cut_goes_back_to(drive: Drive) -> None:
    drive.write(0, b"a" * BLOCK)
    drive.flush()
    drive.write(0, b"b" * BLOCK)
    drive.cut(None)
    assert drive.read(0, BLOCK) == b"a" * BLOCK


def test_a_part_of_a_block_keeps_the_rest(drive: Drive) -> None:
    drive.write(0, b"a" * (2 * BLOCK))
    drive.write(BLOCK - 512, b"b" * 1024)
    expected = b"a" * (BLOCK - 512) + b"b" * 1024 + b"a" * (BLOCK - 512)
    assert drive.read(0, 2 * BLOCK) == expected
    assert drive.read(BLOCK - 1024, 1024) == b"a" * 512 + b"b" * 512
    drive.flush()
    assert drive.read(0, 2 * BLOCK) == expected


def test_a_forced_write_is_durable_alone(drive: Drive) -> None:
    drive.write(0, b"a" * BLOCK)
    drive.write(BLOCK, b"b" * BLOCK, force=True)
    assert drive.cut(None) == (1, 0)
    assert drive.read(0, 2 * BLOCK) == bytes(BLOCK) + b"b" * BLOCK


def test_a_coin_keeps_some_of_what_was_not_flushed(drive: Drive) -> None:
    drive.write(0, b"a" * (NUM_BLOCKS * BLOCK))
    unflushed, kept = drive.cut(b"a coin")
    assert unflushed == NUM_BLOCKS
    assert 0 < kept < NUM_BLOCKS
    blocks = {drive.read(n * BLOCK, BLOCK) for n in range(NUM_BLOCKS)}
    assert blocks == {bytes(BLOCK), b"a" * BLOCK}  # whole or not at all


class Guest:
    """What QEMU says to the server, in as many words as the protocol needs."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(path))
        assert self.take(18) == b"NBDMAGICIHAVEOPT" + struct.pack(">H", 3)
        self.socket.sendall(struct.pack(">I", 3))
        assert self.option(8)[0] == (1 << 31) + 1  # structured replies: not here
        kind, said = self.option(7, struct.pack(">IH", 0, 0))
        assert kind == 3
        (_, self.size, self.flags) = struct.unpack(">HQH", said)
        assert struct.unpack(">QIII", self.take(20))[2] == 1

    def option(self, number: int, data: bytes = b"") -> tuple[int, bytes]:
        self.socket.sendall(b"IHAVEOPT" + struct.pack(">II", number, len(data)) + data)
        magic, option, kind, length = struct.unpack(">QIII", self.take(20))
        assert (magic, option) == (0x3E889045565A9, number)
        return kind, self.take(length)

    def ask(
        self, kind: int, offset: int = 0, length: int = 0, data: bytes = b""
    ) -> tuple[int, bytes]:
        length = length or len(data)
        words = struct.pack(">IHHQQI", 0x25609513, 0, kind, 77, offset, length)
        self.socket.sendall(words + data)
        magic, error, handle = struct.unpack(">IIQ", self.take(16))
        assert (magic, handle) == (0x67446698, 77)
        return error, self.take(length) if kind == 0 and not error else b""

    def take(self, length: int) -> bytes:
        found = b""
        while len(found) < length:
            found += self.socket.recv(length - len(found))
        return found


def test_the_server_reads_writes_and_flushes(drive: Drive, tmp_path: Path) -> None:
    server = DriveServer(drive, tmp_path / "socket")
    guest = Guest(server.path)
    try:
        assert guest.size == NUM_BLOCKS * BLOCK
        assert guest.flags & 2 == 0
        assert guest.ask(1, BLOCK, data=b"x" * BLOCK) == (0, b"")
        assert guest.ask(0, BLOCK, BLOCK) == (0, b"x" * BLOCK)
        assert on_disk(tmp_path, 1) == bytes(BLOCK)
        assert guest.ask(3) == (0, b"")
        assert on_disk(tmp_path, 1) == b"x" * BLOCK
        assert guest.ask(0, NUM_BLOCKS * BLOCK, BLOCK)[0] == 22
        assert guest.ask(1, NUM_BLOCKS * BLOCK, data=b"x" * BLOCK)[0] == 22
        assert guest.ask(4, 0, BLOCK)[0] == 22  # a command that was not offered
        assert (drive.flushes, list(drive.reads)) == (1, [BLOCK])
        guest.socket.close()
        guest = Guest(server.path)  # the next machine finds it
    finally:
        guest.socket.close()
        server.close()


def test_a_drive_that_is_only_read_takes_no_write(drive: Drive, tmp_path: Path) -> None:
    root = Drive(tmp_path / "disk", is_writable=False)
    server = DriveServer(root, tmp_path / "socket")
    guest = Guest(server.path)
    try:
        assert guest.flags & 2
        assert guest.ask(1, 0, data=b"x" * BLOCK)[0] == 22
        assert guest.ask(0, 0, BLOCK) == (0, bytes(BLOCK))
    finally:
        guest.socket.close()
        server.close()
        root.close()
    assert drive.cut(None) == (0, 0)


def test_a_medium_is_read_as_it_was_written(tmp_path: Path) -> None:
    files = tmp_path / "files"
    (files / "export").mkdir(parents=True)
    (files / "export" / "api.key").write_text("a key\n")
    (files / "setup.toml").write_text("format_data = true\n")
    medium = disks.make_medium(tmp_path / "medium", files, 8 << 20)
    out = disks.read_folder(medium, "/export", tmp_path / "out")
    assert {path.name for path in out.iterdir()} == {"api.key"}
    assert (out / "api.key").read_text() == "a key\n"
    label = subprocess.run(
        [disks.found("e2label"), medium], check=True, capture_output=True, text=True
    ).stdout
    assert label.strip() == disks.MEDIUM_LABEL


def test_a_copy_is_replayed_and_the_disk_left_alone(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    disk = disks.make_medium(tmp_path / "medium", files, 8 << 20)
    before = disk.read_bytes()
    copy = disks.replayed(disk, tmp_path / "copy")
    assert disk.read_bytes() == before
    assert disks.read_folder(copy, "/", tmp_path / "out").is_dir()
