"""The look at the files of a log when it is opened: which segments there are, and that they fit.

Source: appliance/log/README.md, section "Start".
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from appliance.log.errors import LogDamageError, LogUnavailableError
from appliance.log.growth import Growth
from appliance.log.index import SegmentIndex, read_index
from appliance.log.layout import HEADER_BYTES, TRAILER_BYTES, SegmentHeader
from appliance.log.objects import Head, read_head
from appliance.log.scan import Scan, read_header, scan_segment
from crypto.errors import FormatError

_NAME: Final = re.compile(r"([0-9]{16})\.(log|idx)", re.ASCII)


def segment_path(folder: Path, first: int) -> Path:
    """Return the file of the segment whose first entry is `first`."""
    return folder / f"{first:016d}.log"


def index_path(folder: Path, first: int) -> Path:
    """Return the file of the index of that segment."""
    return folder / f"{first:016d}.idx"


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed segment.

    Attributes:
        first: index of its first entry.
        end: index after its last entry.
        path: the segment; None while it is away.
        index: its index; None while it is away.
        scan: what an index would say, where it was lost and had to be made anew from the segment.
    """

    first: int
    end: int
    path: Path | None
    index: SegmentIndex | None
    scan: Scan | None = None


class Survey:
    """The look at a folder and its archive when a log is opened."""

    def __init__(self, folder: Path, archive: Path | None) -> None:
        """Look which files there are."""
        self._folder = folder
        here = _names(folder)
        there = {} if archive is None else _names(archive)
        self._may_be_away = archive is not None and not there
        self._paths = there | here

    def read(self) -> tuple[list[Closed], Scan]:
        """Return the closed segments and the last one.

        Raises:
            LogDamageError, LogUnavailableError, FileNotFoundError, OSError: as `LogFiles`.
        """
        firsts = sorted({first for first, _ in self._paths})
        if not firsts:
            raise FileNotFoundError(2, "there is no log", str(self._folder))
        last_path = self._paths.get((firsts[-1], "log"))
        if last_path is None or last_path.parent != self._folder:
            raise LogDamageError(
                "missing-segment",
                "the last segment is not here",
                file=segment_path(self._folder, firsts[-1]),
                index=firsts[-1],
            )
        closed: list[Closed] = []
        state: _State | None = _State.empty()
        for first, following in pairwise(firsts):
            state = self._expect(state, first)
            segment, state = self._closed(first, following, state)
            closed.append(segment)
        state = self._expect(state, firsts[-1])
        header = read_header(last_path, firsts[-1])
        if state is None:
            message = "the index of the segment before the last is in the archive"
            raise LogUnavailableError("archive", message)
        _compare(last_path, header, state, firsts[-1])
        growth = Growth(state.size, list(state.peaks), list(state.open_admissions))
        return closed, scan_segment(last_path, header, growth, state.head)

    def _expect(self, state: _State | None, first: int) -> _State | None:
        """Return the state if the segment that begins at `first` follows; None after a gap."""
        if state is None or state.size == first:
            return state
        if state.size < first and self._may_be_away:
            return None
        raise LogDamageError(
            "missing-segment",
            "is not there",
            file=segment_path(self._folder, state.size),
            index=state.size,
        )

    def _closed(
        self, first: int, following: int, state: _State | None
    ) -> tuple[Closed, _State | None]:
        """Return a closed segment and the state after it."""
        path = self._paths.get((first, "log"))
        index = self._index(first, may_be_lost=path is not None)
        if path is None and not self._may_be_away:
            raise LogDamageError(
                "missing-segment",
                "is not there",
                file=segment_path(self._folder, first),
                index=first,
            )
        header = None if path is None else read_header(path, first)
        if path is not None and header is not None:
            _compare(path, header, state, first)
        if index is not None:
            _compare(index.path, index.end.header, state, first)
            if path is not None:
                _compare_end(path, index)
            return Closed(first, index.end.end, path, index), _State.after(index)
        if path is None or header is None or state is None:
            return Closed(first, following, path, None), None
        growth = Growth(state.size, list(state.peaks), list(state.open_admissions))
        scan = scan_segment(path, header, growth, state.head)
        if scan.cut or scan.end == HEADER_BYTES:
            raise LogDamageError(
                "corrupted", "a closed segment has no end", file=path, index=growth.size
            )
        return Closed(first, growth.size, path, None, scan), _State.of(scan)

    def _index(self, first: int, *, may_be_lost: bool) -> SegmentIndex | None:
        """Return the index of a closed segment; None where it can be made anew, or is away."""
        path = self._paths.get((first, "idx"))
        if path is None:
            return None
        try:
            return read_index(path)
        except FormatError:
            if may_be_lost:
                return None
            raise LogDamageError(
                "corrupted", "the index is damaged", file=path, index=first
            ) from None


@dataclass(frozen=True, slots=True)
class _State:
    """What a segment goes on from."""

    log_id: bytes | None
    number: int
    size: int
    digest: bytes
    peaks: tuple[bytes, ...]
    open_admissions: tuple[int, ...]
    head: Head | None

    @classmethod
    def empty(cls) -> _State:
        return cls(None, 0, 0, bytes(32), (), (), None)

    @classmethod
    def after(cls, index: SegmentIndex) -> _State:
        end = index.end
        try:
            head = read_head(end.checkpoint)
        except FormatError:
            message = "its checkpoint is none"
            raise LogDamageError("corrupted", message, file=index.path, index=index.first) from None
        return cls(
            *(end.header.log_id, end.header.number + 1, end.end, end.digest, end.peaks),
            *(end.open_admissions, head),
        )

    @classmethod
    def of(cls, scan: Scan) -> _State:
        end = scan.closed()
        return cls(
            *(end.header.log_id, end.header.number + 1, end.end, end.digest, end.peaks),
            *(end.open_admissions, scan.head),
        )


def _compare(path: Path, header: SegmentHeader, state: _State | None, first: int) -> None:
    """Refuse a header that does not go on from the segment before."""
    if state is not None and state.log_id is not None and header.log_id != state.log_id:
        raise LogDamageError("other-log", "belongs to another log", file=path, index=first)
    follows = header.first == first and (
        state is None or (header.number == state.number and header.previous == state.digest)
    )
    if not follows:
        message = "does not go on from the segment before"
        raise LogDamageError("corrupted", message, file=path, index=first)


def _compare_end(path: Path, index: SegmentIndex) -> None:
    """Refuse a closed segment that does not end as its index says."""
    with path.open("rb") as stream:
        length = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, length - TRAILER_BYTES))
        trailer = stream.read()
    if length != index.end.length or trailer != index.end.digest:
        message = "does not end as its index says"
        raise LogDamageError("corrupted", message, file=path, index=index.first)


def _names(folder: Path) -> dict[tuple[int, str], Path]:
    """Return the files of a log in a folder by first entry and kind; none where it is not there."""
    try:
        names = os.listdir(folder)  # noqa: PTH208  (no Path is needed for each of many)
    except FileNotFoundError:
        return {}
    found = {}
    for name in names:
        if match := _NAME.fullmatch(name):
            found[int(match[1]), match[2]] = folder / name
    return found
