"""A decoded manifest whose parts know their byte offset, so that every refusal can name it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from crypto.cbor import encode
from engine.errors import FormatError
from engine.vqf.format import MAX_NAME_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crypto.cbor import Decoded

Path: TypeAlias = tuple[int | str, ...]

_NAME: Final = re.compile(r"[a-z0-9._]+")
_SHOWN_CHARACTERS: Final = 80


class Node:
    """One value of the manifest, reached by `path` from the top; its accessors apply R16 to R20."""

    def __init__(self, top: Decoded, base_offset: int, path: Path, value: Decoded) -> None:
        """Keep where the manifest begins in the file, for offsets."""
        self._top = top
        self._base_offset = base_offset
        self._path = path
        self._value = value

    @classmethod
    def top(cls, value: Decoded, base_offset: int) -> Node:
        """Return the node of a whole manifest that begins at `base_offset` of the file."""
        return cls(value, base_offset, (), value)

    def fail(self, rule: str, message: str) -> NoReturn:
        """Refuse the file because of this value.

        Raises:
            FormatError: always.
        """
        where = ".".join(_shown(step).strip("'") for step in self._path) or "manifest"
        offset = self._base_offset + _offset_of(self._top, self._path)
        raise FormatError(rule, offset, f"{where}: {message}")

    def entries(self, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Node]:
        """Return the entries of a map with all `required` keys and else only `optional` ones."""
        value = self._value
        if not isinstance(value, dict):
            self.fail("R18", "a map is needed")
        for key in required:
            if key not in value:
                self.fail("R16", f"key {key!r} is missing")
        for found, element in value.items():
            if found not in required and found not in optional:
                self._child(found, element).fail("R17", f"unknown key {_shown(found)}")
        return {str(key): self._child(key, element) for key, element in value.items()}

    def entry(self, key: str) -> Node:
        """Return one entry of a map, whatever else the map has."""
        value = self._value
        if not isinstance(value, dict):
            self.fail("R18", "a map is needed")
        if key not in value:
            self.fail("R16", f"key {key!r} is missing")
        return self._child(key, value[key])

    def elements(self, least: int, most: int) -> list[Node]:
        """Return the elements of an array."""
        value = self._value
        if not isinstance(value, list):
            self.fail("R18", "an array is needed")
        if not least <= len(value) <= most:
            self.fail("R19", f"{len(value)} elements are not within {least} .. {most}")
        return [self._child(index, element) for index, element in enumerate(value)]

    def integer(self, least: int, most: int) -> int:
        """Return an integer."""
        value = self._value
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail("R18", "an integer is needed")
        if not least <= value <= most:
            self.fail("R19", f"{value} is not within {least} .. {most}")
        return value

    def boolean(self) -> bool:
        """Return a boolean."""
        if not isinstance(self._value, bool):
            self.fail("R18", "a boolean is needed")
        return self._value

    def byte_string(self, length: int) -> bytes:
        """Return a byte string of exactly `length` bytes."""
        value = self._value
        if not isinstance(value, bytes):
            self.fail("R18", "a byte string is needed")
        if len(value) != length:
            self.fail("R19", f"{len(value)} bytes instead of {length}")
        return value

    def name(self) -> str:
        """Return a text of 1 to 64 characters of the set that names have."""
        value = self.text()
        if _NAME.fullmatch(value) is None:
            self.fail("R20", f"{_shown(value)} has characters that names do not have")
        return value

    def text(self) -> str:
        """Return a text of 1 to 64 characters."""
        value = self._value
        if not isinstance(value, str):
            self.fail("R18", "a text is needed")
        if not 1 <= len(value) <= MAX_NAME_CHARACTERS:
            self.fail("R19", f"{len(value)} characters are not within 1 .. {MAX_NAME_CHARACTERS}")
        return value

    def _child(self, step: int | str, value: Decoded) -> Node:
        """Return the node of an entry or element."""
        return Node(self._top, self._base_offset, (*self._path, step), value)


def _shown(value: int | str) -> str:
    """Return a short form of a key or text from the file, in one line of ASCII."""
    return ascii(value)[:_SHOWN_CHARACTERS]


def _offset_of(top: Decoded, path: Path) -> int:
    """Return where the value at `path` begins in the encoding of `top`.

    A value has one encoding, so the lengths of what lies before it are known without keeping them
    while decoding.
    """
    offset = 0
    value = top
    for step in path:
        if isinstance(value, list):
            offset += len(encode(len(value)))  # the head of a container is as long as its count
            offset += sum(len(encode(element)) for element in value[: int(step)])
            value = value[int(step)]
        elif isinstance(value, dict):
            offset += len(encode(len(value)))
            for key, element in value.items():
                offset += len(encode(key))
                if key == step:
                    break
                offset += len(encode(element))
            value = value[step]
    return offset
