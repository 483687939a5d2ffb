"""Messages between evaluator and key holder: a strict CBOR head and the bytes of ciphertexts.

A frame is 4 bytes with the length of the head, the head, and the ciphertexts one after the other.
The head says which they are, how long each is and its digest, so that every size is known and
bounded before anything is allocated.

Source: he_chain/README.md section "Messages".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from crypto.cbor import Decoded, Encodable, decode, encode
from crypto.errors import FormatError
from he_chain import errors
from he_chain.errors import HeChainError, ProtocolError
from he_chain.records.record import blob_digest

MAX_HEAD_BYTES: Final = 32 * 1024
MAX_BLOBS: Final = 256
MAX_BLOB_BYTES: Final = 1 << 26
"""No ciphertext of a supported ring has more: 2 polynomials of 2^15 coefficients in 20 primes."""
MAX_FRAME_BYTES: Final = 1 << 28

REFUSED: Final = "refused"
"""Kind of the answer that ends a run."""
NO_LAYER: Final = -1

_KIND: Final = re.compile(r"[a-z][a-z0-9-]{0,23}")
_KEYS: Final = ("blobs", "fields", "kind", "layer", "position", "run", "step")
_MAX_NUMBER: Final = 1 << 31
_RUN_BYTES: Final = 16


@dataclass(frozen=True)
class Message:
    """One message; an answer repeats run, step, position and layer of its question."""

    kind: str
    run: bytes
    """16 bytes: of which run it is."""
    step: int
    """0, 1, ... in a connection, one for a question and its answer."""
    position: int
    layer: int
    """NO_LAYER where it belongs to none."""
    blobs: tuple[bytes, ...] = ()
    fields: Mapping[str, int | bytes | str] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Bytes of its ciphertexts."""
        return sum(map(len, self.blobs))

    def answer(
        self,
        kind: str,
        blobs: tuple[bytes, ...] = (),
        fields: Mapping[str, int | bytes | str] | None = None,
    ) -> Message:
        """Return the answer to this message."""
        return Message(kind, self.run, self.step, self.position, self.layer, blobs, fields or {})

    def refusal(self, error: HeChainError) -> Message:
        """Return the answer that says why the run ends; its text must tell nothing decrypted."""
        names = {"error": type(error).__name__, "text": str(error)[:500]}
        return self.answer(REFUSED, (), names)


def encode_head(message: Message) -> bytes:
    """Return the head of a message.

    Raises:
        ProtocolError: it has more or longer ciphertexts than a message may.
    """
    sizes = [len(blob) for blob in message.blobs]
    _check_sizes(sizes)
    head: dict[str, Encodable] = {
        "kind": message.kind,
        "run": message.run,
        "step": message.step,
        "position": message.position,
        "layer": message.layer,
        "blobs": [[len(blob), blob_digest(blob)] for blob in message.blobs],
        "fields": dict(message.fields),
    }
    data = encode(head)
    if len(data) > MAX_HEAD_BYTES:
        raise ProtocolError("the head of a message is too long")
    return data


def encode_frame(message: Message) -> bytes:
    """Return the whole frame of a message; ProtocolError as of `encode_head`."""
    head = encode_head(message)
    return b"".join((len(head).to_bytes(4, "big"), head, *message.blobs))


def read_frame(read: Callable[[int], bytes]) -> Message:
    """Read one frame.

    Args:
        read: returns exactly so many bytes, or raises.

    Raises:
        ProtocolError: a rule of the format is broken, or a ciphertext was altered on the way.
    """
    length = int.from_bytes(read(4), "big")
    if not 0 < length <= MAX_HEAD_BYTES:
        raise ProtocolError(f"a head of {length} bytes is none")
    head = _decoded(read(length))
    sizes, digests = _sizes(head["blobs"])
    blobs = tuple(read(size) for size in sizes)
    if any(blob_digest(b) != digest for b, digest in zip(blobs, digests, strict=True)):
        raise ProtocolError("a ciphertext was altered on the way")
    kind, run = head["kind"], head["run"]
    if not isinstance(kind, str) or _KIND.fullmatch(kind) is None:
        raise ProtocolError("a message's kind is none")
    if not isinstance(run, bytes) or len(run) != _RUN_BYTES:
        raise ProtocolError("a message's run is none")
    return Message(
        kind,
        run,
        _number(head["step"], 0),
        _number(head["position"], 0),
        _number(head["layer"], NO_LAYER),
        blobs,
        _fields(head["fields"]),
    )


def decode_frame(data: bytes) -> Message:
    """Return the message of a whole frame; ProtocolError as of `read_frame`, or bytes after it."""
    place = 0

    def read(count: int) -> bytes:
        nonlocal place
        piece = data[place : place + count]
        if len(piece) < count:
            raise ProtocolError("a message ends early")
        place += count
        return piece

    message = read_frame(read)
    if place != len(data):
        raise ProtocolError("bytes follow a message")
    return message


def raise_refusal(message: Message) -> None:
    """Raise what the other side refused with; nothing for other messages.

    Raises:
        HeChainError: of the class that the message names, ProtocolError for an unknown one.
    """
    if message.kind != REFUSED:
        return
    name, text = message.fields.get("error", ""), message.fields.get("text", "")
    kind = getattr(errors, name, None) if isinstance(name, str) else None
    if not (isinstance(kind, type) and issubclass(kind, HeChainError)):
        kind = ProtocolError
    raise kind(f"refused by the other side: {text if isinstance(text, str) else ''}")


def _decoded(data: bytes) -> dict[int | str, Decoded]:
    try:
        head = decode(data, max_bytes=MAX_HEAD_BYTES)
    except FormatError as error:
        raise ProtocolError(f"the head of a message is damaged: {error}") from None
    if not isinstance(head, dict) or head.keys() != set(_KEYS):
        raise ProtocolError("the head of a message has other keys")
    return head


def _sizes(value: Decoded) -> tuple[list[int], list[bytes]]:
    """Return lengths and digests of the ciphertexts, after their limits were checked."""
    sizes: list[int] = []
    digests: list[bytes] = []
    if not isinstance(value, list):
        raise ProtocolError("a message's ciphertexts are no list")
    for one in value:
        if not isinstance(one, list) or len(one) != 2:
            raise ProtocolError("a message's ciphertext is none")
        size, digest = one
        if type(size) is not int or not isinstance(digest, bytes):
            raise ProtocolError("a message's ciphertext is none")
        sizes.append(size)
        digests.append(digest)
    _check_sizes(sizes)
    return sizes, digests


def _check_sizes(sizes: list[int]) -> None:
    if len(sizes) > MAX_BLOBS or sum(sizes) > MAX_FRAME_BYTES:
        raise ProtocolError("a message has too many ciphertexts")
    if not all(0 < size <= MAX_BLOB_BYTES for size in sizes):
        raise ProtocolError("a ciphertext of a message has a length that none has")


def _number(value: Decoded, least: int) -> int:
    if type(value) is not int or not least <= value < _MAX_NUMBER:
        raise ProtocolError("a number of a message is out of range")
    return value


def _fields(value: Decoded) -> dict[str, int | bytes | str]:
    """Return the fields; what they mean is checked by who reads them."""
    if not isinstance(value, dict):
        raise ProtocolError("a message's fields are no map")
    fields: dict[str, int | bytes | str] = {}
    for name, one in value.items():
        if not isinstance(name, str) or not isinstance(one, int | bytes | str):
            raise ProtocolError("a message's field is none")
        fields[name] = one
    return fields
