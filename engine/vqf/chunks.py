"""The grid of chunks, and the root of an extent whose bytes pass by (FORMAT.md section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crypto.merkle import LEAF_PREFIX, root
from crypto.sm3 import Sm3
from engine.vqf.format import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from _typeshed import ReadableBuffer

    from engine.vqf.manifest import Extent


class Chunk(NamedTuple):
    """One chunk of the data area."""

    number: int
    """Its number through all extents."""
    extent: int
    """Index of its extent."""
    in_extent: int
    """Its number in the extent."""
    of_extent: int
    """How many chunks the extent has."""
    offset: int
    """Of its first byte in the data area."""
    length: int


def all_chunks(extents: Iterable[Extent]) -> Iterator[Chunk]:
    """Yield the chunks of a file in the order of the data area."""
    number = 0
    for position, extent in enumerate(extents):
        for index in range(extent.num_chunks):
            start = index * CHUNK_BYTES
            length = min(CHUNK_BYTES, extent.size_bytes - start)
            offset = extent.offset_bytes + start
            yield Chunk(number, position, index, extent.num_chunks, offset, length)
            number += 1


class ChunkHasher:
    """Takes an extent in pieces of any length; holds one digest for every chunk so far."""

    def __init__(self) -> None:
        """Start at the extent's first byte."""
        self._leaf_hashes: list[bytes] = []
        self._state = Sm3(LEAF_PREFIX)
        self._left_bytes = CHUNK_BYTES

    def update(self, data: ReadableBuffer) -> None:
        """Append bytes of the extent."""
        view = memoryview(data).cast("B")
        while view:
            piece = view[: self._left_bytes]
            self._state.update(piece)
            self._left_bytes -= len(piece)
            view = view[len(piece) :]
            if not self._left_bytes:
                self._end_chunk()

    def root(self) -> bytes:
        """Return the root; the extent ends here."""
        if self._left_bytes < CHUNK_BYTES:
            self._end_chunk()
        return root(self._leaf_hashes)

    def _end_chunk(self) -> None:
        """Close the chunk and open the next."""
        self._leaf_hashes.append(self._state.digest())
        self._state = Sm3(LEAF_PREFIX)
        self._left_bytes = CHUNK_BYTES
