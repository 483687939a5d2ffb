"""SM3, HMAC-SM3 and SM4-CTR over many inputs of one length, at whatever speed this machine has.

Whoever has much to hash or decrypt takes a `Bulk`: the portable one below, or the one of
`crypto.kernels.load`, which works on the inputs side by side in vector registers. Both give the
same bytes. A call runs on the calling thread and releases the interpreter's lock, so callers share
work by calling from several threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from crypto.kdf import HmacSm3
from crypto.sm3 import prefixed
from crypto.sm4 import KEY_BYTES, MAX_BLOCK, ctr_into

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

MAX_PREFIX_BYTES: Final = 256


class Bulk(Protocol):
    """What can be done to many inputs at once.

    name: what does it, for reports.
    lanes: how many inputs of one length are best given in a call.

    Buffers are contiguous, of any type and at any address. Every method raises ValueError where
    lengths or numbers of arguments do not match, before it changes anything.
    """

    @property
    def name(self) -> str:
        """What does it, for reports."""
        ...

    @property
    def lanes(self) -> int:
        """How many inputs of one length are best given in a call."""
        ...

    def sm3_many(self, prefix: bytes, buffers: Sequence[ReadableBuffer]) -> list[bytes]:
        """Return SM3(prefix || buffer) of each buffer; all have one length."""
        ...

    def sm3_rows(self, prefix: bytes, rows: ReadableBuffer, num_rows: int) -> bytearray:
        """Return SM3(prefix || row) of each of `num_rows` equal parts of a buffer, joined."""
        ...

    def hmac_sm3_many(
        self, key: bytes, prefixes: Sequence[bytes], buffers: Sequence[ReadableBuffer]
    ) -> list[bytes]:
        """Return HMAC-SM3(key, prefix || buffer) of each pair.

        The prefixes have one length of at most 256 bytes, the buffers have one length.
        """
        ...

    def sm4_ctr_many(
        self, key: bytes, initial_blocks: Sequence[int], buffers: Sequence[WriteableBuffer]
    ) -> None:
        """Encrypt or decrypt each buffer where it lies; all have one length.

        Security: two messages under one key must not share a block of the counter.
        """
        ...

    def sm4_ctr_sm3_many(
        self,
        key: bytes,
        initial_blocks: Sequence[int],
        prefix: bytes,
        buffers: Sequence[WriteableBuffer],
    ) -> list[bytes]:
        """Decrypt each buffer where it lies and return SM3(prefix || plain text) of each.

        Security: compare the tags of what is decrypted before.
        """
        ...


def one_length(buffers: Sequence[ReadableBuffer]) -> int:
    """Return the number of bytes that every buffer has, 0 if there is none.

    Raises:
        ValueError: they differ.
    """
    lengths = {memoryview(buffer).nbytes for buffer in buffers}
    if len(lengths) > 1:
        raise ValueError("buffers of one call must have one length")
    return lengths.pop() if lengths else 0


def check_prefixes(prefixes: Sequence[bytes], buffers: Sequence[ReadableBuffer]) -> int:
    """Return the length that all prefixes have.

    Raises:
        ValueError: they differ, are longer than 256 bytes, or are not as many as the buffers.
    """
    if len(prefixes) != len(buffers):
        raise ValueError("every buffer needs a prefix")
    length = one_length(prefixes)
    if length > MAX_PREFIX_BYTES:
        raise ValueError(f"a prefix has at most {MAX_PREFIX_BYTES} bytes, not {length}")
    return length


def check_cipher(
    key: bytes, initial_blocks: Sequence[int], buffers: Sequence[WriteableBuffer]
) -> int:
    """Return the length that all buffers have.

    Raises:
        ValueError: they differ, the key has not 16 bytes, or the initial blocks are out of range or
            not as many as the buffers, or a buffer is read-only.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"an SM4 key has {KEY_BYTES} bytes, not {len(key)}")
    if len(initial_blocks) != len(buffers):
        raise ValueError("every buffer needs an initial block")
    if any(not 0 <= block <= MAX_BLOCK for block in initial_blocks):
        raise ValueError("an initial block has 128 bits")
    if any(memoryview(buffer).readonly for buffer in buffers):
        raise ValueError("a buffer that is decrypted in place cannot be read-only")
    return one_length(buffers)


def row_length(rows: ReadableBuffer, num_rows: int) -> int:
    """Return the number of bytes of a row.

    Raises:
        ValueError: the buffer is not `num_rows` equal parts.
    """
    size = memoryview(rows).nbytes
    if num_rows < 0 or (size % num_rows if num_rows else size):
        raise ValueError(f"{size} bytes are not {num_rows} rows")
    return size // num_rows if num_rows else 0


class PortableBulk:
    """One input after the other, through the libraries that `crypto.sm3` and `crypto.sm4` use."""

    name: Final = "portable"
    lanes: Final = 1

    def sm3_many(self, prefix: bytes, buffers: Sequence[ReadableBuffer]) -> list[bytes]:
        """Return SM3(prefix || buffer) of each buffer; all have one length."""
        one_length(buffers)
        digest = prefixed(prefix)
        return [digest(buffer) for buffer in buffers]

    def sm3_rows(self, prefix: bytes, rows: ReadableBuffer, num_rows: int) -> bytearray:
        """Return SM3(prefix || row) of each of `num_rows` equal parts of a buffer, joined."""
        width = row_length(rows, num_rows)
        digest = prefixed(prefix)
        if not width:  # an empty buffer cannot be cast
            return bytearray(digest(b"") * num_rows)
        data = memoryview(rows).cast("B")
        return bytearray().join(
            [digest(data[start : start + width]) for start in range(0, num_rows * width, width)]
        )

    def hmac_sm3_many(
        self, key: bytes, prefixes: Sequence[bytes], buffers: Sequence[ReadableBuffer]
    ) -> list[bytes]:
        """Return HMAC-SM3(key, prefix || buffer) of each pair."""
        check_prefixes(prefixes, buffers)
        one_length(buffers)
        keyed = HmacSm3(key)
        tags = []
        for prefix, buffer in zip(prefixes, buffers, strict=True):
            state = keyed.copy()
            state.update(prefix)
            state.update(buffer)
            tags.append(state.digest())
        return tags

    def sm4_ctr_many(
        self, key: bytes, initial_blocks: Sequence[int], buffers: Sequence[WriteableBuffer]
    ) -> None:
        """Encrypt or decrypt each buffer where it lies; all have one length."""
        check_cipher(key, initial_blocks, buffers)
        for initial_block, buffer in zip(initial_blocks, buffers, strict=True):
            ctr_into(key, initial_block, buffer, buffer)

    def sm4_ctr_sm3_many(
        self,
        key: bytes,
        initial_blocks: Sequence[int],
        prefix: bytes,
        buffers: Sequence[WriteableBuffer],
    ) -> list[bytes]:
        """Decrypt each buffer where it lies and return SM3(prefix || plain text) of each."""
        self.sm4_ctr_many(key, initial_blocks, buffers)
        return self.sm3_many(prefix, buffers)
