"""The files of a log, of which all but the last segment are closed, and what is read from them."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.log.errors import LogDamageError, LogUnavailableError
from appliance.log.layout import MAX_RECORD_BYTES, TRAILER_BYTES
from appliance.log.nodes import Tree, last_leaf_of
from appliance.log.objects import Head
from appliance.log.records import BrokenRecordError, read_records
from appliance.log.scan import Scan
from appliance.log.survey import Closed, Survey
from crypto.errors import InvalidProofError
from crypto.merkle import leaf_hash, verify_consistency, verify_inclusion


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as it lies in the log: its kind, the admission it refers to, the object."""

    kind: int
    refers: int
    body: bytes


class LogFiles:
    """A log as it is on the disk. Any thread may read while one thread appends.

    Attributes:
        folder: where the log is.
        archive: where closed segments may be besides.
    """

    def __init__(self, folder: Path, archive: Path | None = None) -> None:
        """Look at the files, and read the last segment; nothing is changed.

        Raises:
            LogDamageError: `missing-segment`, `other-log` or `corrupted`.
            LogUnavailableError: `archive`: nothing is here that could be continued.
            FileNotFoundError: there is no log in the folder.
            OSError: a file cannot be read.
        """
        self.folder = folder
        self.archive = archive
        closed, last = Survey(folder, archive).read()
        self._view: tuple[tuple[Closed, ...], Scan] = (tuple(closed), last)

    @property
    def last(self) -> Scan:
        """The segment that is being written."""
        return self._view[1]

    @property
    def closed(self) -> tuple[Closed, ...]:
        """The segments before it, ascending."""
        return self._view[0]

    @property
    def log_id(self) -> bytes:
        """The 32 bytes of the log's id."""
        return self.last.header.log_id

    @property
    def head(self) -> Head:
        """The last checkpoint.

        Raises:
            LogDamageError: `corrupted`: the log has none.
        """
        head = self.last.head
        if head is None:
            raise LogDamageError("corrupted", "the log has no checkpoint", file=self.last.path)
        return head

    @property
    def away(self) -> int:
        """Number of closed segments that are away."""
        return sum(segment.path is None for segment in self.closed)

    def advance(self, closed: Closed, last: Scan) -> None:
        """Go on in a new segment, after the one that was the last is closed."""
        self._view = ((*self._view[0], closed), last)

    def replace(self, closed: Sequence[Closed]) -> None:
        """Take these as the closed segments: those whose index was lost have one again."""
        self._view = (tuple(closed), self._view[1])

    def root(self, size: int) -> bytes:
        """Return the root of the tree of the first `size` entries; errors as `inclusion`."""
        self._require(size)
        return self._tree().root(size)

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """Return the inclusion path of an entry in the tree of the first `size` entries.

        Raises:
            IndexError: there is no such entry or tree.
            LogUnavailableError: `archive`.
            LogDamageError: `corrupted`: the nodes do not give the root.
            OSError: a file cannot be read.
        """
        self._require(size)
        tree = self._tree()
        path = tree.inclusion(index, size)
        root = self._known_root(tree, size)
        try:
            verify_inclusion(self._node(0, index), index, size, path, root)
        except InvalidProofError:
            raise LogDamageError("corrupted", "the nodes are damaged", index=index) from None
        return path

    def consistency(self, first: int, second: int) -> list[bytes]:
        """Return the path that shows that the tree of `second` extends that of `first`.

        Raises:
            IndexError, LogUnavailableError, LogDamageError, OSError: as `inclusion`.
        """
        self._require(second)
        tree = self._tree()
        path = tree.consistency(first, second)
        root = self._known_root(tree, second)
        try:
            verify_consistency(first, tree.root(first), second, root, path)
        except InvalidProofError:
            raise LogDamageError("corrupted", "the nodes are damaged", index=first) from None
        return path

    def entry(self, index: int) -> Entry:
        """Return an entry, its record and its leaf hash verified.

        Raises:
            IndexError: there is no such entry.
            LogUnavailableError: `archive`.
            LogDamageError: `corrupted`.
            OSError: a file cannot be read.
        """
        if not 0 <= index < self.head.size:
            raise IndexError(f"no entry {index} in a log of {self.head.size}")
        path, offset = self._place(index)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            chain = os.pread(descriptor, TRAILER_BYTES, max(0, offset - TRAILER_BYTES))
            end = min(os.fstat(descriptor).st_size, offset + MAX_RECORD_BYTES)
            record = next(read_records(descriptor, offset, end, chain))
        except (BrokenRecordError, StopIteration):
            raise LogDamageError(
                "corrupted", "the record is damaged", file=path, index=index
            ) from None
        finally:
            os.close(descriptor)
        head = record.head
        if head.index != index or leaf_hash(record.body) != self._node(0, index):
            raise LogDamageError("corrupted", "the record is another", file=path, index=index)
        return Entry(head.kind, head.refers, record.body)

    def _require(self, size: int) -> None:
        if not 0 <= size <= self.head.size:
            raise IndexError(f"no tree of {size} in a log of {self.head.size}")

    def _tree(self) -> Tree:
        return Tree(self._node)

    def _known_root(self, tree: Tree, size: int) -> bytes:
        """Return a root to compare with: the signed one where the size is that of the head."""
        head = self.head
        return head.root if size == head.size else tree.root(size)

    def _node(self, level: int, number: int) -> bytes:
        leaf = last_leaf_of(level, number)
        closed, last = self._view
        if leaf >= last.growth.first:
            return last.growth.node(level, number)
        segment = _segment_of(closed, leaf)
        if segment.scan is not None:
            return segment.scan.growth.node(level, number)
        if segment.index is None:
            raise _away(segment.first)
        return segment.index.node(level, number)

    def _place(self, index: int) -> tuple[Path, int]:
        """Return the file and the offset of the record of an entry."""
        closed, last = self._view
        if index >= last.growth.first:
            return last.path, last.growth.offsets[index - last.growth.first]
        segment = _segment_of(closed, index)
        if segment.path is None:
            raise _away(segment.first)
        if segment.scan is not None:
            return segment.path, segment.scan.growth.offsets[index - segment.first]
        if segment.index is None:
            raise _away(segment.first)
        return segment.path, segment.index.offset_of(index)


def _segment_of(closed: tuple[Closed, ...], index: int) -> Closed:
    """Return the closed segment that has an entry."""
    segment = closed[bisect_right(closed, index, key=lambda segment: segment.first) - 1]
    if not segment.first <= index < segment.end:
        raise _away(index)
    return segment


def _away(first: int) -> LogUnavailableError:
    return LogUnavailableError("archive", f"the segment of entry {first} is in the archive")
