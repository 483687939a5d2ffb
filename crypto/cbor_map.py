"""Reading a CBOR map that must have exactly the keys of its specification, each in its range.

What every signed object of this project is. The rules have names of their own in crypto/README.md,
section "Objects"; the offset of a refusal is that of the value, or of the map where a key is
missing.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from crypto.cbor import Decoded, decode, encode
from crypto.errors import FormatError


class CborMap:
    """A decoded map whose keys are as expected and whose values are still to be asked for."""

    __slots__ = ("_entries", "_start")

    _entries: dict[int | str, Decoded]
    _start: int

    def __init__(
        self,
        unverified_data: bytes | bytearray | memoryview,
        required: AbstractSet[int | str],
        optional: AbstractSet[int | str] = frozenset(),
        *,
        max_bytes: int,
        start: int = 0,
    ) -> None:
        """Decode a map that has all `required` keys and no others than these and the `optional`.

        Args:
            unverified_data: bytes from anywhere.
            required: keys that must be there.
            optional: keys that may be there.
            max_bytes: how long the data may be.
            start: what is added to every offset that is reported: where the data lies in something
                longer.

        Raises:
            FormatError: a rule of the CBOR subset, `object-map`, `missing-key` or `unknown-key`.
        """
        try:
            value = decode(unverified_data, max_bytes=max_bytes)
        except FormatError as error:
            raise FormatError(start + error.offset, error.rule) from None
        if not isinstance(value, dict):
            raise FormatError(start, "object-map")
        self._entries = value
        self._start = start
        if not required <= value.keys():
            raise FormatError(start, "missing-key")
        for key in value:
            if key not in required and key not in optional:
                raise self.refusal(key, "unknown-key")

    def __contains__(self, key: int | str) -> bool:
        """Say whether an optional key is there."""
        return key in self._entries

    def refusal(self, key: int | str, rule: str) -> FormatError:
        """Return the error that names the place of the value of `key` and a rule."""
        # The encoding is unique, so what comes before the value is as long as it is written anew.
        before: dict[int | str, Decoded] = {}
        for name, value in self._entries.items():
            if name == key:
                break
            before[name] = value
        count = len(self._entries)
        head = len(encode([0] * count)) - count  # the head of a map is as long as that of an array
        pairs = sum(len(encode(name)) + len(encode(value)) for name, value in before.items())
        return FormatError(self._start + head + pairs + len(encode(key)), rule)

    def integer(self, key: int | str, least: int, most: int) -> int:
        """Return the integer of `key`; FormatError `value-type`, `value-range`."""
        value = self._entries[key]
        if type(value) is not int:  # a boolean is none
            raise self.refusal(key, "value-type")
        if not least <= value <= most:
            raise self.refusal(key, "value-range")
        return value

    def octets(self, key: int | str, least: int, most: int) -> bytes:
        """Return the byte string of `key`; FormatError `value-type`, `value-range` (its length)."""
        value = self._entries[key]
        if not isinstance(value, bytes):
            raise self.refusal(key, "value-type")
        if not least <= len(value) <= most:
            raise self.refusal(key, "value-range")
        return value

    def text(self, key: int | str, pattern: re.Pattern[str], most: int) -> str:
        """Return the text of `key`: 1..most characters, all of it matched by `pattern`.

        Raises:
            FormatError: `value-type`, `value-range` (its length) or `text-characters`.
        """
        value = self._entries[key]
        if not isinstance(value, str):
            raise self.refusal(key, "value-type")
        if not 1 <= len(value) <= most:
            raise self.refusal(key, "value-range")
        if pattern.fullmatch(value) is None:
            raise self.refusal(key, "text-characters")
        return value

    def integers(
        self, key: int | str, *, counts: tuple[int, int], least: int, most: int
    ) -> tuple[int, ...]:
        """Return the array of integers of `key`; FormatError `value-type`, `value-range`.

        Args:
            key: which value.
            counts: how many there may be, the least and the most number.
            least: the least that each may be.
            most: the most that each may be.
        """
        value = self._entries[key]
        if not isinstance(value, list):
            raise self.refusal(key, "value-type")
        if not counts[0] <= len(value) <= counts[1]:
            raise self.refusal(key, "value-range")
        numbers = []
        for element in value:
            if type(element) is not int:
                raise self.refusal(key, "value-type")
            if not least <= element <= most:
                raise self.refusal(key, "value-range")
            numbers.append(element)
        return tuple(numbers)
