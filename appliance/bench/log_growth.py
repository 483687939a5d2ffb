"""A log of many entries of which only the leaf hashes are made: to see what its size costs.

Its closed segments are away, in an archive that is not mounted; their indexes are real files, made
by the code that a log makes them with. What is appended after them is a real log.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from appliance.log.anchor import Anchor, AnchorStore
from appliance.log.growth import Growth
from appliance.log.index import SegmentEnd, write_index
from appliance.log.layout import SEGMENT_ENTRIES, SegmentHeader
from appliance.log.objects import Head, sign_head
from appliance.log.survey import index_path, segment_path
from appliance.log.writer import write_segment
from crypto.checkpoint import NO_CHECKPOINT
from crypto.signer import Signer
from crypto.sm3 import DIGEST_BYTES, sm3

ENTRY_BYTES: Final = 2048
"""What an entry and its checkpoint are taken to need in the segments that are not there."""

TIME_MS: Final = 1_700_000_000_000


def simulated_leaf(index: int) -> bytes:
    """Return the 32 bytes that stand for the leaf hash of an entry."""
    return index.to_bytes(8, "big") * 4


def grow_log(
    folder: Path,
    num_segments: int,
    *,
    signer: Signer,
    issuer: str,
    anchor: AnchorStore,
    progress: Callable[[int, int], None] | None = None,
) -> Head:
    """Make a log of so many full segments and an empty one, and its anchor; return its head.

    Args:
        folder: must not exist.
        num_segments: 65,536 entries each, at least one.
        signer: the key.
        issuer: 1..64 characters of printable ASCII.
        anchor: where its head is kept.
        progress: is told the number of segments that are done, and of all.

    Raises:
        OSError, WriteError: the file system refused.
        ValueError: there is no segment.
    """
    if num_segments < 1:
        raise ValueError("a log that is grown has at least one segment")
    folder.mkdir(mode=0o700)
    log_id = sm3(b"a log that is simulated")
    growth = Growth(0, [], [])
    header = SegmentHeader(log_id, 0, 0, bytes(DIGEST_BYTES))
    head = Head(log_id, 0, growth.root(), TIME_MS, NO_CHECKPOINT, b"")
    previous = NO_CHECKPOINT
    for number in range(num_segments):
        for place in range(SEGMENT_ENTRIES):
            growth.append_leaf(simulated_leaf(growth.size), place * ENTRY_BYTES)
        head = sign_head(
            signer,
            issuer,
            log_id=log_id,
            size=growth.size,
            root=growth.root(),
            time_ms=TIME_MS,
            previous=previous,
        )
        digest = sm3(head.checkpoint)
        length = SEGMENT_ENTRIES * ENTRY_BYTES
        end = SegmentEnd(
            header, growth.size, length, digest, head.checkpoint, (), tuple(growth.peaks)
        )
        write_index(index_path(folder, header.first), end, growth)
        header = SegmentHeader(log_id, growth.size, number + 1, digest)
        growth = Growth(growth.size, growth.peaks, [])
        previous = head.digest
        if progress is not None:
            progress(number + 1, num_segments)
    write_segment(segment_path(folder, header.first), header.encode())
    anchor.write(Anchor(log_id, head.size, head.root, TIME_MS))
    return head
