"""From a record to its one encoding and back, and what its parts may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from crypto.cbor import Encodable, decode, encode
from crypto.errors import FormatError
from he_chain.errors import CheckpointError

MAX_RECORD_BYTES: Final = 64 * 1024
MAX_INTEGER: Final = 1 << 53
MAX_TEXT: Final = 2000


class _Encodes(Protocol):
    def encode(self) -> bytes: ...


Value = TypeVar("Value", bound=_Encodes)


def decoded(data: bytes, build: Callable[[dict[Any, Any]], Value], what: str) -> Value:
    """Return what `build` makes of a map, if its encoding is `data` again.

    Args:
        data: bytes from anywhere.
        build: makes a record, or raises.
        what: its name in a message.

    Raises:
        CheckpointError: it is no record, or not in its one encoding.
    """
    try:
        value = decode(data, max_bytes=MAX_RECORD_BYTES)
        if not isinstance(value, dict):
            raise CheckpointError(f"{what} is damaged: no map")
        built = build(dict(value))
        again = built.encode()
    except (FormatError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise CheckpointError(f"{what} is damaged: {error}") from None
    if again != data:
        raise CheckpointError(f"{what} is damaged: it is not in its one encoding")
    return built


def checked(value: Mapping[str, Encodable]) -> bytes:
    """Return an encoding that a reader will take."""
    data = encode(value)
    if len(data) > MAX_RECORD_BYTES:
        raise ValueError(f"a record has at most {MAX_RECORD_BYTES} bytes")
    return data


def require(fine: bool, what: str) -> None:
    """Refuse a value; ValueError."""
    if not fine:
        raise ValueError(f"the {what} is none")


def is_text(text: str, most: int = MAX_TEXT) -> bool:
    """Say whether a text has 1 .. `most` characters, all of them printable."""
    return 1 <= len(text) <= most and text.isprintable()


def is_positive_hex(text: str) -> bool:
    """Say whether a text is the float.hex of a finite number above 0."""
    value = float.fromhex(text)
    return math.isfinite(value) and value > 0 and value.hex() == text
