"""A disk whose cache forgets: what the guest did not flush is lost when the power is cut.

Killing QEMU alone is no power cut: what it wrote to a file lies in this machine's page cache and is
there afterwards, flushed or not. So the data disk of the guest is a server of the NBD protocol in
this process. It keeps every write in memory until the guest flushes, and a cut drops what is left:
all of it, or every other block as by a coin, which is a drive that had begun to write, in its order
and not in the guest's.

A block is 4096 bytes and is written whole or not at all. Not shown: a drive that tears a block, one
that says that it flushed and did not, and one that loses what it had.

Source: the NBD protocol, https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path

BLOCK = 4096
_MAX_REQUEST = 1 << 26

_SERVER_FLAGS = 3  # fixed newstyle, no zeroes
_OPTION_EXPORT_NAME, _OPTION_ABORT, _OPTION_INFO, _OPTION_GO = 1, 2, 6, 7
_OPTION_MAGIC = b"IHAVEOPT"
_REPLY_MAGIC = 0x3E889045565A9
_REPLY_ACK, _REPLY_INFO, _REPLY_UNSUPPORTED = 1, 3, (1 << 31) + 1
_EXPORT_FLAGS = 1 | 4 | 8  # flags are there, flush, force unit access
_READ_ONLY = 2
_REQUEST_MAGIC, _ANSWER_MAGIC = 0x25609513, 0x67446698
_READ, _WRITE, _DISCONNECT, _FLUSH = 0, 1, 2, 3
_FORCE = 1
_INVALID = 22


class Drive:
    """A file of blocks, and the volatile cache before it.

    flushes: how often the guest asked for its writes to be durable. reads: where the blocks lie
    that the guest read, in the order of the first time.
    """

    def __init__(self, path: Path, *, is_writable: bool = True) -> None:
        """Open the file, whose length is the disk's: a multiple of the block."""
        self._file = os.open(path, os.O_RDWR if is_writable else os.O_RDONLY)
        self.is_writable = is_writable
        self.num_bytes = os.fstat(self._file).st_size
        self._cache: dict[int, bytes] = {}
        self._lock = threading.Lock()
        self.flushes = 0
        self.reads: dict[int, None] = {}

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes as the guest last wrote them."""
        with self._lock:
            self.reads |= dict.fromkeys(range(offset // BLOCK * BLOCK, offset + length, BLOCK))
            return self._read(offset, length)

    def write(self, offset: int, data: bytes, *, force: bool = False) -> None:
        """Take bytes into the cache, or make them durable at once."""
        with self._lock:
            first, last = offset // BLOCK * BLOCK, -(-(offset + len(data)) // BLOCK) * BLOCK
            whole = bytearray(data)
            if first != offset:
                whole[:0] = self._read(first, offset - first)
            if last != offset + len(data):
                whole += self._read(offset + len(data), last - offset - len(data))
            for at in range(first, last, BLOCK):
                block = bytes(whole[at - first : at - first + BLOCK])
                if force:
                    self._cache.pop(at, None)
                    os.pwrite(self._file, block, at)
                else:
                    self._cache[at] = block

    def flush(self) -> None:
        """Make durable what was written."""
        with self._lock:
            self.flushes += 1
            for at, block in self._cache.items():
                os.pwrite(self._file, block, at)
            self._cache.clear()

    def cut(self, coin: bytes | None) -> tuple[int, int]:
        """Lose power; return how many blocks were not flushed, and how many of them stayed.

        Args:
            coin: decides for each block whether it was written; None loses all.
        """
        with self._lock:
            unflushed, kept = len(self._cache), 0
            for at, block in self._cache.items():
                if coin and hashlib.sha256(coin + at.to_bytes(8, "big")).digest()[0] & 1:
                    os.pwrite(self._file, block, at)
                    kept += 1
            self._cache.clear()
            return unflushed, kept

    def close(self) -> None:
        """Close the file; what was not flushed is lost. Closing again does nothing."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _read(self, offset: int, length: int) -> bytes:
        """Read below the lock."""
        found = bytearray(os.pread(self._file, length, offset))
        for at in range(offset // BLOCK * BLOCK, offset + length, BLOCK):
            block = self._cache.get(at)
            if block is not None:
                start, end = max(at, offset), min(at + BLOCK, offset + length)
                found[start - offset : end - offset] = block[start - at : end - at]
        return bytes(found)


class DriveServer:
    """Serves a drive on a unix socket, to one machine at a time."""

    def __init__(self, drive: Drive, path: Path) -> None:
        """Listen at once, in a thread of its own."""
        self.drive, self.path = drive, path
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it: no request is answered any more when this returns."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)
        self.path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, suppress(ConnectionError):
                if self._negotiate(connection):
                    self._answer(connection)

    def _negotiate(self, connection: socket.socket) -> bool:
        """Agree on the one export; return whether requests follow."""
        connection.sendall(b"NBDMAGIC" + _OPTION_MAGIC + struct.pack(">H", _SERVER_FLAGS))
        _take(connection, 4)
        flags = _EXPORT_FLAGS | (0 if self.drive.is_writable else _READ_ONLY)
        size = struct.pack(">QH", self.drive.num_bytes, flags)
        while True:
            magic, option, length = struct.unpack(">8sII", _take(connection, 16))
            if magic != _OPTION_MAGIC or length > BLOCK:
                return False
            _take(connection, length)
            if option == _OPTION_EXPORT_NAME:
                connection.sendall(size)
                return True
            if option in {_OPTION_INFO, _OPTION_GO}:
                _reply(connection, option, _REPLY_INFO, struct.pack(">H", 0) + size)
                _reply(connection, option, _REPLY_ACK)
                if option == _OPTION_GO:
                    return True
            elif option == _OPTION_ABORT:
                _reply(connection, option, _REPLY_ACK)
                return False
            else:
                _reply(connection, option, _REPLY_UNSUPPORTED)

    def _answer(self, connection: socket.socket) -> None:
        """Answer requests until the connection ends."""
        while True:
            request = struct.unpack(">IHHQQI", _take(connection, 28))
            magic, flags, kind, handle, offset, length = request
            if magic != _REQUEST_MAGIC or kind == _DISCONNECT or length > _MAX_REQUEST:
                return
            data, error = b"", 0
            if kind == _WRITE:
                data = _take(connection, length)
            beyond = kind in {_READ, _WRITE} and offset + length > self.drive.num_bytes
            if beyond or (kind == _WRITE and not self.drive.is_writable):
                data, error = b"", _INVALID
            elif kind == _READ:
                data = self.drive.read(offset, length)
            elif kind == _WRITE:
                self.drive.write(offset, data, force=bool(flags & _FORCE))
                data = b""
            elif kind == _FLUSH:
                self.drive.flush()
            else:
                error = _INVALID
            connection.sendall(struct.pack(">IIQ", _ANSWER_MAGIC, error, handle) + data)


def _take(connection: socket.socket, length: int) -> bytes:
    """Receive exactly so many bytes."""
    found = bytearray()
    while len(found) < length:
        part = connection.recv(min(length - len(found), 1 << 20))
        if not part:
            raise ConnectionResetError
        found += part
    return bytes(found)


def _reply(connection: socket.socket, option: int, kind: int, data: bytes = b"") -> None:
    """Answer an option."""
    connection.sendall(struct.pack(">QIII", _REPLY_MAGIC, option, kind, len(data)) + data)
