"""Reading the records of a segment one after the other, without believing a length."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from appliance.log.layout import (
    HEAD_BYTES,
    MAX_RECORD_BYTES,
    OVERHEAD_BYTES,
    TRAILER_BYTES,
    Head,
    decode_head,
    trailer_of,
)
from crypto.errors import FormatError

_WINDOW_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """A whole record.

    Attributes:
        offset: of its head in the segment.
        head: what it says about itself.
        body: the object.
        chain: its trailer.
    """

    offset: int
    head: Head
    body: bytes
    chain: bytes

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + OVERHEAD_BYTES + len(self.body)


class BrokenRecordError(Exception):
    """At this place of a segment is no whole record.

    Attributes:
        offset: where it should begin.
        is_beginning: whether what is there is the beginning of one, cut off by the end of the file.
    """

    def __init__(self, offset: int, *, is_beginning: bool) -> None:
        """Keep the place."""
        super().__init__(f"no whole record at offset {offset}")
        self.offset = offset
        self.is_beginning = is_beginning


def read_records(descriptor: int, offset: int, end: int, chain: bytes) -> Iterator[Record]:
    """Yield the records between two offsets of an open segment.

    Args:
        descriptor: of the file.
        offset: where a record begins.
        end: where the last one ends.
        chain: the 32 bytes before `offset`.

    Raises:
        BrokenRecordError: something else than a record is there; what came before was yielded.
        OSError: the file cannot be read.
    """
    window, window_start = b"", offset
    while offset < end:
        have = window_start + len(window) - offset
        if have < MAX_RECORD_BYTES and window_start + len(window) < end:
            window = _read(descriptor, offset, min(_WINDOW_BYTES, end - offset))
            window_start = offset
            if not window:
                raise BrokenRecordError(offset, is_beginning=True)
        at = offset - window_start
        left = min(len(window) - at, end - offset)
        if left < HEAD_BYTES:
            raise BrokenRecordError(offset, is_beginning=True)
        try:
            head = decode_head(chain, window[at : at + HEAD_BYTES])
        except FormatError:
            raise BrokenRecordError(offset, is_beginning=False) from None
        length = OVERHEAD_BYTES + head.length
        if length > left:
            raise BrokenRecordError(offset, is_beginning=True)
        record = window[at : at + length]
        trailer = trailer_of(chain, record[:-TRAILER_BYTES])
        if trailer != record[-TRAILER_BYTES:]:
            raise BrokenRecordError(offset, is_beginning=False)
        yield Record(offset, head, record[HEAD_BYTES:-TRAILER_BYTES], trailer)
        offset, chain = offset + length, trailer


def _read(descriptor: int, offset: int, length: int) -> bytes:
    """Return up to `length` bytes, fewer only at the end of the file."""
    pieces = []
    while length:
        piece = os.pread(descriptor, length, offset)
        if not piece:
            break
        pieces.append(piece)
        offset, length = offset + len(piece), length - len(piece)
    return b"".join(pieces)
