"""Suite 1 of the sealed form: SM4-CTR and HMAC-SM3, encrypt-then-MAC (FORMAT.md section 8).

One data key makes four keys, each for one purpose. What a tag covers begins with its label and the
file id, so that no tag of one file or one place means anything in another.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from crypto.kdf import hkdf_sm3, hmac_sm3
from crypto.labels import (
    VQF_CHUNK_TAG,
    VQF_DATA_CIPHER,
    VQF_HEADER,
    VQF_HEADER_KEY,
    VQF_MANIFEST_CIPHER,
    VQF_MANIFEST_TAG,
    VQF_TAGS,
)
from crypto.sm4 import ctr

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from engine.vqf.chunks import Chunk

SUITE: Final = 1
DATA_KEY_BYTES: Final = 32

_BLOCKS_PER_CHUNK: Final = 65_536
_MANIFEST_TAG: Final = struct.Struct("<I32s16sQQ")
_CHUNK_TAG: Final = struct.Struct("<I32sIIII")


class SealKeys(NamedTuple):
    """What is derived from the data key of one file."""

    file_id: bytes
    data_cipher: bytes
    manifest_cipher: bytes
    tags: bytes
    header: bytes

    def __repr__(self) -> str:
        """Name the file, not the keys."""
        return f"SealKeys(file_id={self.file_id.hex()})"

    def header_tag(self, head: ReadableBuffer) -> bytes:
        """Return the tag of everything before it: preamble and recipients."""
        return hmac_sm3(self.header, VQF_HEADER, head)

    def manifest_tag(
        self, counter_start: bytes, manifest_length: int, signatures_length: int, sealed: bytes
    ) -> bytes:
        """Return the tag of the encrypted manifest and signatures."""
        lengths = _MANIFEST_TAG.pack(
            SUITE, self.file_id, counter_start, manifest_length, signatures_length
        )
        return hmac_sm3(self.tags, VQF_MANIFEST_TAG, lengths, sealed)

    def crypt_manifest(self, counter_start: bytes, sealed: ReadableBuffer) -> bytes:
        """Encrypt or decrypt manifest and signatures; the tag is compared before."""
        return ctr(self.manifest_cipher, int.from_bytes(counter_start, "big"), sealed)

    def chunk_prefix(self, chunk: Chunk) -> bytes:
        """Return what stands before the cipher text in the input of a chunk's tag."""
        return VQF_CHUNK_TAG + _CHUNK_TAG.pack(
            SUITE, self.file_id, chunk.extent, chunk.in_extent, chunk.of_extent, chunk.length
        )


def derive_keys(data_key: ReadableBuffer, file_id: bytes) -> SealKeys:
    """Return the keys of a file."""
    return SealKeys(
        file_id,
        hkdf_sm3(data_key, file_id, VQF_DATA_CIPHER, 16),
        hkdf_sm3(data_key, file_id, VQF_MANIFEST_CIPHER, 16),
        hkdf_sm3(data_key, file_id, VQF_TAGS, 32),
        hkdf_sm3(data_key, file_id, VQF_HEADER_KEY, 32),
    )


def initial_block(chunk: Chunk) -> int:
    """Return where the data cipher's counter stands at the first byte of a chunk."""
    return _BLOCKS_PER_CHUNK * chunk.number
