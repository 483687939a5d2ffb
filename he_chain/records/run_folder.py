"""The folder of a run: RUN/begin.rec, RUN/records/NNNNN.rec, RUN/cts/NAME.ct.

A hop's ciphertexts are written first and its record last, each whole or not at all, so that what is
there after a kill is a number of finished hops, and at most some ciphertexts that no record names.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from crypto.atomic import AtomicFile
from he_chain.errors import CheckpointError
from he_chain.records.codec import MAX_RECORD_BYTES
from he_chain.records.record import (
    MAX_BLOB_BYTES,
    Begin,
    Blob,
    Record,
    blob_digest,
    decode_begin,
    decode_record,
)

MAX_RECORDS: Final = 100_000


class Run:
    """A run whose records have been read: they follow each other, and each names the one before."""

    def __init__(self, folder: Path, begin: Begin, records: list[Record]) -> None:
        """Wrap what was read; callers use `create` and `open`."""
        self.folder = folder
        self.begin = begin
        self.records = records
        self._head = records[-1].digest() if records else begin.digest()

    @classmethod
    def create(cls, folder: Path, begin: Begin) -> Run:
        """Make a new run, its folder included.

        Raises:
            WriteError: there is a run already, or the file system refused.
        """
        for path in (folder, folder / "records", folder / "cts"):
            path.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "begin.rec", begin.encode(), force=False)
        return cls(folder, begin, [])

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Read a run as far as it is written; ciphertexts are not looked at.

        Raises:
            CheckpointError: a record is missing, damaged, or does not follow the one before.
        """
        begin = decode_begin(read_whole(folder / "begin.rec", MAX_RECORD_BYTES))
        records: list[Record] = []
        previous = begin.digest()
        for number in range(_count_records(folder / "records")):
            path = _record_path(folder, number)
            record = decode_record(read_whole(path, MAX_RECORD_BYTES))
            if record.number != number:
                raise CheckpointError(f"{path.name} says that it is number {record.number}")
            if record.previous != previous:
                raise CheckpointError(f"{path.name} does not follow the record before it")
            records.append(record)
            previous = record.digest()
        return cls(folder, begin, records)

    @property
    def head(self) -> bytes:
        """Digest of the last record (of the begin record where there is none)."""
        return self._head

    @property
    def next_number(self) -> int:
        """Number of the record that is to come: a run is resumed here."""
        return len(self.records)

    def write_blob(
        self, name: str, data: bytes, level: int, scale: float, *, values: int = 0
    ) -> Blob:
        """Write a ciphertext; one of this name that no record names is replaced.

        Args:
            name: `00012.x` or such; see `Blob.values` for names that are measured.
            data: its bytes.
            level: as of the ciphertext.
            scale: as of the ciphertext.
            values: as of `Blob`.

        Raises:
            CheckpointError: a record names that file already.
            WriteError: the file system refused.
        """
        blob = Blob(name, blob_digest(data), len(data), level, float(scale).hex(), values)
        if any(blob.name == old.name for record in self.records for old in record.outputs):
            raise CheckpointError(f"{name}.ct belongs to a hop that is finished")
        write_whole(self.folder / "cts" / f"{name}.ct", data, force=True)
        return blob

    def read_blob(self, blob: Blob) -> bytes:
        """Return the bytes of a ciphertext.

        Raises:
            CheckpointError: it is missing, or not the one that the record names.
        """
        data = read_whole(self.folder / "cts" / f"{blob.name}.ct", blob.size_bytes)
        if len(data) != blob.size_bytes or blob_digest(data) != blob.digest:
            raise CheckpointError(f"{blob.name}.ct is not the one that the record names")
        return data

    def append(self, record: Record) -> None:
        """Write the record of a finished hop, whose ciphertexts have been written.

        Raises:
            CheckpointError: it does not follow the last one.
            WriteError: there is one of its number, or the file system refused.
        """
        if record.number != self.next_number or record.previous != self._head:
            raise CheckpointError(f"record {record.number} does not follow the last one")
        encoded = record.encode()
        write_whole(_record_path(self.folder, record.number), encoded, force=False)
        self.records.append(record)
        self._head = record.digest()


def write_whole(path: Path, data: bytes, *, force: bool, mode: int | None = None) -> None:
    """Write a file that is there whole or not at all; WriteError as of AtomicFile."""
    with AtomicFile(path, force=force, mode=mode) as file:
        file.create()
        file.write_at(0, data)
        file.commit()


def read_whole(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        CheckpointError: it is missing, cannot be read, is no file, or has more than `max_bytes`.
    """
    if not 0 <= max_bytes <= MAX_BLOB_BYTES:
        raise CheckpointError(f"{path.name} would be longer than a file of a run may be")
    with _opened(path) as descriptor:
        data = bytearray()
        while piece := os.read(descriptor, min(max_bytes + 1 - len(data), 1 << 20)):
            data += piece
            if len(data) > max_bytes:
                raise CheckpointError(f"{path.name} has more than {max_bytes} bytes")
        return bytes(data)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a regular file, and turn what the system says into a CheckpointError."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CheckpointError(f"{path}: not a regular file")
        yield descriptor
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    finally:
        os.close(descriptor)


def _record_path(folder: Path, number: int) -> Path:
    return folder / "records" / f"{number:05}.rec"


def _count_records(folder: Path) -> int:
    """Return how many records there are; a gap shows when the first missing one is read."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name[0] != ".")
    except OSError as error:
        raise CheckpointError(f"{folder}: {error.strerror}") from None
    if len(names) > MAX_RECORDS:
        raise CheckpointError(f"{folder} has more than {MAX_RECORDS} records")
    for name in names:
        if not (len(name) == 9 and name[:5].isdecimal() and name.endswith(".rec")):
            raise CheckpointError(f"{folder}: {name} is no record")
    return len(names)
