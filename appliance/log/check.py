"""Reading a whole log again: every record, every checkpoint, every index, and every object.

What stands on the disk is compared, not what a process remembers; the first thing that is wrong is
named by file and entry.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.log.entries import check_entry
from appliance.log.errors import LogDamageError
from appliance.log.files import LogFiles
from appliance.log.growth import Growth
from appliance.log.index import SegmentIndex, verify_index
from appliance.log.layout import CHECKPOINT, HEADER_BYTES, OVERHEAD_BYTES, SegmentHeader
from appliance.log.objects import Head, read_head, verify_object
from appliance.log.records import BrokenRecordError, Record, read_records
from appliance.log.scan import read_header
from crypto.checkpoint import NO_CHECKPOINT
from crypto.errors import FormatError, InvalidSignatureError
from crypto.sm2 import PublicKey

_NO_HEAD: Final = Head(b"", 0, b"", 0, b"", b"")


@dataclass(slots=True)
class Checked:
    """What was read, and found to be right.

    Attributes:
        entries: number of entries that were read.
        checkpoints: number of checkpoints that were read.
        segments: number of segments that were read.
        segments_away: number of segments that were not, because they or what they go on from are
            in the archive.
        indexes_lost: number of indexes that a start will make anew.
        signatures: number of signatures that were verified.
        signatures_unchecked: number of signatures by keys that were not given.
    """

    entries: int = 0
    checkpoints: int = 0
    segments: int = 0
    segments_away: int = 0
    indexes_lost: int = 0
    signatures: int = 0
    signatures_unchecked: int = 0


class LogCheck:
    """A check of a log that nobody needs to stop writing."""

    def __init__(
        self,
        files: LogFiles,
        *,
        keys: Mapping[bytes, PublicKey] | None = None,
        all_signatures: bool = False,
        are_objects: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Prepare.

        Args:
            files: the log; what is committed later is not looked at.
            keys: `attest` keys by key id; without them no signature is verified.
            all_signatures: verify that of every entry and checkpoint, not of the last one alone.
            are_objects: whether entries are to be objects of an appliance.
            progress: is told the number of entries that are read, and of all.
        """
        self._files = files
        self._last = files.last
        self._stop = self._last.end
        self._head = files.head
        self._keys = keys
        self._all_signatures = all_signatures
        self._are_objects = are_objects
        self._progress = progress
        self._result = Checked()
        self._before = _NO_HEAD  # the checkpoint before, while segments are read without a gap

    def run(self) -> Checked:
        """Read everything.

        Raises:
            LogDamageError: `corrupted`, with file and index of the first thing that is wrong.
            OSError: a file cannot be read.
        """
        result = self._result
        growth: Growth | None = Growth(0, [], [])
        for segment in self._files.closed:
            follows = growth is not None and growth.size == segment.first
            if segment.path is None or growth is None or not follows:
                result.segments_away += 1
                growth = self._away(segment.index)
                continue
            header = read_header(segment.path, segment.first)
            stop = segment.path.stat().st_size
            grown = self._segment(segment.path, header, growth, stop)
            if segment.index is None:
                result.indexes_lost += 1
            else:
                self._index(segment.index, grown)
            growth = Growth(grown.size, grown.peaks.copy(), list(grown.open_admissions))
        if growth is None:
            growth = Growth(self._last.growth.first, [], [])
        self._segment(self._last.path, self._last.header, growth, self._stop)
        if self._keys is not None and not self._all_signatures:
            self._signature(self._head.checkpoint, self._last.path, self._head.size - 1)
        return result

    def _away(self, index: SegmentIndex | None) -> Growth | None:
        """Go on behind a segment that cannot be read."""
        self._before = _NO_HEAD
        if index is None:
            return None
        self._verify_index(index)
        end = index.end
        self._before = read_head(end.checkpoint)
        return Growth(end.end, list(end.peaks), list(end.open_admissions))

    def _segment(self, path: Path, header: SegmentHeader, growth: Growth, stop: int) -> Growth:
        """Read a segment up to the offset `stop`, where a checkpoint ends."""
        self._result.segments += 1
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        at = HEADER_BYTES
        try:
            for record in read_records(descriptor, at, stop, header.encode()[-32:]):
                self._record(path, header, growth, record)
                at = record.offset + OVERHEAD_BYTES + record.head.length
        except BrokenRecordError as error:
            raise LogDamageError(
                "corrupted", f"at offset {error.offset}", file=path, index=growth.size
            ) from None
        finally:
            os.close(descriptor)
        if self._before.size not in (0, growth.size) or at != stop:
            raise LogDamageError(
                "corrupted", "does not end at a checkpoint", file=path, index=growth.size
            )
        return growth

    def _record(self, path: Path, header: SegmentHeader, growth: Growth, record: Record) -> None:
        """Take one record."""
        head, place = record.head, growth.size
        try:
            if head.index != place:
                raise FormatError(record.offset, "log-sequence")
            if head.kind == CHECKPOINT:
                self._checkpoint(header, growth, record)
                self._result.checkpoints += 1
            else:
                if self._are_objects:
                    check_entry(head.kind, head.refers, place, header.log_id, record.body)
                growth.append(head.kind, head.refers, record.body, record.offset)
                self._result.entries += 1
        except (FormatError, ValueError) as error:
            index = place - 1 if head.kind == CHECKPOINT else place
            raise LogDamageError("corrupted", str(error), file=path, index=index) from None
        if self._all_signatures and self._keys is not None:
            self._signature(record.body, path, place)
        if self._progress is not None and not self._result.entries % 256:
            self._progress(self._result.entries, self._head.size)

    def _checkpoint(self, header: SegmentHeader, growth: Growth, record: Record) -> None:
        """Compare a checkpoint with the entries before it and the checkpoint before it."""
        head, before = read_head(record.body), self._before
        if head.log_id != header.log_id or head.size != growth.size:
            raise ValueError("the checkpoint is that of another log or size")
        if head.root != growth.root():
            raise ValueError("the checkpoint's root is not that of the entries before it")
        if before is not _NO_HEAD or head.size == 1:
            previous = NO_CHECKPOINT if before is _NO_HEAD else before.digest
            if head.previous != previous or head.time_ms < before.time_ms:
                raise ValueError("the checkpoint does not follow the one before")
        self._before = head

    def _index(self, index: SegmentIndex, growth: Growth) -> None:
        """Compare an index with what it is made of."""
        self._verify_index(index)
        end = index.end
        same = (
            end.end == growth.size
            and list(end.peaks) == growth.peaks
            and list(end.open_admissions) == list(growth.open_admissions)
            and end.checkpoint == self._before.checkpoint
            and index.holds(growth.offsets, growth.nodes)
        )
        if not same:
            message = "the index is not that of its segment"
            raise LogDamageError("corrupted", message, file=index.path, index=index.first)

    def _verify_index(self, index: SegmentIndex) -> None:
        try:
            verify_index(index)
        except FormatError:
            message = "the index is damaged"
            raise LogDamageError("corrupted", message, file=index.path, index=index.first) from None

    def _signature(self, signed: bytes, path: Path, index: int) -> None:
        """Verify a signature, if its key is there."""
        try:
            is_known = verify_object(signed, self._keys or {})
        except (FormatError, InvalidSignatureError):
            message = "the signature does not verify"
            raise LogDamageError("corrupted", message, file=path, index=index) from None
        if is_known:
            self._result.signatures += 1
        else:
            self._result.signatures_unchecked += 1
