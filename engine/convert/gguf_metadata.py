"""The head of a GGUF file: a cursor that never reads past the end, and metadata values.

Every length is compared with the bytes that are left, and with a limit of ours, before anything of
that size is read or built.

Source: GGUF specification (ggml repository, docs/gguf.md), versions 2 and 3.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import BinaryIO

from engine.errors import ConversionError

MAX_STRING_BYTES = 16 << 20
MAX_KEY_BYTES = 1024
MAX_ELEMENTS = 4 << 20
"""Most array elements in all metadata together: two vocabularies of a million tokens fit."""
MAX_HEAD_BYTES = 512 << 20
MAX_NESTING = 3

_BOOL, _STRING, _ARRAY = 7, 8, 9
_SCALARS: dict[int, str] = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    10: "Q",
    11: "q",
    12: "d",
}


class Cursor:
    """Reads a file forward, and knows how many bytes are left."""

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        """Start at the beginning of `file`, of which `size_bytes` bytes exist."""
        self._file = file
        self._limit = min(size_bytes, MAX_HEAD_BYTES)
        self._size = size_bytes
        self._elements = 0
        self.offset = 0

    def take(self, count: int, what: str) -> bytes:
        """Return the next `count` bytes.

        Raises:
            ConversionError: The file has fewer, or its head is larger than the limit.
        """
        if count > self._limit - self.offset:
            raise ConversionError(
                f"GGUF: truncated in {what} at byte {self.offset}"
                if count > self._size - self.offset
                else f"GGUF: the head is larger than {MAX_HEAD_BYTES} bytes"
            )
        data = self._file.read(count)
        if len(data) != count:
            raise ConversionError("GGUF: the file became shorter while it was read")
        self.offset += count
        return data

    def u32(self, what: str) -> int:
        """Return an unsigned integer of 32 bits."""
        return int.from_bytes(self.take(4, what), "little")

    def u64(self, what: str) -> int:
        """Return an unsigned integer of 64 bits."""
        return int.from_bytes(self.take(8, what), "little")

    def string(self, what: str, max_bytes: int = MAX_STRING_BYTES) -> str:
        """Return a length-prefixed string.

        Raises:
            ConversionError: It is longer than `max_bytes` or not UTF-8.
        """
        length = self.u64(what)
        if length > max_bytes:
            raise ConversionError(f"GGUF: {what} is {length} bytes long at byte {self.offset}")
        try:
            return self.take(length, what).decode("utf-8")
        except UnicodeDecodeError:
            raise ConversionError(f"GGUF: {what} is not UTF-8 at byte {self.offset}") from None

    def name(self, what: str, max_bytes: int) -> str:
        """Return a string that can stand in a message.

        Raises:
            ConversionError: It is longer than `max_bytes`, or not printable.
        """
        name = self.string(what, max_bytes)
        if not name.isprintable():
            raise ConversionError(f"GGUF: {what} is not printable at byte {self.offset}")
        return name

    def count(self, what: str, limit: int, least_bytes: int) -> int:
        """Return a 64-bit count of things that take at least `least_bytes` bytes each.

        Raises:
            ConversionError: It exceeds `limit`, or the bytes that are left.
        """
        number = self.u64(what)
        if number > limit:
            raise ConversionError(f"GGUF: {what} is {number}, above the limit of {limit}")
        if number * least_bytes > self._limit - self.offset:
            raise ConversionError(f"GGUF: truncated, or {what} is wrong: no room for {number}")
        return number

    def claim_elements(self, number: int, what: str) -> None:
        """Count array elements against the limit that holds for all metadata together.

        Raises:
            ConversionError: The limit is exceeded.
        """
        self._elements += number
        if self._elements > MAX_ELEMENTS:
            raise ConversionError(f"GGUF: more than {MAX_ELEMENTS} array elements, in {what}")


def read_value(cursor: Cursor, key: str) -> object:
    """Read the type and value of one metadata key.

    Returns:
        int, bool, str, Decimal (exactly the stored binary float), or a tuple of such values; floats
        inside arrays are `float`.

    Raises:
        ConversionError: The value is malformed or exceeds a limit.
    """
    return _read_typed(cursor, key, cursor.u32(key), 0)


def _read_typed(cursor: Cursor, key: str, kind: int, depth: int) -> object:
    if kind == _STRING:
        return cursor.string(key)
    if kind == _ARRAY:
        return _read_array(cursor, key, depth)
    if kind == _BOOL:
        return _boolean(cursor.take(1, key)[0], key)
    code = _SCALARS.get(kind)
    if code is None:
        raise ConversionError(f"GGUF: {key} has the unknown value type {kind}")
    (value,) = struct.unpack("<" + code, cursor.take(struct.calcsize(code), key))
    return Decimal(value) if isinstance(value, float) else value


def _read_array(cursor: Cursor, key: str, depth: int) -> tuple[object, ...]:
    if depth >= MAX_NESTING:
        raise ConversionError(f"GGUF: {key} nests arrays more than {MAX_NESTING} deep")
    kind = cursor.u32(key)
    code = _SCALARS.get(kind)
    if code is None and kind not in {_BOOL, _STRING, _ARRAY}:
        raise ConversionError(f"GGUF: {key} has the unknown element type {kind}")
    size = struct.calcsize(code) if code else {_BOOL: 1, _STRING: 8, _ARRAY: 12}[kind]
    length = cursor.count(f"the length of {key}", MAX_ELEMENTS, size)
    cursor.claim_elements(length, key)
    if code is not None:
        return struct.unpack(f"<{length}{code}", cursor.take(length * size, key))
    if kind == _BOOL:
        return tuple(_boolean(byte, key) for byte in cursor.take(length, key))
    return tuple(_read_typed(cursor, key, kind, depth + 1) for _ in range(length))


def _boolean(byte: int, key: str) -> bool:
    if byte > 1:
        raise ConversionError(f"GGUF: {key} is a boolean with the value {byte}")
    return byte == 1
