"""Chunks from the file into private memory: tag first, then decryption, then digest.

FORMAT.md section 11, step 6. What this returns are digests; only the comparison of their root with
the manifest's makes the bytes usable.
"""

from __future__ import annotations

import hmac
import os
from typing import TYPE_CHECKING, NamedTuple

from crypto.merkle import LEAF_PREFIX
from engine.errors import WeightsError, WeightsUncheckedError
from engine.vqf.format import PAGE_BYTES, TAG_BYTES
from engine.vqf.marks import Marks
from engine.vqf.suite import SealKeys, initial_block

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crypto.bulk import Bulk
    from engine.vqf.chunks import Chunk
    from engine.vqf.recipients import Recipients


class Seal(NamedTuple):
    """What opens the data area of a sealed file."""

    data_key: bytes
    keys: SealKeys
    recipients: Recipients
    tags: bytes
    """The tag table, read once: later reads are compared with this copy, not with the file."""

    def __repr__(self) -> str:
        """Name the file, not the keys."""
        return f"Seal({self.keys!r})"


class ChunkSource:
    """The data area of an open file; safe for several threads."""

    def __init__(
        self, descriptor: int, data_offset: int, seal: Seal | None, names: Sequence[str]
    ) -> None:
        """Read from `descriptor`, which stays the caller's.

        Args:
            descriptor: the open file.
            data_offset: where its data area begins.
            seal: None in forms that are not sealed.
            names: what each extent is called in messages.
        """
        self._descriptor = descriptor
        self._names = names
        self.data_offset = data_offset
        self._seal = seal

    def fetch(
        self,
        chunks: Sequence[Chunk],
        buffers: Sequence[memoryview],
        bulk: Bulk,
        marks: Marks | None = None,
    ) -> list[bytes]:
        """Read chunks of one length and return the leaf hash of the plain text of each.

        Args:
            chunks: what to read.
            buffers: writable memory for each, of its length, which nobody else writes to.
            bulk: what hashes and decrypts.
            marks: takes the chunks, for `fetch_again`.

        Raises:
            WeightsError: V5: a chunk does not have its tag. None of these chunks was decrypted.
            WeightsUncheckedError: the file cannot be read, or became shorter.

        Security: after an error the buffers hold what was in the file, unverified.
        """
        self._read(chunks, buffers)
        if self._seal is not None:
            self._check_tags(self._seal, chunks, buffers, bulk)
        if marks is not None:
            marks.take(chunks, buffers)
        if self._seal is None:
            return bulk.sm3_many(LEAF_PREFIX, buffers)
        blocks = [initial_block(chunk) for chunk in chunks]
        return bulk.sm4_ctr_sm3_many(self._seal.keys.data_cipher, blocks, LEAF_PREFIX, buffers)

    def fetch_again(
        self,
        chunks: Sequence[Chunk],
        buffers: Sequence[memoryview],
        bulk: Bulk,
        known: Marks | Sequence[bytes],
    ) -> None:
        """Read chunks of one length that were accepted before, and accept only the same again.

        Args:
            chunks: what to read.
            buffers: writable memory for each, of its length, which nobody else writes to.
            bulk: what hashes and decrypts.
            known: what `fetch` marked; or what it returned, by the number of the chunk, which is
                not looked at in a sealed file: its tags are compared with the table that was read
                once.

        Raises:
            WeightsError: V5, V6: a chunk is not the one that was accepted. Of a sealed file none of
                these chunks was decrypted.
            WeightsUncheckedError: the file cannot be read, or became shorter.

        Security: after an error the buffers hold what was in the file, unverified.
        """
        self._read(chunks, buffers)
        if isinstance(known, Marks):
            for chunk, buffer in zip(chunks, buffers, strict=True):
                if not known.is_same(chunk, buffer):
                    raise self._is_another(chunk)
        elif self._seal is not None:
            self._check_tags(self._seal, chunks, buffers, bulk)
        else:
            for chunk, found in zip(chunks, bulk.sm3_many(LEAF_PREFIX, buffers), strict=True):
                if not hmac.compare_digest(found, known[chunk.number]):
                    raise self._is_another(chunk)
        if self._seal is not None:
            blocks = [initial_block(chunk) for chunk in chunks]
            bulk.sm4_ctr_many(self._seal.keys.data_cipher, blocks, buffers)

    def _is_another(self, chunk: Chunk) -> WeightsError:
        name = self._names[chunk.extent]
        message = f"chunk {chunk.in_extent} of extent {name} is not the one that was there"
        return WeightsError(message, "V6" if self._seal is None else "V5")

    def _read(self, chunks: Sequence[Chunk], buffers: Sequence[memoryview]) -> None:
        for start, stop in _runs(chunks):
            offset = self.data_offset + chunks[start].offset
            read_all(self._descriptor, buffers[start:stop], offset)

    def _check_tags(
        self, seal: Seal, chunks: Sequence[Chunk], buffers: Sequence[memoryview], bulk: Bulk
    ) -> None:
        prefixes = [seal.keys.chunk_prefix(chunk) for chunk in chunks]
        tags = bulk.hmac_sm3_many(seal.keys.tags, prefixes, buffers)
        for chunk, tag in zip(chunks, tags, strict=True):
            start = TAG_BYTES * chunk.number
            if not hmac.compare_digest(tag, seal.tags[start : start + TAG_BYTES]):
                name = self._names[chunk.extent]
                message = f"chunk {chunk.in_extent} of extent {name} does not have its tag"
                raise WeightsError(message, "V5")


def _runs(chunks: Sequence[Chunk]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of chunks that follow each other in the file."""
    start = 0
    for index in range(1, len(chunks) + 1):
        before = chunks[index - 1]
        if index == len(chunks) or chunks[index].offset != before.offset + before.length:
            yield start, index
            start = index


def read_all(descriptor: int, views: Sequence[memoryview], offset: int) -> None:
    """Fill several views, one behind the other, from `offset` of a file: a disk likes long reads.

    Raises:
        WeightsUncheckedError: the file cannot be read, or is too short.
    """
    try:
        count = os.preadv(descriptor, views, offset)
    except OSError as error:
        raise WeightsUncheckedError(f"the file cannot be read: {error.strerror}") from error
    for view in views:
        if count < len(view):
            read_into(descriptor, view, offset)  # again from its beginning, which is a whole page
        count = max(0, count - len(view))
        offset += len(view)


def read_into(descriptor: int, view: memoryview, offset: int) -> None:
    """Fill `view` from `offset` of a file.

    Raises:
        WeightsUncheckedError: the file cannot be read, or is too short.
    """
    while view:
        try:
            count = os.preadv(descriptor, [view], offset)
        except OSError as error:
            raise WeightsUncheckedError(f"the file cannot be read: {error.strerror}") from error
        if count == 0:
            raise WeightsUncheckedError(f"the file ends at {offset}, before what was to be read")
        if count > PAGE_BYTES and count < len(view):
            count -= count % PAGE_BYTES  # past the system's cache only whole pages can be read
        view = view[count:]
        offset += count
