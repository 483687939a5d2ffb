"""The bytes of a segment: its header, and the heads and trailers of its records.

Source: appliance/log/README.md, section "Segment".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from crypto.errors import FormatError
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.labels import LOG_HEAD, LOG_RECORD, LOG_SEGMENT
from crypto.sm3 import DIGEST_BYTES, prefixed

HEADER_BYTES: Final = 144
HEAD_BYTES: Final = 32
TRAILER_BYTES: Final = DIGEST_BYTES
OVERHEAD_BYTES: Final = HEAD_BYTES + TRAILER_BYTES
MAX_RECORD_BYTES: Final = MAX_OBJECT_BYTES + OVERHEAD_BYTES
MAX_BATCH_ENTRIES: Final = 64
MAX_BATCH_BYTES: Final = (MAX_BATCH_ENTRIES + 1) * MAX_RECORD_BYTES
SEGMENT_BYTES: Final = 64 << 20
SEGMENT_ENTRIES: Final = 1 << 16
MAX_ENTRIES: Final = (1 << 53) - 1

ENTRY: Final = 1
CHECKPOINT: Final = 2
ADMISSION: Final = 3
CLOSING: Final = 4

_MAGIC: Final = b"WHLOGSEG"
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<8sII32sQQ32s16x")
_HEAD: Final = struct.Struct("<IB3xQQ")
_CHECK_BYTES: Final = 8
_ZEROS: Final = bytes(3)

_header_digest = prefixed(LOG_SEGMENT)
_head_check = prefixed(LOG_HEAD)
_trailer = prefixed(LOG_RECORD)


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What a segment begins with.

    Attributes:
        log_id: 32 bytes.
        first: index of its first entry.
        number: of the segment, from 0.
        previous: digest of the segment before, zeros for number 0.
    """

    log_id: bytes
    first: int
    number: int
    previous: bytes

    def encode(self) -> bytes:
        """Return the 144 bytes; the last 32 of them are the chain that the first record goes on."""
        data = _HEADER.pack(
            _MAGIC, _VERSION, 0, self.log_id, self.first, self.number, self.previous
        )
        return data + _header_digest(data)


def decode_header(unverified_data: bytes) -> SegmentHeader:
    """Return the header of a segment.

    Raises:
        FormatError: `log-header`: a magic number, version, length or digest that it does not have.
    """
    fixed = unverified_data[: _HEADER.size]
    if len(unverified_data) != HEADER_BYTES or _header_digest(fixed) != unverified_data[112:]:
        raise FormatError(0, "log-header")
    _, _, _, log_id, first, number, previous = _HEADER.unpack(fixed)
    header = SegmentHeader(log_id, first, number, previous)
    if header.encode() != unverified_data:
        raise FormatError(0, "log-header")
    return header


@dataclass(frozen=True, slots=True)
class Head:
    """What a record says about its body.

    Attributes:
        length: bytes of the body.
        kind: `ENTRY`, `CHECKPOINT`, `ADMISSION` or `CLOSING`.
        index: of the entry; of a checkpoint the size of its tree.
        refers: of a closing statement the index of its admission, else 0.
    """

    length: int
    kind: int
    index: int
    refers: int = 0


def encode_record(chain: bytes, kind: int, index: int, body: bytes, refers: int = 0) -> bytes:
    """Return a whole record.

    Args:
        chain: the 32 bytes before it.
        kind: what it is.
        index: of the entry; of a checkpoint the size of its tree.
        body: one object.
        refers: of a closing statement the index of its admission.
    """
    fixed = _HEAD.pack(len(body), kind, index, refers)
    record = fixed + _head_check(chain + fixed)[:_CHECK_BYTES] + body
    return record + _trailer(chain + record)


def decode_head(chain: bytes, unverified_data: bytes) -> Head:
    """Return the head of a record.

    Raises:
        FormatError: `log-head`: it is not what its check or the limits say.
    """
    fixed, check = unverified_data[: _HEAD.size], unverified_data[_HEAD.size :]
    if _head_check(chain + fixed)[:_CHECK_BYTES] != check or fixed[5:8] != _ZEROS:
        raise FormatError(0, "log-head")
    head = Head(*_HEAD.unpack(fixed))
    plausible = (
        1 <= head.length <= MAX_OBJECT_BYTES
        and ENTRY <= head.kind <= CLOSING
        and head.index <= MAX_ENTRIES
        and (head.kind == CLOSING or head.refers == 0)
    )
    if not plausible:
        raise FormatError(0, "log-head")
    return head


def trailer_of(chain: bytes, head_and_body: bytes | memoryview) -> bytes:
    """Return the 32 bytes that end a record, which are the chain of the next one."""
    return _trailer(chain + bytes(head_and_body))
