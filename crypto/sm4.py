"""SM4 in counter mode, the only cipher of this project; it protects nothing without a tag.

The counter is the initial block as one big-endian number of 128 bits; it counts blocks of 16 bytes
and continues with zero after 2^128 - 1. A cipher text has the length of its plain text, and the
same call encrypts and decrypts.

Source: GB/T 32907-2016 (SM4), NIST SP 800-38A section 6.5 (counter mode).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import SM4
from cryptography.hazmat.primitives.ciphers.modes import CTR

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

KEY_BYTES: Final = 16
BLOCK_BYTES: Final = 16
MAX_BLOCK: Final = (1 << 128) - 1


def ctr(key: ReadableBuffer, initial_block: int, data: ReadableBuffer) -> bytes:
    """Return `data` encrypted or decrypted.

    Args:
        key: 16 bytes.
        initial_block: the first block of the counter, 0 .. 2^128 - 1.
        data: any contiguous buffer.

    Raises:
        ValueError: the key or the block has another length.

    Security: two messages under one key must not share a block of the counter.
    """
    context = _start(key, initial_block)
    source = memoryview(data)
    return context.update(source.cast("B")) if source.nbytes else b""


def ctr_into(
    key: ReadableBuffer, initial_block: int, data: ReadableBuffer, out: WriteableBuffer
) -> None:
    """Encrypt or decrypt `data` into `out`, without a copy and without the interpreter's lock.

    Args:
        key: 16 bytes.
        initial_block: the first block of the counter, 0 .. 2^128 - 1.
        data: any contiguous buffer.
        out: a contiguous buffer of the same number of bytes: `data` itself, or one that does not
            overlap it.

    Raises:
        ValueError: the key or the block has another length, or the sizes differ.

    Security: two messages under one key must not share a block of the counter.
    """
    context = _start(key, initial_block)
    source, target = memoryview(data), memoryview(out)
    if source.nbytes != target.nbytes:
        raise ValueError(f"no {source.nbytes} bytes can be written into {target.nbytes}")
    if source.nbytes:  # an empty buffer cannot be cast
        context.update_into(source.cast("B"), target.cast("B"))


def _start(key: ReadableBuffer, initial_block: int) -> CipherContext:
    """Return a cipher at its first block."""
    key_view = memoryview(key)
    if key_view.nbytes != KEY_BYTES:
        raise ValueError(f"an SM4 key has {KEY_BYTES} bytes, not {key_view.nbytes}")
    if not 0 <= initial_block <= MAX_BLOCK:
        raise ValueError("an initial block has 128 bits")
    nonce = initial_block.to_bytes(BLOCK_BYTES, "big")
    return Cipher(SM4(bytes(key_view)), CTR(nonce)).encryptor()
