"""Sockets and folders: both ways, one reader, and nothing half-written is taken."""

from __future__ import annotations

import socket
import stat
import threading

import pytest

from he_chain.errors import ProtocolError
from he_chain.transport import (
    ClosedError,
    FolderChannel,
    SocketChannel,
    connect,
    listening,
)
from he_chain.wire import Message, encode_frame

RUN = bytes(16)


def message(step: int, blob: bytes = b"abc") -> Message:
    return Message("norm", RUN, step, 0, 0, (blob,))


def test_a_socket_of_its_owner(tmp_path):
    path = tmp_path / "s"
    with listening(path) as listener:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        client = connect(path, 5)
        server = SocketChannel(listener.accept()[0], 5)
        big = bytes(range(256)) * 4096
        sender = threading.Thread(target=client.send, args=(message(0, big),))
        sender.start()
        assert server.receive() == message(0, big)
        sender.join()
        assert server.send(message(0)) == len(encode_frame(message(0)))
        assert client.receive() == message(0)
        client.close()
        with pytest.raises(ClosedError):
            server.receive()
        server.close()
    assert not path.exists()


def test_a_message_that_ends_early_is_a_side_that_left():
    ours, theirs = socket.socketpair()
    theirs.sendall(encode_frame(message(0))[:-1])
    theirs.close()
    channel = SocketChannel(ours, 5)
    with pytest.raises(ClosedError):
        channel.receive()
    with pytest.raises(ClosedError):
        channel.send(message(0, bytes(1 << 22)))
    channel.close()


def test_silence_ends():
    ours, theirs = socket.socketpair()
    channel = SocketChannel(ours, 0.05)
    with pytest.raises(ProtocolError, match="silent"):
        channel.receive()
    channel.close()
    theirs.close()


def test_what_cannot_be_listened_at(tmp_path):
    path = tmp_path / "s"
    path.write_text("a file")
    with pytest.raises(ProtocolError, match="no socket"), listening(path):
        pass
    assert path.read_text() == "a file"
    path.unlink()
    with pytest.raises(ProtocolError), listening(tmp_path / "absent" / "s"):
        pass
    with (
        listening(path),
        pytest.raises(ProtocolError, match="somebody listens"),
        listening(path),
    ):
        pass


def test_a_dead_socket_is_replaced(tmp_path):
    path = tmp_path / "s"
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    dead.bind(str(path))
    dead.close()
    with pytest.raises(ProtocolError):
        connect(path, 1)
    with listening(path):
        connect(path, 1).close()


def test_a_folder_carries_both_ways(tmp_path):
    evaluator = FolderChannel(tmp_path / "mail", holder=False, timeout_s=5)
    holder = FolderChannel(tmp_path / "mail", holder=True, timeout_s=5)
    for step in range(3):
        evaluator.send(message(step))
        assert holder.receive() == message(step)
        holder.send(message(step, b"answer"))
        assert evaluator.receive() == message(step, b"answer")
    assert not [p for p in (tmp_path / "mail").rglob("*") if p.is_file()]
    assert stat.S_IMODE((tmp_path / "mail" / "up").stat().st_mode) == 0o700
    evaluator.close()


def test_a_folder_without_an_answer(tmp_path):
    channel = FolderChannel(tmp_path, holder=False, timeout_s=0.05)
    with pytest.raises(ProtocolError, match="silent"):
        channel.receive()


def test_a_file_that_is_no_message(tmp_path):
    holder = FolderChannel(tmp_path, holder=True, timeout_s=0.5)
    (tmp_path / "up" / "00000000.msg").write_bytes(b"\0\0\0\1\xff")
    with pytest.raises(ProtocolError):
        holder.receive()
    (tmp_path / "up" / "00000001.msg").symlink_to("/dev/zero")
    with pytest.raises(ProtocolError):
        holder.receive()


def test_a_new_evaluator_clears_what_a_killed_one_left(tmp_path):
    FolderChannel(tmp_path, holder=False).send(message(9))
    FolderChannel(tmp_path, holder=False)
    assert not list((tmp_path / "up").iterdir())
