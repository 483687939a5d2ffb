"""Numbers of the VQF format, version 4 (FORMAT.md sections 2, 3, 5 and 10)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

MAGIC: Final = b"\x89WHVQF\r\n"
VERSION: Final = 4
PREAMBLE_BYTES: Final = 128
PAGE_BYTES: Final = 4096
CHUNK_BYTES: Final = 1 << 20
TENSOR_ALIGNMENT: Final = 64
DIGEST_BYTES: Final = 32
COUNTER_BYTES: Final = 16
FILE_ID_BYTES: Final = 32

# What the sealed form has beside the plain one: recipients, header tag, manifest tag.
RECIPIENTS_BYTES: Final = 16 * 1024
TAG_BYTES: Final = 32
SEALED_OVERHEAD_BYTES: Final = RECIPIENTS_BYTES + 2 * TAG_BYTES

HEADER_TAG_OFFSET: Final = PREAMBLE_BYTES + RECIPIENTS_BYTES
SEALED_HEAD_BYTES: Final = HEADER_TAG_OFFSET + TAG_BYTES
"""Preamble, recipients and header tag: where the encrypted manifest begins."""

MAX_MANIFEST_BYTES: Final = 16 << 20
MAX_MANIFEST_ITEMS: Final = 1 << 20
MAX_MANIFEST_DEPTH: Final = 8
MAX_SIGNATURES_BYTES: Final = 64 * 1024
MAX_EXTENTS: Final = 65_536
MAX_TENSORS_OF_EXTENT: Final = 4096
MAX_DIMENSION: Final = 1 << 24
MAX_OFFSET: Final = (1 << 53) - 1
MAX_NAME_CHARACTERS: Final = 64
MAX_RAW_BYTES: Final = {"tokenizer": 64 << 20, "template": 1 << 20}
"""Extents that hold bytes instead of tensors, and how long each may be."""


class Form(IntEnum):
    """What protects the file."""

    PLAIN = 1
    SIGNED = 2
    SEALED = 3


def up(value: int, multiple: int) -> int:
    """Return the least multiple of `multiple` that is not below `value`."""
    return -(-value // multiple) * multiple
