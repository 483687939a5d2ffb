"""Writing batches to the open segment, and going on in a new one."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.log.errors import LogUnavailableError
from appliance.log.files import LogFiles
from appliance.log.growth import Growth
from appliance.log.index import write_index
from appliance.log.layout import (
    CHECKPOINT,
    HEADER_BYTES,
    OVERHEAD_BYTES,
    SEGMENT_BYTES,
    SEGMENT_ENTRIES,
    SegmentHeader,
    encode_record,
)
from appliance.log.objects import Head
from appliance.log.scan import Scan
from appliance.log.space import Space, lacks_room
from appliance.log.survey import Closed, index_path, segment_path
from crypto.atomic import AtomicFile
from crypto.errors import WriteError

_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry that was made: kind of its record, the admission it closes, the object."""

    kind: int
    refers: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Limits:
    """When a segment is closed: at so many bytes, or so many entries."""

    segment_bytes: int = SEGMENT_BYTES
    segment_entries: int = SEGMENT_ENTRIES


class SegmentWriter:
    """The one writer of a log's files. One thread at a time may call.

    Attributes:
        space: what is reserved behind the end of the open segment.
        sync_ns: nanoseconds that batches have waited for the disk.
    """

    def __init__(self, files: LogFiles, limits: Limits) -> None:
        """Open the last segment, and cut what an interrupted write left there.

        Raises:
            OSError: the file system refused.
            WriteError: an index that was lost could not be written anew.
        """
        self._files = files
        self._limits = limits
        self._restore_indexes()
        last = files.last
        self._descriptor = os.open(last.path, _FLAGS)
        try:
            if last.cut:
                os.ftruncate(self._descriptor, last.end)
            # Whatever is there was perhaps read from a cache that never reached the disk.
            os.fsync(self._descriptor)
        except OSError:
            os.close(self._descriptor)
            raise
        self.space = Space(self._descriptor, last.end)
        self.sync_ns = 0

    def take(self, entries: Sequence[NewEntry]) -> None:
        """Let the tree grow by these entries, which are written with the next checkpoint.

        Raises:
            ValueError: one closes an admission that is not open.
        """
        last = self._files.last
        offset = last.end
        for entry in entries:
            last.growth.append(entry.kind, entry.refers, entry.body, offset)
            offset += OVERHEAD_BYTES + len(entry.body)

    def write(self, entries: Sequence[NewEntry], head: Head) -> None:
        """Write the entries that were taken and the checkpoint over them; durable at the return.

        Raises:
            OSError: the file system refused; what is on the disk is not known.
        """
        last = self._files.last
        chain = last.chain
        batch = bytearray()
        index = head.size - len(entries)
        for entry in entries:
            record = encode_record(chain, entry.kind, index, entry.body, entry.refers)
            batch += record
            chain, index = record[-32:], index + 1
        record = encode_record(chain, CHECKPOINT, head.size, head.checkpoint)
        batch += record
        view, at = memoryview(batch), last.end
        while view:
            written = os.pwrite(self._descriptor, view, at)
            view, at = view[written:], at + written
        started_ns = time.perf_counter_ns()
        os.fdatasync(self._descriptor)
        self.sync_ns += time.perf_counter_ns() - started_ns
        last.end, last.chain = at, record[-32:]
        last.head = head  # last: whoever reads the log looks only at what is below the head
        self.space.written(at)

    def roll(self) -> None:
        """Close the segment and begin the next one, if it is long enough and there is room for it.

        Raises:
            OSError, WriteError: the file system refused.
        """
        last = self._files.last
        growth = last.growth
        num_entries = growth.size - growth.first
        is_long = last.end >= self._limits.segment_bytes
        if not num_entries or not (is_long or num_entries >= self._limits.segment_entries):
            return
        end = last.closed()
        path = segment_path(self._files.folder, end.end)
        header = SegmentHeader(last.header.log_id, end.end, last.header.number + 1, end.digest)
        try:
            index = write_index(index_path(self._files.folder, growth.first), end, growth)
            write_segment(path, header.encode())
        except WriteError as error:
            if not lacks_room(error):
                raise
            self._go_on(path)
            return
        descriptor = os.open(path, _FLAGS)
        try:
            self.space.move(descriptor, HEADER_BYTES)
        except LogUnavailableError:
            os.close(descriptor)
            self._go_on(path)
            return
        old, self._descriptor = self._descriptor, descriptor
        try:
            os.ftruncate(old, last.end)  # gives back the blocks that were reserved behind it
        finally:
            os.close(old)
        after = Growth(growth.size, list(growth.peaks), list(growth.open_admissions))
        chain = header.encode()[-32:]
        scan = Scan(path, header, after, last.head, HEADER_BYTES, chain)
        self._files.advance(Closed(growth.first, growth.size, last.path, index), scan)

    def _go_on(self, path: Path) -> None:
        """Go on in the old segment, because there is no room for a new one at `path`."""
        path.unlink(missing_ok=True)
        sync_folder(self._files.folder)

    def close(self) -> None:
        """Close the segment's file, and give back what was reserved behind it."""
        try:
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size)
        finally:
            os.close(self._descriptor)

    def _restore_indexes(self) -> None:
        """Write the indexes that were lost."""
        restored = []
        for segment in self._files.closed:
            scan = segment.scan
            if scan is None:
                restored.append(segment)
                continue
            path = index_path(self._files.folder, segment.first)
            index = write_index(path, scan.closed(), scan.growth)
            restored.append(Closed(segment.first, segment.end, segment.path, index))
        self._files.replace(restored)


def write_segment(path: Path, content: bytes) -> None:
    """Make the file of a segment, whole and durable.

    Raises:
        WriteError: it exists, or the file system refused.
    """
    with AtomicFile(path, force=False, mode=0o600) as file:
        file.create()
        file.write_at(0, content)
        file.commit()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable.

    Raises:
        OSError: the file system refused.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
