"""Bytes of a library in a frame that says what they are and shows damage.

    "whhe" | kind, 4 bytes | SHA-256 of all that is not it | payload

A compressed ciphertext with a changed bit often decompresses, to other numbers that are as valid:
without the digest nobody would notice. It is no authentication; records and their signatures are.
"""

from __future__ import annotations

import hashlib
from typing import Final

from he_chain.errors import ProtocolError

_MAGIC: Final = b"whhe"
_KIND_BYTES: Final = 4
_HEAD: Final = len(_MAGIC) + _KIND_BYTES
OVERHEAD: Final = _HEAD + hashlib.sha256().digest_size
"""How many bytes a frame adds."""


def frame(kind: bytes, payload: bytes | bytearray) -> bytes:
    """Return a payload of a kind (4 bytes) in its frame."""
    return frame_head(kind, payload) + payload


def frame_head(kind: bytes, payload: bytes | bytearray) -> bytes:
    """Return what stands before a payload that is not to be copied."""
    head = _MAGIC + kind
    return head + _digest(head, payload)


def unframe(kind: bytes, data: bytes | memoryview, *, max_bytes: int) -> memoryview:
    """Return the payload of a frame.

    Args:
        kind: what it must be, 4 bytes.
        data: the whole frame.
        max_bytes: how long the payload may be.

    Raises:
        ProtocolError: it is too long, too short, of another kind, or damaged.
    """
    view = memoryview(data)
    name = kind.decode("ascii").strip()
    if len(view) > max_bytes + OVERHEAD:
        raise ProtocolError(f"{name}: {len(view)} bytes, at most {max_bytes + OVERHEAD} expected")
    if len(view) < OVERHEAD or bytes(view[:_HEAD]) != _MAGIC + kind:
        raise ProtocolError(f"{name}: these bytes are something else, or cut off")
    payload = view[OVERHEAD:]
    if bytes(view[_HEAD:OVERHEAD]) != _digest(view[:_HEAD], payload):
        raise ProtocolError(f"{name}: damaged, its digest is another")
    return payload


def _digest(head: bytes | memoryview, payload: bytes | bytearray | memoryview) -> bytes:
    """Return the digest of a frame's head and payload."""
    state = hashlib.sha256(head)
    state.update(payload)
    return state.digest()
