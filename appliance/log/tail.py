"""What lies behind the last whole checkpoint: a write that was interrupted, or damage.

Source: appliance/log/README.md, section "Start".
"""

from __future__ import annotations

from typing import Final

from appliance.log.layout import (
    CHECKPOINT,
    HEAD_BYTES,
    MAX_BATCH_BYTES,
    OVERHEAD_BYTES,
    TRAILER_BYTES,
    decode_head,
    trailer_of,
)
from crypto.errors import FormatError

_SECTOR_BYTES: Final = 512
_LEAST_HOLE_BYTES: Final = 32
_CHECKPOINT_MARK: Final = bytes([CHECKPOINT, 0, 0, 0])
_MARK_OFFSET: Final = 4


def is_interrupted(tail: bytes, start: int, broken: int, *, is_beginning: bool) -> bool:
    """Say whether bytes behind the last whole checkpoint are what an interrupted write leaves.

    Args:
        tail: all of them, to the end of the file.
        start: offset of the tail in the file.
        broken: offset in the file of the first record that is not whole; the file's end where all
            are.
        is_beginning: whether that record is there in part, cut off by the end of the file.
    """
    if len(tail) > MAX_BATCH_BYTES:
        return False
    end = start + len(tail)
    if is_beginning or broken == end:
        return True
    if not _has_hole(tail, start, broken):
        return False
    # A batch is begun when the one before is durable: what more lies behind was released.
    found = _checkpoint_end(tail, broken - start)
    return found is None or found == len(tail)


def _has_hole(tail: bytes, start: int, broken: int) -> bool:
    """Say whether a sector from `broken` on, or its part in the tail, was never written."""
    end = start + len(tail)
    sector = broken - broken % _SECTOR_BYTES
    while sector < end:
        part = tail[max(sector, start) - start : min(sector + _SECTOR_BYTES, end) - start]
        if len(part) >= _LEAST_HOLE_BYTES and not any(part):
            return True
        sector += _SECTOR_BYTES
    return False


def _checkpoint_end(tail: bytes, after: int) -> int | None:
    """Return where the first whole checkpoint behind `after` ends; each names what is before it."""
    at = tail.find(_CHECKPOINT_MARK, after + TRAILER_BYTES + _MARK_OFFSET)
    while at >= 0:
        head_at = at - _MARK_OFFSET
        chain = tail[head_at - TRAILER_BYTES : head_at]
        try:
            head = decode_head(chain, tail[head_at : head_at + HEAD_BYTES])
        except FormatError:
            pass
        else:
            end = head_at + OVERHEAD_BYTES + head.length
            record = tail[head_at:end]
            if trailer_of(chain, record[:-TRAILER_BYTES]) == record[-TRAILER_BYTES:]:
                return end
        at = tail.find(_CHECKPOINT_MARK, at + 1)
    return None
