"""Strict reader of the deterministic subset of CBOR (crypto/README.md, section CBOR)."""

from __future__ import annotations

from verifier.errors import Any, MalformedError, require

MAX_DEPTH = 8
_SIMPLE = {20: False, 21: True}
_REFUSED = {22: "null", 23: "undefined", 25: "float", 26: "float", 27: "float", 31: "break"}


def decode(  # of int, bytes, str, bool, list and dict
    data: bytes, *, max_bytes: int = 65_536, max_items: int = 65_536, max_depth: int = MAX_DEPTH
) -> Any:
    """Return the one item that data encodes (MalformedError)."""
    require(len(data) <= max_bytes, "max-bytes", max_bytes)
    reader = _Reader(data, max_items, max_depth)
    value = reader.item(0)
    require(reader.at == len(data), "trailing-bytes", reader.at)
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

    def item(self, depth: int) -> Any:
        """Read the item at the present place, inside `depth` containers."""
        start = self.at
        require(start < len(self.data), "truncated", start)
        require(self.items_left > 0, "max-items", start)
        self.items_left -= 1
        major, info = self.data[start] >> 5, self.data[start] & 31
        self.at += 1
        if major >= 6:
            require(major == 7, "tag", start)
            require(info in _SIMPLE, _REFUSED.get(info, "simple-value"), start)
            return _SIMPLE[info]
        argument = info if info < 24 else self._argument(start, major, info)
        if major <= 1:
            require(major == 0 or argument < 1 << 63, "integer-range", start)
            return -1 - argument if major else argument
        left = len(self.data) - self.at
        if major <= 3:
            require(argument <= left, "length-exceeds-input", start)
            return self._string(start, major, argument)
        require(depth < self.max_depth, "max-depth", start)
        require(argument <= left // (major - 3), "count-exceeds-input", start)
        if major == 4:
            return [self.item(depth + 1) for _ in range(argument)]
        return self._map(argument, depth + 1)

    def _argument(self, start: int, major: int, info: int) -> int:
        indefinite = info == 31 and major >= 2
        require(info <= 27, "indefinite-length" if indefinite else "reserved-code", start)
        size = 1 << (info - 24)
        found = self.data[self.at : self.at + size]
        require(len(found) == size, "truncated", start)
        argument = int.from_bytes(found, "big")
        require(argument >= (24 if size == 1 else 1 << (4 * size)), "shortest-form", start)
        self.at += size
        return argument

    def _string(self, start: int, major: int, length: int) -> bytes | str:
        content = self.data[self.at : self.at + length]
        self.at += length
        try:
            return content if major == 2 else content.decode("utf-8")
        except UnicodeDecodeError:
            raise MalformedError("text-utf8", start) from None

    def _map(self, pairs: int, depth: int) -> dict[int | str, Any]:
        result: dict[int | str, Any] = {}
        before = b""
        for _ in range(pairs):
            start = self.at
            if start < len(self.data):
                require(self.data[start] >> 5 in {0, 1, 3}, "key-type", start)
            key = self.item(depth)
            encoded = self.data[start : self.at]
            require(encoded != before, "duplicate-key", start)
            require(encoded > before, "key-order", start)
            before = encoded
            result[key] = self.item(depth)
        return result
