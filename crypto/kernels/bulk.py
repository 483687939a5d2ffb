"""`crypto.bulk.Bulk` on vector registers."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from crypto.bulk import PortableBulk, check_cipher, check_prefixes, one_length, row_length
from crypto.kernels import job as layout
from crypto.kernels.variants import Variant
from crypto.sm3 import DIGEST_BYTES, sm3

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_BLOCK_BYTES: Final = 64
_INNER_PAD: Final = 0x36  # RFC 2104 section 2
_OUTER_PAD: Final = 0x5C
_WORD_MASK: Final = (1 << 64) - 1
_ENTRY: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)  # releases the lock
_ANY_SIZE: Final = ctypes.c_char * 0
_SMALL_BYTES: Final = 4096  # are copied faster than the address of what is read-only is found


class _Pins:
    """Buffers that stay where they are, and addresses of them, while a call lasts."""

    def __init__(self) -> None:
        """Start without any."""
        self._held: list[Any] = []

    def address(self, buffer: ReadableBuffer) -> int:
        """Return where a contiguous buffer starts."""
        view = memoryview(buffer)
        if view.readonly and view.nbytes <= _SMALL_BYTES:
            view = memoryview(bytearray(view))
        if view.readonly:
            array = np.frombuffer(view.cast("B") if view.nbytes else b"", np.uint8)
            self._held.append(array)
            return int(array.__array_interface__["data"][0])
        # The same at a fifth of the time, where it is possible.
        held = _ANY_SIZE.from_buffer(view)
        self._held.append(held)
        return ctypes.addressof(held)


class _Memory(threading.local):
    """A thread's job and scratch memory, zero between calls."""

    def __init__(self, job_bytes: int) -> None:
        """Reserve it."""
        self.words = np.zeros(job_bytes // 8, np.int64)
        self.address = int(self.words.ctypes.data)


class LaneBulk:
    """Many inputs side by side; the fewer there are, the more lanes idle.

    An eighth of the lanes or fewer are hashed faster by the libraries, one after the other.

    Compiled code can do without this object: `entry_address` is that of a function of a job's
    address (`crypto.kernels.job`); a job's words and scratch memory have `job_bytes` in all.
    """

    def __init__(self, variant: Variant) -> None:
        """Compile the variant's function, or load it from the cache."""
        self.name: Final = variant.name
        self.lanes: Final = variant.driver.lanes
        self.entry_address: Final = variant.function.address
        self.job_bytes: Final = 8 * layout.WORDS + variant.driver.scratch_bytes
        self._run = _ENTRY(self.entry_address)
        self._memory = _Memory(self.job_bytes)
        self._portable = PortableBulk()

    def sm3_many(self, prefix: bytes, buffers: Sequence[ReadableBuffer]) -> list[bytes]:
        """Return SM3(prefix || buffer) of each buffer; all have one length."""
        if self._are_few(buffers):
            return self._portable.sm3_many(prefix, buffers)
        return _split(self._hash(prefix, 0, len(prefix), buffers))

    def sm3_rows(self, prefix: bytes, rows: ReadableBuffer, num_rows: int) -> bytearray:
        """Return SM3(prefix || row) of each of `num_rows` equal parts of a buffer, joined."""
        return self._rows(prefix, rows, num_rows)

    def _rows(self, prefix: bytes | bytearray, rows: ReadableBuffer, num_rows: int) -> bytearray:
        length = row_length(rows, num_rows)
        digests = bytearray(num_rows * DIGEST_BYTES)
        pins = _Pins()
        self._call(
            {
                layout.OPERATION: layout.HASH,
                layout.COUNT: num_rows,
                layout.LENGTH: length,
                layout.ROWS: pins.address(rows),
                layout.PREFIX: pins.address(prefix),
                layout.PREFIX_LENGTH: len(prefix),
                layout.DIGESTS: pins.address(digests),
            }
        )
        return digests

    def hmac_sm3_many(
        self, key: bytes, prefixes: Sequence[bytes], buffers: Sequence[ReadableBuffer]
    ) -> list[bytes]:
        """Return HMAC-SM3(key, prefix || buffer) of each pair."""
        if self._are_few(buffers):
            return self._portable.hmac_sm3_many(key, prefixes, buffers)
        length = check_prefixes(prefixes, buffers)
        one_length(buffers)
        short = key if len(key) <= _BLOCK_BYTES else sm3(key)
        padded = bytearray(_BLOCK_BYTES)
        padded[: len(short)] = short
        inner = bytearray(b ^ _INNER_PAD for b in padded)
        outer = bytearray(b ^ _OUTER_PAD for b in padded)
        joined = bytearray().join(part for prefix in prefixes for part in (inner, prefix))
        stride = _BLOCK_BYTES + length
        try:
            digests = self._hash(joined, stride, stride, buffers)
            return _split(self._rows(outer, digests, len(buffers)))
        finally:
            for secret in (padded, inner, outer, joined):
                secret[:] = bytes(len(secret))

    def sm4_ctr_many(
        self, key: bytes, initial_blocks: Sequence[int], buffers: Sequence[WriteableBuffer]
    ) -> None:
        """Encrypt or decrypt each buffer where it lies; all have one length."""
        self._cipher(key, initial_blocks, None, buffers)

    def sm4_ctr_sm3_many(
        self,
        key: bytes,
        initial_blocks: Sequence[int],
        prefix: bytes,
        buffers: Sequence[WriteableBuffer],
    ) -> list[bytes]:
        """Decrypt each buffer where it lies and return SM3(prefix || plain text) of each."""
        if self._are_few(buffers):
            self.sm4_ctr_many(key, initial_blocks, buffers)
            return self._portable.sm3_many(prefix, buffers)
        return _split(self._cipher(key, initial_blocks, prefix, buffers))

    def _are_few(self, buffers: Sequence[ReadableBuffer]) -> bool:
        return 8 * len(buffers) <= self.lanes

    def _cipher(
        self,
        key: bytes,
        initial_blocks: Sequence[int],
        prefix: bytes | None,
        buffers: Sequence[WriteableBuffer],
    ) -> bytearray:
        check_cipher(key, initial_blocks, buffers)
        halves = [half for block in initial_blocks for half in (block >> 64, block & _WORD_MASK)]
        counters = np.array(halves, np.uint64)
        pins = _Pins()
        counters_address = pins.address(counters.data)
        return self._hash(prefix, 0, len(prefix or b""), buffers, (counters_address, key))

    def _hash(
        self,
        prefixes: ReadableBuffer | None,
        stride: int,
        prefix_length: int,
        buffers: Sequence[ReadableBuffer],
        cipher: tuple[int, bytes] | None = None,
    ) -> bytearray:
        """Do a job on buffers and return the digests.

        Args:
            prefixes: where prefixes lie; None if nothing is hashed.
            stride: from one prefix to the next, 0 if all inputs have the same.
            prefix_length: of each.
            buffers: the inputs.
            cipher: address of the counters, and the key; None if nothing is decrypted.
        """
        hashes = prefixes is not None
        pins = _Pins()
        pointers = np.array([pins.address(buffer) for buffer in buffers], np.int64)
        digests = bytearray(len(buffers) * DIGEST_BYTES if hashes else 0)
        self._call(
            {
                layout.OPERATION: layout.HASH * hashes | layout.CIPHER * (cipher is not None),
                layout.COUNT: len(buffers),
                layout.LENGTH: one_length(buffers),
                layout.POINTERS: pins.address(pointers.data),
                layout.PREFIX: pins.address(b"" if prefixes is None else prefixes),
                layout.PREFIX_STRIDE: stride,
                layout.PREFIX_LENGTH: prefix_length,
                layout.DIGESTS: pins.address(digests),
                layout.COUNTERS: cipher[0] if cipher else 0,
            },
            cipher[1] if cipher else None,
        )
        return digests

    def _call(self, words: dict[int, int], key: bytes | None = None) -> None:
        """Run a job; what it leaves in memory is zeroed."""
        memory = self._memory
        for word, value in words.items():
            memory.words[word] = value
        if key is not None:
            memory.words[layout.KEY : layout.KEY + 2] = np.frombuffer(key, np.int64)
        memory.words[layout.SCRATCH] = memory.address + 8 * layout.WORDS
        self._run(memory.address)
        memory.words[:] = 0  # round keys, keystream and the states of secret prefixes


def _split(digests: bytearray) -> list[bytes]:
    """Return joined digests one by one."""
    starts = range(0, len(digests), DIGEST_BYTES)
    return [bytes(digests[start : start + DIGEST_BYTES]) for start in starts]
