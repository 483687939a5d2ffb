"""The deterministic subset of CBOR in which everything of this project is written.

Rules, each with the name that `FormatError.rule` carries, stand in crypto/README.md. In short:
integers of 64 bits, byte strings, UTF-8 text, arrays, maps with integer or text keys in the order
of their encodings, booleans, each in its one shortest form. A value therefore has exactly one
encoding, and what decodes encodes to the same bytes.

Source: RFC 8949, sections 3 (encoding) and 4.2.1 (deterministic encoding).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, cast

from crypto.errors import FormatError

Decoded: TypeAlias = "int | bytes | str | list[Decoded] | dict[int | str, Decoded]"
"""What `decode` returns; a boolean is an int to the type checker."""

Encodable: TypeAlias = (
    "int | bytes | str | Sequence[Encodable]"
    " | Mapping[int, Encodable] | Mapping[str, Encodable] | Mapping[int | str, Encodable]"
)
"""What `encode` takes; a boolean is an int to the type checker."""

MAX_DEPTH: Final = 8
MAX_BYTES: Final = 64 * 1024
MAX_ITEMS: Final = 64 * 1024

_UINT, _NINT, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)  # major types
_FALSE, _TRUE, _NULL, _UNDEFINED = 20, 21, 22, 23
_FIRST_FLOAT, _LAST_FLOAT = 25, 27
_LARGEST_INLINE = 23
_INDEFINITE = 31
_LEAST_ARGUMENT: Final = {1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}  # by the bytes it is written in


def encode(value: Encodable, *, max_depth: int = MAX_DEPTH) -> bytes:
    """Return the one encoding of `value`.

    Args:
        value: integers in [-2**63, 2**64), booleans, bytes, str, lists or tuples, and mappings
            with int or str keys.
        max_depth: how many arrays and maps may lie inside each other.

    Raises:
        TypeError: a type that the subset does not have, such as float or None.
        ValueError: an integer out of range, text that is no Unicode, or nesting that is too deep.
    """
    out = bytearray()
    _encode_item(out, value, max_depth)
    return bytes(out)


def decode(
    unverified_data: bytes | bytearray | memoryview,
    *,
    max_depth: int = MAX_DEPTH,
    max_items: int = MAX_ITEMS,
    max_bytes: int = MAX_BYTES,
) -> Decoded:
    """Return the value that `unverified_data` encodes, if that is exactly one value of the subset.

    Args:
        unverified_data: bytes from anywhere.
        max_depth: how many arrays and maps may lie inside each other.
        max_items: how many data items there may be, keys and containers counted.
        max_bytes: how long the data may be.

    Raises:
        FormatError: a rule is broken. No count or length is believed before it is compared with
            the bytes that are left.
    """
    if memoryview(unverified_data).nbytes > max_bytes:
        raise FormatError(max_bytes, "max-bytes")
    reader = _Reader(bytes(unverified_data), max_items)
    value = reader.item(max_depth)
    if reader.offset != len(reader.data):
        raise FormatError(reader.offset, "trailing-bytes")
    return value


def _encode_item(out: bytearray, value: Encodable, depth_left: int) -> None:
    """Append the encoding of `value` to `out`."""
    if isinstance(value, bool):
        out.append(_SIMPLE << 5 | (_TRUE if value else _FALSE))
    elif isinstance(value, int):
        _encode_integer(out, value)
    elif isinstance(value, bytes):
        _encode_head(out, _BYTES, len(value))
        out += value
    elif isinstance(value, str):
        text = value.encode("utf-8")  # UnicodeEncodeError is a ValueError
        _encode_head(out, _TEXT, len(text))
        out += text
    elif isinstance(value, list | tuple):
        _require_depth(depth_left)
        _encode_head(out, _ARRAY, len(value))
        for element in value:
            _encode_item(out, element, depth_left - 1)
    elif isinstance(value, Mapping):
        _require_depth(depth_left)
        _encode_head(out, _MAP, len(value))
        for key, element in sorted((_encode_key(key), element) for key, element in value.items()):
            out += key
            _encode_item(out, element, depth_left - 1)
    else:
        raise TypeError(f"no {type(value).__name__} in this subset of CBOR")


def _encode_integer(out: bytearray, value: int) -> None:
    """Append the shortest form of an integer."""
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError("integers must be at least -2**63 and below 2**64")
    if value >= 0:
        _encode_head(out, _UINT, value)
    else:
        _encode_head(out, _NINT, -1 - value)


def _encode_key(key: int | str) -> bytes:
    """Return the encoding of a map key."""
    if isinstance(key, bool) or not isinstance(key, int | str):
        raise TypeError(f"map keys must be int or str, not {type(key).__name__}")
    out = bytearray()
    _encode_item(out, key, 0)
    return bytes(out)


def _encode_head(out: bytearray, major: int, argument: int) -> None:
    """Append an initial byte and its argument in the shortest form."""
    if argument <= _LARGEST_INLINE:
        out.append(major << 5 | argument)
        return
    for code, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument >> (8 * size) == 0:
            out.append(major << 5 | code)
            out += argument.to_bytes(size, "big")
            return
    raise ValueError("length does not fit in 64 bits")


def _require_depth(depth_left: int) -> None:
    """Refuse to nest deeper, also in a value that contains itself."""
    if depth_left <= 0:
        raise ValueError("arrays and maps are nested too deeply")


class _Reader:
    """A position in encoded data, moving forward item by item."""

    def __init__(self, data: bytes, items_left: int) -> None:
        self.data = data
        self.offset = 0
        self.items_left = items_left

    def item(self, depth_left: int) -> Decoded:
        """Return the item that begins at the position and move behind it."""
        start = self.offset
        if self.items_left <= 0:
            raise FormatError(start, "max-items")
        self.items_left -= 1
        major, argument = self.head()
        if major == _UINT:
            return argument
        if major == _NINT:
            if argument >> 63:
                raise FormatError(start, "integer-range")
            return -1 - argument
        if major == _BYTES:
            return self.string(start, argument)
        if major == _TEXT:
            try:
                return self.string(start, argument).decode("utf-8")
            except UnicodeDecodeError:
                raise FormatError(start, "text-utf8") from None
        if major == _SIMPLE:
            return argument == _TRUE
        # Every item takes a byte, so a count beyond the bytes that are left cannot be true.
        if argument > (len(self.data) - self.offset) // (2 if major == _MAP else 1):
            raise FormatError(start, "count-exceeds-input")
        if depth_left <= 0:
            raise FormatError(start, "max-depth")
        if major == _ARRAY:
            return [self.item(depth_left - 1) for _ in range(argument)]
        return self.entries(argument, depth_left - 1)

    def entries(self, count: int, depth_left: int) -> dict[int | str, Decoded]:
        """Return the `count` entries of a map."""
        entries: dict[int | str, Decoded] = {}
        previous = b""
        for _ in range(count):
            start = self.offset
            if start < len(self.data) and self.data[start] >> 5 not in (_UINT, _NINT, _TEXT):
                raise FormatError(start, "key-type")
            key = cast("int | str", self.item(0))
            encoded = self.data[start : self.offset]
            if encoded == previous:
                raise FormatError(start, "duplicate-key")
            if encoded < previous:
                raise FormatError(start, "key-order")
            previous = encoded
            entries[key] = self.item(depth_left)
        return entries

    def head(self) -> tuple[int, int]:
        """Read an initial byte and its argument (major type 7: the code of false or true)."""
        start = self.offset
        if start >= len(self.data):
            raise FormatError(start, "truncated")
        major, code = divmod(self.data[start], 32)
        self.offset = start + 1
        if major == _TAG:
            raise FormatError(start, "tag")
        if major == _SIMPLE:
            if code not in (_FALSE, _TRUE):
                raise FormatError(start, _simple_rule(code))
            return major, code
        if code <= _LARGEST_INLINE:
            return major, code
        if code == _INDEFINITE and major not in (_UINT, _NINT):
            raise FormatError(start, "indefinite-length")
        size = 1 << (code - 24)
        if size not in _LEAST_ARGUMENT:
            raise FormatError(start, "reserved-code")
        argument_bytes = self.data[start + 1 : start + 1 + size]
        if len(argument_bytes) != size:
            raise FormatError(start, "truncated")
        self.offset += size
        argument = int.from_bytes(argument_bytes, "big")
        if argument < _LEAST_ARGUMENT[size]:
            raise FormatError(start, "shortest-form")
        return major, argument

    def string(self, start: int, length: int) -> bytes:
        """Return the next `length` bytes."""
        end = self.offset + length
        if end > len(self.data):
            raise FormatError(start, "length-exceeds-input")
        value = self.data[self.offset : end]
        self.offset = end
        return value


def _simple_rule(code: int) -> str:
    """Name the rule that an item of major type 7 other than false and true breaks."""
    if _FIRST_FLOAT <= code <= _LAST_FLOAT:
        return "float"
    names = {_NULL: "null", _UNDEFINED: "undefined", _INDEFINITE: "break"}
    return names.get(code, "simple-value")
