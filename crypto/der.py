"""Strict DER for the few ASN.1 types that keys, signatures and envelopes are made of.

A reader takes exactly one encoding of a value: shortest definite lengths, minimal integers, no
bytes left over. The rules are in crypto/README.md.

Source: ITU-T X.690 (2021), clauses 8 and 10.
"""

from __future__ import annotations

from typing import Final

from crypto.errors import FormatError

INTEGER: Final = 0x02
BIT_STRING: Final = 0x03
OCTET_STRING: Final = 0x04
NULL: Final = 0x05
OBJECT_IDENTIFIER: Final = 0x06
SEQUENCE: Final = 0x30
CONTEXT: Final = 0xA0
"""An explicit tag [n] is CONTEXT + n."""

_MAX_LENGTH_BYTES: Final = 3


class DerReader:
    """Reads the elements of one constructed value, or of a whole input, from left to right."""

    __slots__ = ("_data", "_end", "offset")

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        """Read `data[start:end]`; offsets in errors count from the beginning of `data`."""
        self._data = data
        self._end = len(data) if end is None else end
        self.offset = start

    def next_tag(self) -> int | None:
        """Return the tag of the next element, None at the end."""
        return self._data[self.offset] if self.offset < self._end else None

    def sequence(self) -> DerReader:
        """Take a SEQUENCE and return a reader of its elements."""
        return self.constructed(SEQUENCE)

    def constructed(self, tag: int) -> DerReader:
        """Take a constructed element and return a reader of what is in it."""
        start, end = self._element(tag)
        return DerReader(self._data, start, end)

    def integer(self, max_bytes: int) -> int:
        """Take an INTEGER of 0 or more that fits into `max_bytes` bytes."""
        at = self.offset
        start, end = self._element(INTEGER)
        content = self._data[start:end]
        if not content or content[0] & 0x80:
            raise FormatError(at, "der-integer")
        if len(content) > 1 and content[0] == 0 and not content[1] & 0x80:
            raise FormatError(at, "der-integer")
        value = int.from_bytes(content, "big")
        if value.bit_length() > 8 * max_bytes:
            raise FormatError(at, "der-integer-size")
        return value

    def octet_string(self) -> bytes:
        """Take an OCTET STRING."""
        start, end = self._element(OCTET_STRING)
        return self._data[start:end]

    def bit_string(self) -> bytes:
        """Take a BIT STRING of whole bytes."""
        at = self.offset
        start, end = self._element(BIT_STRING)
        if start == end or self._data[start] != 0:
            raise FormatError(at, "der-bit-string")
        return self._data[start + 1 : end]

    def object_identifier(self) -> bytes:
        """Take an OBJECT IDENTIFIER and return its whole encoding, as `object_identifier` makes."""
        at = self.offset
        _, end = self._element(OBJECT_IDENTIFIER)
        return self._data[at:end]

    def null(self) -> None:
        """Take a NULL."""
        at = self.offset
        start, end = self._element(NULL)
        if start != end:
            raise FormatError(at, "der-null")

    def finish(self) -> None:
        """Check that nothing is left.

        Raises:
            FormatError: something is.
        """
        if self.offset != self._end:
            raise FormatError(self.offset, "der-trailing")

    def _element(self, tag: int) -> tuple[int, int]:
        """Take an element of this tag and return where its content begins and ends."""
        at = self.offset
        if at >= self._end:
            raise FormatError(at, "der-truncated")
        if self._data[at] != tag:
            raise FormatError(at, "der-tag")
        start, length = self._length(at)
        if length > self._end - start:
            raise FormatError(at, "der-truncated")
        self.offset = start + length
        return start, self.offset

    def _length(self, at: int) -> tuple[int, int]:
        """Return where the content of the element at `at` begins, and its length."""
        start = at + 2
        if start > self._end:
            raise FormatError(at, "der-truncated")
        first = self._data[at + 1]
        if first < 0x80:
            return start, first
        count = first & 0x7F
        if not 1 <= count <= _MAX_LENGTH_BYTES:
            raise FormatError(at, "der-length")
        if count > self._end - start:
            raise FormatError(at, "der-truncated")
        length = int.from_bytes(self._data[start : start + count], "big")
        if length < 0x80 or length >> (8 * (count - 1)) == 0:
            raise FormatError(at, "der-length")
        return start + count, length


def encode(tag: int, *parts: bytes) -> bytes:
    """Return an element of this tag around the joined parts (at most 2^24 - 1 bytes)."""
    content = b"".join(parts)
    length = len(content)
    if length < 0x80:
        return bytes((tag, length)) + content
    size = (length.bit_length() + 7) // 8
    if size > _MAX_LENGTH_BYTES:
        raise ValueError("an element is shorter than 16 MiB")
    return bytes((tag, 0x80 | size)) + length.to_bytes(size, "big") + content


def encode_integer(value: int) -> bytes:
    """Return an INTEGER of 0 or more."""
    if value < 0:
        raise ValueError("a number is not negative")
    return encode(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def encode_bit_string(data: bytes) -> bytes:
    """Return a BIT STRING of whole bytes."""
    return encode(BIT_STRING, b"\x00", data)


def object_identifier(dotted: str) -> bytes:
    """Return the OBJECT IDENTIFIER of a dotted number such as 1.2.156.10197.1.301."""
    first, second, *others = (int(arc) for arc in dotted.split("."))
    content = bytearray()
    for arc in (40 * first + second, *others):
        septets = [arc & 0x7F]
        while arc := arc >> 7:
            septets.append(arc & 0x7F | 0x80)
        content += bytes(reversed(septets))
    return encode(OBJECT_IDENTIFIER, bytes(content))
