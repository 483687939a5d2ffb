"""Reading a segment from its first byte to its last whole checkpoint."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from appliance.log.errors import LogDamageError
from appliance.log.growth import Growth
from appliance.log.index import SegmentEnd
from appliance.log.layout import (
    CHECKPOINT,
    HEADER_BYTES,
    MAX_BATCH_BYTES,
    MAX_BATCH_ENTRIES,
    SegmentHeader,
    decode_header,
)
from appliance.log.objects import Head, read_head
from appliance.log.records import BrokenRecordError, Record, read_records
from appliance.log.tail import is_interrupted
from crypto.errors import FormatError


@dataclass(slots=True)
class Scan:
    """A segment up to its last whole checkpoint.

    Attributes:
        path: the file.
        header: of the segment.
        growth: the log's state there.
        head: that checkpoint; of the segment before where this one has none yet.
        end: the offset behind it.
        chain: the 32 bytes before `end`.
        cut: number of bytes behind it, which an interrupted write left.
    """

    path: Path
    header: SegmentHeader
    growth: Growth
    head: Head | None
    end: int
    chain: bytes
    cut: int = 0

    def closed(self) -> SegmentEnd:
        """Return how the segment ends, if this is its end.

        Raises:
            ValueError: it has no checkpoint.
        """
        if self.head is None:
            raise ValueError("a segment without a checkpoint cannot be closed")
        growth = self.growth
        return SegmentEnd(
            self.header,
            growth.size,
            self.end,
            self.chain,
            self.head.checkpoint,
            tuple(growth.open_admissions),
            tuple(growth.peaks),
        )


def read_header(path: Path, first: int) -> SegmentHeader:
    """Return the header of the segment in the file that is named after entry `first`.

    Raises:
        LogDamageError: `corrupted`.
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        data = stream.read(HEADER_BYTES)
    try:
        return decode_header(data)
    except FormatError:
        message = "the header is damaged"
        raise LogDamageError("corrupted", message, file=path, index=first) from None


def scan_segment(path: Path, header: SegmentHeader, growth: Growth, head: Head | None) -> Scan:
    """Read a segment.

    Args:
        path: the file.
        header: what it begins with.
        growth: the log's state before it; taken over and continued.
        head: the last checkpoint before it.

    Raises:
        LogDamageError: `corrupted`: there is something in it that no interrupted write leaves.
        OSError: the file cannot be read.
    """
    scan = Scan(path, header, growth, head, HEADER_BYTES, header.encode()[-32:])
    pending: list[Record] = []
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        file_end = os.fstat(descriptor).st_size
        is_beginning = False
        try:
            for record in read_records(descriptor, scan.end, file_end, scan.chain):
                _take(scan, pending, record)
        except BrokenRecordError as error:
            broken, is_beginning = error.offset, error.is_beginning
        else:
            broken = file_end
        scan.cut = file_end - scan.end
        if scan.cut:
            tail = os.pread(descriptor, min(scan.cut, MAX_BATCH_BYTES + 1), scan.end)
            if not is_interrupted(tail, scan.end, broken, is_beginning=is_beginning):
                message = f"at offset {broken} is something that was not written"
                index = growth.size + len(pending)
                raise LogDamageError("corrupted", message, file=path, index=index)
    finally:
        os.close(descriptor)
    _check_head(scan)
    return scan


def _take(scan: Scan, pending: list[Record], record: Record) -> None:
    """Take a whole record: entries count from the checkpoint over them on."""
    growth = scan.growth
    place = growth.size + len(pending)
    if record.head.index != place:
        raise LogDamageError(
            "corrupted", f"a record says {record.head.index}", file=scan.path, index=place
        )
    if record.head.kind != CHECKPOINT:
        pending.append(record)
        if len(pending) > MAX_BATCH_ENTRIES:
            raise LogDamageError("corrupted", "a batch is too long", file=scan.path, index=place)
        return
    for entry in pending:
        try:
            growth.append(entry.head.kind, entry.head.refers, entry.body, entry.offset)
        except ValueError as error:
            raise LogDamageError(
                "corrupted", str(error), file=scan.path, index=growth.size
            ) from None
    pending.clear()
    scan.end, scan.chain = record.end, record.chain
    # Decoded only at the end of the segment: the trailers have shown already that nothing changed.
    scan.head = Head(scan.header.log_id, growth.size, b"", 0, b"", record.body)


def _check_head(scan: Scan) -> None:
    """Read the last checkpoint, and compare it with the tree.

    Raises:
        LogDamageError: `corrupted`.
    """
    if scan.head is None:
        return
    size = scan.growth.size
    try:
        head = read_head(scan.head.checkpoint)
    except FormatError as error:
        raise LogDamageError(
            "corrupted", f"a checkpoint is none: {error}", file=scan.path, index=size - 1
        ) from None
    if head.log_id != scan.header.log_id or head.size != size or head.root != scan.growth.root():
        raise LogDamageError(
            "corrupted",
            "the checkpoint is not that of the entries before it",
            file=scan.path,
            index=size - 1,
        )
    scan.head = head
