"""By what chunks that were accepted are recognised when they are read again in the same process."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from crypto.gmac import Sm4Gmac

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.vqf.chunks import Chunk


class Marks:
    """A tag of every chunk as it stands in the file, in private memory; safe for several threads.

    They vouch for nothing but sameness: what is marked was accepted by the rules of the format, or
    is refused by them afterwards and never read again.
    """

    def __init__(self, num_chunks: int) -> None:
        """Draw a key.

        Raises:
            UnavailableError: the library has no function for this; see `Sm4Gmac`.
            SelfTestError: it computes something else.
        """
        self._gmac = Sm4Gmac()
        self._tags = [b""] * num_chunks

    def take(self, chunks: Sequence[Chunk], buffers: Sequence[memoryview]) -> None:
        """Remember some chunks."""
        for chunk, buffer in zip(chunks, buffers, strict=True):
            self._tags[chunk.number] = self._gmac.tag(chunk.number, buffer)

    def is_same(self, chunk: Chunk, buffer: memoryview) -> bool:
        """Return whether these are the bytes that were remembered; in constant time."""
        return hmac.compare_digest(self._gmac.tag(chunk.number, buffer), self._tags[chunk.number])

    def wipe(self) -> None:
        """Overwrite the key; nothing is the same any more."""
        self._gmac.wipe()
