"""Strict reader of the deterministic subset of CBOR (crypto/README.md, section CBOR)."""

from __future__ import annotations

from verifier.errors import MalformedError

Value = int | bytes | str | bool | list["Value"] | dict[int | str, "Value"]

MAX_DEPTH = 8
_SIMPLE = {20: False, 21: True}
_REFUSED = {22: "null", 23: "undefined", 25: "float", 26: "float", 27: "float", 31: "break"}


def decode(
    data: bytes, *, max_bytes: int = 65_536, max_items: int = 65_536, max_depth: int = MAX_DEPTH
) -> Value:
    """Return the one item that data encodes (MalformedError)."""
    if len(data) > max_bytes:
        raise MalformedError("max-bytes", max_bytes)
    reader = _Reader(data, max_items, max_depth)
    value = reader.item(0)
    if reader.at != len(data):
        raise MalformedError("trailing-bytes", reader.at)
    return value


def head(major: int, argument: int) -> bytes:
    """Return the head of an item: its major type and its argument, in the shortest form."""
    if argument < 24:
        return bytes([major << 5 | argument])
    info = next(info for info in (24, 25, 26, 27) if argument < 1 << (8 << (info - 24)))
    return bytes([major << 5 | info]) + argument.to_bytes(1 << (info - 24), "big")


class _Reader:
    def __init__(self, data: bytes, max_items: int, max_depth: int) -> None:
        self.data = data
        self.at = 0
        self.items_left = max_items
        self.max_depth = max_depth

    def item(self, depth: int) -> Value:
        """Read the item at the present place, inside `depth` containers."""
        start = self.at
        if start >= len(self.data):
            raise MalformedError("truncated", start)
        if self.items_left == 0:
            raise MalformedError("max-items", start)
        self.items_left -= 1
        major, info = self.data[start] >> 5, self.data[start] & 31
        if major >= 6:
            return self._other(start, major, info)
        argument = self._argument(start, major, info)
        if major == 0:
            return argument
        if major == 1:
            if argument >= 1 << 63:
                raise MalformedError("integer-range", start)
            return -1 - argument
        if major <= 3:
            return self._string(start, major, argument)
        if depth >= self.max_depth:
            raise MalformedError("max-depth", start)
        if argument > (len(self.data) - self.at) // (major - 3):
            raise MalformedError("count-exceeds-input", start)
        if major == 4:
            return [self.item(depth + 1) for _ in range(argument)]
        return self._map(argument, depth + 1)

    def _other(self, start: int, major: int, info: int) -> bool:
        if major == 6:
            raise MalformedError("tag", start)
        if info not in _SIMPLE:
            raise MalformedError(_REFUSED.get(info, "simple-value"), start)
        self.at += 1
        return _SIMPLE[info]

    def _argument(self, start: int, major: int, info: int) -> int:
        self.at += 1
        if info < 24:
            return info
        if info == 31:
            raise MalformedError("reserved-code" if major < 2 else "indefinite-length", start)
        if info > 27:
            raise MalformedError("reserved-code", start)
        size = 1 << (info - 24)
        if len(self.data) - self.at < size:
            raise MalformedError("truncated", start)
        argument = int.from_bytes(self.data[self.at : self.at + size], "big")
        if argument < (24 if size == 1 else 1 << (4 * size)):
            raise MalformedError("shortest-form", start)
        self.at += size
        return argument

    def _string(self, start: int, major: int, length: int) -> bytes | str:
        if length > len(self.data) - self.at:
            raise MalformedError("length-exceeds-input", start)
        content = self.data[self.at : self.at + length]
        self.at += length
        if major == 2:
            return content
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise MalformedError("text-utf8", start) from None

    def _map(self, pairs: int, depth: int) -> dict[int | str, Value]:
        result: dict[int | str, Value] = {}
        before = b""
        for _ in range(pairs):
            start = self.at
            if start < len(self.data) and self.data[start] >> 5 not in {0, 1, 3}:
                raise MalformedError("key-type", start)
            key = self.item(depth)
            encoded = self.data[start : self.at]
            if encoded <= before:
                raise MalformedError("duplicate-key" if encoded == before else "key-order", start)
            before = encoded
            value = self.item(depth)
            if isinstance(key, int | str):
                result[key] = value
        return result
