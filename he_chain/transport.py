"""How messages travel: a Unix socket that only its owner may use, or a folder of files.

Both sides of a channel send and receive in turn. A folder needs no connection: it may be carried
from one machine to another, and either side may be away for a while.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from he_chain.errors import CheckpointError, ProtocolError
from he_chain.records.run_folder import read_whole, write_whole
from he_chain.wire import MAX_FRAME_BYTES, Message, decode_frame, encode_frame, read_frame

DEFAULT_TIMEOUT_S: Final = 600.0
_POLL_S: Final = 0.02
_BACKLOG: Final = 1


class ClosedError(ProtocolError):
    """The other side is gone: it may have been killed, and another may come in its place."""


class Channel(Protocol):
    """One side of a conversation."""

    def send(self, message: Message) -> int:
        """Send a message and return the bytes that travel; ProtocolError."""

    def receive(self) -> Message:
        """Wait for the next message; ProtocolError, `ClosedError`."""

    def close(self) -> None:
        """End the conversation."""


class SocketChannel:
    """A connected socket."""

    def __init__(self, connection: socket.socket, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Take over the socket; no wait is longer than the timeout."""
        connection.settimeout(timeout_s)
        self._socket = connection

    def send(self, message: Message) -> int:
        """Send a message and return the bytes that travel.

        Raises:
            ClosedError: nobody is there.
            ProtocolError: it did not go in time.
        """
        frame = encode_frame(message)
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise ClosedError(f"the other side is gone: {error}") from None
        return len(frame)

    def receive(self) -> Message:
        """Wait for the next message.

        Raises:
            ClosedError: the other side left.
            ProtocolError: it sent nothing in time, or what is no message.
        """

        def read(count: int) -> bytes:
            data = bytearray(count)
            view = memoryview(data)
            while view:
                try:
                    got = self._socket.recv_into(view)
                except TimeoutError:
                    raise ProtocolError("the other side is silent") from None
                except OSError as error:
                    raise ClosedError(f"the other side is gone: {error}") from None
                if not got:
                    raise ClosedError("the other side is gone")
                view = view[got:]
            return bytes(data)

        return read_frame(read)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class FolderChannel:
    """Two folders of numbered files, one for each direction.

    A file is there whole or not at all. Who receives a message removes it, so that what was taken
    is never taken again.
    """

    def __init__(self, folder: Path, *, holder: bool, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Use or make the folders `up` (to the holder) and `down` below `folder`, mode 0700.

        Raises:
            ProtocolError: they cannot be made.
        """
        up, down = folder / "up", folder / "down"
        self._out, self._in = (down, up) if holder else (up, down)
        self._timeout_s = timeout_s
        try:
            for path in (up, down):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not holder:
                for path in (*up.iterdir(), *down.iterdir()):
                    path.unlink()  # of an evaluator that was killed
        except OSError as error:
            raise ProtocolError(f"{folder}: {error.strerror}") from None
        self._awaited = "[0-9]*.msg"
        self._is_holder = holder

    def send(self, message: Message) -> int:
        """Write a message and return its bytes."""
        frame = encode_frame(message)
        name = f"{message.step:08}.msg"
        write_whole(self._out / name, frame, force=True, mode=0o600)
        if not self._is_holder:
            self._awaited = name  # an answer to an evaluator that was killed is not taken
        return len(frame)

    def receive(self) -> Message:
        """Wait for the next file, read and remove it.

        Raises:
            ProtocolError: none in time, or it is no message.
        """
        end = time.monotonic() + self._timeout_s
        while True:
            waiting = sorted(self._in.glob(self._awaited))
            if waiting:
                return self._take(waiting[0])
            if time.monotonic() > end:
                raise ProtocolError("the other side is silent")
            time.sleep(_POLL_S)

    def _take(self, path: Path) -> Message:
        try:
            data = read_whole(path, MAX_FRAME_BYTES)
        except CheckpointError as error:
            raise ProtocolError(str(error)) from None
        with suppress(FileNotFoundError):
            path.unlink()
        return decode_frame(data)

    def close(self) -> None:
        """Do nothing: files stay for the other side."""


def connect(path: Path, timeout_s: float = DEFAULT_TIMEOUT_S) -> SocketChannel:
    """Connect to a key holder's socket.

    Raises:
        ProtocolError: nobody listens there.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(os.fspath(path))
    except OSError as error:
        connection.close()
        raise ProtocolError(f"{path}: {error.strerror or error}") from None
    return SocketChannel(connection, timeout_s)


@contextmanager
def listening(path: Path, user_id: int | None = None) -> Iterator[socket.socket]:
    """Listen on a Unix socket of mode 0600, which is removed at the end.

    A socket that is there already and that nobody listens on is replaced.

    Args:
        path: where it stands.
        user_id: who may connect, by default this process's user; another one takes a privilege.

    Raises:
        ProtocolError: something else is there, or somebody listens.
    """
    _remove_dead(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        mask = os.umask(0o177)
        try:
            listener.bind(os.fspath(path))
        finally:
            os.umask(mask)
        if user_id is not None:
            os.chown(path, user_id, -1)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ProtocolError(f"{path}: {error.strerror or error}") from None
    try:
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


def _remove_dead(path: Path) -> None:
    """Remove a socket whose listener was killed."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if not stat.S_ISSOCK(mode):
        raise ProtocolError(f"{path} exists and is no socket")
    try:
        connect(path, 1.0).close()
    except ProtocolError:
        path.unlink()
        return
    raise ProtocolError(f"{path}: somebody listens there already")
