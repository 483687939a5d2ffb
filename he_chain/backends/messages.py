"""Messages between a worker process and its client: one frame each, every size bounded.

frame = "WHW1" | header length, 4 bytes | length of all blobs, 8 bytes | header | blobs
header = strict JSON {"name": text, "fields": object, "blobs": [length, ...]}, integers big-endian
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from he_chain.errors import ProtocolError

MAX_FRAME_BYTES: Final = 1 << 28
MAX_HEADER_BYTES: Final = 1 << 20
MAX_BLOBS: Final = 64

_MAGIC: Final = b"WHW1"
_PREFIX: Final = struct.Struct(">4sIQ")


@dataclass(frozen=True)
class Message:
    """A request, or its answer."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    """What JSON can say."""
    blobs: Sequence[bytes] = ()
    """Ciphertexts, arrays."""


def frame_parts(message: Message, max_bytes: int = MAX_FRAME_BYTES) -> list[bytes]:
    """Return a message as the pieces of its frame, the blobs uncopied.

    Raises:
        ProtocolError: it is larger than a frame may be.
    """
    header = json.dumps(
        {
            "name": message.name,
            "fields": message.fields,
            "blobs": [len(blob) for blob in message.blobs],
        },
        allow_nan=False,
    ).encode()
    total = sum(len(blob) for blob in message.blobs)
    if len(message.blobs) > MAX_BLOBS or len(header) > MAX_HEADER_BYTES or total > max_bytes:
        raise ProtocolError(f"{message.name}: a message of {total} bytes is too large to send")
    return [_PREFIX.pack(_MAGIC, len(header), total), header, *message.blobs]


def read_frame(read: Callable[[int], bytes], max_bytes: int = MAX_FRAME_BYTES) -> Message:
    """Read one message.

    Args:
        read: returns exactly so many bytes; what it raises passes through.
        max_bytes: of all blobs; nothing is allocated before it is checked.

    Raises:
        ProtocolError: what comes is no frame, or larger than that.
    """
    magic, header_bytes, total = _PREFIX.unpack(read(_PREFIX.size))
    if magic != _MAGIC:
        raise ProtocolError("the other side sent something that is no frame")
    if header_bytes > MAX_HEADER_BYTES or total > max_bytes:
        raise ProtocolError(f"the other side announced {header_bytes} + {total} bytes: too many")
    try:
        header = json.loads(read(header_bytes), parse_constant=_refused)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or not _is_header(header, total):
        raise ProtocolError("the other side sent a frame whose header is damaged")
    blobs = [read(size) for size in header["blobs"]]
    return Message(header["name"], header["fields"], blobs)


def _is_header(header: dict[str, Any], total: int) -> bool:
    if set(header) != {"name", "fields", "blobs"}:
        return False
    sizes = header["blobs"]
    return (
        type(header["name"]) is str
        and type(header["fields"]) is dict
        and type(sizes) is list
        and len(sizes) <= MAX_BLOBS
        and all(type(size) is int and size >= 0 for size in sizes)
        and sum(sizes) == total
    )


def _refused(text: str) -> None:
    raise ValueError(text)
