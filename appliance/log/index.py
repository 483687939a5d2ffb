"""The index of a closed segment: where its entries lie, and the nodes of the tree they complete.

Source: appliance/log/README.md, section "Index".
"""

from __future__ import annotations

import os
import struct
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.log.growth import Growth
from appliance.log.layout import MAX_ENTRIES, SegmentHeader
from appliance.log.nodes import place_of, place_of_leaf
from crypto.atomic import AtomicFile
from crypto.errors import FormatError
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.labels import LOG_INDEX
from crypto.sm3 import DIGEST_BYTES, Sm3

MAX_OPEN_ADMISSIONS: Final = 1 << 16

_MAGIC: Final = b"WHLOGIDX"
_VERSION: Final = 1
_FIXED: Final = struct.Struct("<8sII32sQQQQ32s32sIIII")
_NUMBER_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """How a closed segment ends, which is what the next one goes on from.

    Attributes:
        header: of the segment.
        end: index after its last entry.
        length: of its file in bytes.
        digest: 32 bytes, its last trailer.
        checkpoint: its last checkpoint, an object.
        open_admissions: indexes of the admissions that are open at its end, ascending.
        peaks: roots of the perfect subtrees of the tree at its end, the largest first.
    """

    header: SegmentHeader
    end: int
    length: int
    digest: bytes
    checkpoint: bytes
    open_admissions: tuple[int, ...]
    peaks: tuple[bytes, ...]

    def encode(self) -> bytes:
        """Return the first part of the index file, with its digest."""
        header = self.header
        data = _FIXED.pack(
            *(_MAGIC, _VERSION, 0, header.log_id, header.first, self.end, header.number),
            *(self.length, header.previous, self.digest),
            *(len(self.checkpoint), len(self.open_admissions), len(self.peaks), 0),
        )
        numbers = struct.pack(f"<{len(self.open_admissions)}Q", *self.open_admissions)
        data += self.checkpoint + numbers + b"".join(self.peaks)
        return data + Sm3(LOG_INDEX + data).digest()


@dataclass(frozen=True, slots=True)
class SegmentIndex:
    """An index file; its offsets and nodes are read when they are asked for.

    Attributes:
        path: the file.
        end: the first part.
        offsets_at: where the offsets begin.
    """

    path: Path
    end: SegmentEnd
    offsets_at: int

    @property
    def first(self) -> int:
        """Index of the first entry."""
        return self.end.header.first

    def offset_of(self, index: int) -> int:
        """Return the offset in the segment of the record of entry `index`.

        Raises:
            OSError: the file cannot be read.
            FormatError: it is too short.
        """
        at = self.offsets_at + (index - self.first) * _NUMBER_BYTES
        return int.from_bytes(self._read(at, _NUMBER_BYTES), "little")

    def node(self, level: int, number: int) -> bytes:
        """Return a node that an entry of the segment completes; errors as `offset_of`."""
        nodes_at = self.offsets_at + (self.end.end - self.first) * _NUMBER_BYTES
        place = place_of(level, number) - place_of_leaf(self.first)
        return self._read(nodes_at + place * DIGEST_BYTES, DIGEST_BYTES)

    def holds(self, offsets: array[int], nodes: bytes | bytearray) -> bool:
        """Say whether these are its offsets and nodes; errors as `offset_of`."""
        numbers = _little_endian(offsets)
        content = self._read(self.offsets_at, len(numbers) + len(nodes))
        return content == numbers + nodes

    def _read(self, at: int, length: int) -> bytes:
        """Return bytes of the file."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            data = os.pread(descriptor, length, at)
        finally:
            os.close(descriptor)
        if len(data) != length:
            raise FormatError(at, "log-index")
        return data


def write_index(path: Path, end: SegmentEnd, growth: Growth) -> SegmentIndex:
    """Write the index of a segment that ends here, durably, and return it.

    Raises:
        WriteError: the file system refused.
    """
    first = end.encode()
    offsets = _little_endian(growth.offsets)
    digest = Sm3(LOG_INDEX + first)
    with AtomicFile(path, force=True, mode=0o600) as file:
        file.create()
        at = 0
        for piece in (first, offsets, growth.nodes):
            if at:
                digest.update(piece)
            file.write_at(at, piece)
            at += len(piece)
        file.write_at(at, digest.digest())
        file.commit()
    return SegmentIndex(path, end, len(first))


def read_index(path: Path) -> SegmentIndex:
    """Return the index in a file, its first part verified.

    Raises:
        OSError: the file cannot be read.
        FormatError: `log-index`: it is none, or damaged.
    """
    with path.open("rb") as stream:
        fixed = stream.read(_FIXED.size)
        if len(fixed) != _FIXED.size:
            raise FormatError(0, "log-index")
        numbers = _FIXED.unpack(fixed)
        magic, version, _, log_id, first, after, number, length, previous, digest = numbers[:10]
        checkpoint_bytes, num_open, num_peaks, _ = numbers[10:]
        if (
            magic != _MAGIC
            or version != _VERSION
            or checkpoint_bytes > MAX_OBJECT_BYTES
            or num_open > MAX_OPEN_ADMISSIONS
            or num_peaks > 64
            or not first <= after <= MAX_ENTRIES
        ):
            raise FormatError(0, "log-index")
        rest = checkpoint_bytes + num_open * _NUMBER_BYTES + num_peaks * DIGEST_BYTES
        data = stream.read(rest + DIGEST_BYTES)
        entries = after - first
        nodes = place_of_leaf(after) - place_of_leaf(first)
        total = len(fixed) + len(data) + entries * _NUMBER_BYTES + (nodes + 1) * DIGEST_BYTES
        if stream.seek(0, os.SEEK_END) != total:
            raise FormatError(0, "log-index")
    opened = struct.unpack_from(f"<{num_open}Q", data, checkpoint_bytes) if num_open else ()
    peaks_at = rest - num_peaks * DIGEST_BYTES
    end = SegmentEnd(
        SegmentHeader(log_id, first, number, previous),
        after,
        length,
        digest,
        data[:checkpoint_bytes],
        opened,
        tuple(data[at : at + DIGEST_BYTES] for at in range(peaks_at, rest, DIGEST_BYTES)),
    )
    if end.encode() != fixed + data:
        raise FormatError(0, "log-index")
    return SegmentIndex(path, end, len(fixed) + len(data))


def verify_index(index: SegmentIndex) -> None:
    """Read a whole index file and compare it with its digest.

    Raises:
        OSError: the file cannot be read.
        FormatError: `log-index`: it is damaged.
    """
    digest = Sm3(LOG_INDEX)
    with index.path.open("rb") as stream:
        left = stream.seek(0, os.SEEK_END) - DIGEST_BYTES
        stream.seek(0)
        while left > 0:
            piece = stream.read(min(left, 1 << 20))
            if not piece:
                break
            digest.update(piece)
            left -= len(piece)
        if digest.digest() != stream.read():
            raise FormatError(0, "log-index")


def _little_endian(numbers: array[int]) -> bytes:
    """Return 8 bytes for each number."""
    if sys.byteorder == "little":
        return numbers.tobytes()
    swapped = array("Q", numbers)
    swapped.byteswap()
    return swapped.tobytes()
