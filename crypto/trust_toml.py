"""The subset of TOML in which a trust file is written, with the place of everything in it.

What is accepted here is TOML and means the same to every TOML parser. The grammar is small enough
to be written again in another language with the same answers: rules, offsets and their order stand
in crypto/README.md.

Source: TOML 1.0.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from crypto.errors import FormatError

Value: TypeAlias = "bool | int | str | tuple[str, ...]"
"""What can stand behind an equals sign."""

Plain: TypeAlias = "dict[str, bool | int | str | list[str] | Plain]"
"""A table as other TOML parsers return it."""

MAX_BYTES: Final = 64 * 1024
MAX_TABLES: Final = 512
MAX_KEYS: Final = 4096
MAX_ELEMENTS: Final = 256
MAX_STRING_BYTES: Final = 1024
MAX_NAME_BYTES: Final = 64
MAX_INTEGER: Final = 2**53 - 1

# Besides controls: what reorders or hides text on the screen of the person who reviews the file.
_FORBIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
    "|\r(?!\n)"
)
_SPACE: Final = re.compile(rb"[ \t]*")
_REST_OF_LINE: Final = re.compile(rb"[ \t]*(?:#[^\r\n]*)?(?:\r?\n|\Z)")
_BLANK: Final = re.compile(rb"(?:[ \t\r\n]|#[^\r\n]*)*")
_PART: Final = rb'(?:([A-Za-z0-9_-]{1,64})|"([A-Za-z0-9._-]{1,64})")'
_HEADER: Final = re.compile(rb"\[" + _PART + rb"(?:\." + _PART + rb")?\]")
_NAME: Final = re.compile(rb"[A-Za-z0-9_-]*")
_STRING: Final = re.compile(rb'"([^"\\\t\r\n]*)"')
_TOKEN: Final = re.compile(rb"[0-9A-Za-z_+.:-]*")
_INTEGER: Final = re.compile(rb"0|[1-9][0-9]{0,15}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A value with the byte offsets of its key and of itself."""

    offset: int
    value_offset: int
    value: Value


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the byte offset of the header that first names it, and what it holds, in order."""

    offset: int
    entries: dict[str, Entry | Table] = field(default_factory=dict)

    def plain(self) -> Plain:
        """Return the table as nested dictionaries, without places."""
        plain: Plain = {}
        for name, entry in self.entries.items():
            if isinstance(entry, Table):
                plain[name] = entry.plain()
            else:
                value = entry.value
                plain[name] = list(value) if isinstance(value, tuple) else value
        return plain


def parse_toml(unverified_data: bytes) -> Table:
    """Return the root table of a file of the subset.

    Args:
        unverified_data: the file's bytes.

    Raises:
        FormatError: a rule is broken; what lies after the offset was not looked at, except that
            the characters of the whole file are checked first.
    """
    if len(unverified_data) > MAX_BYTES:
        raise FormatError(MAX_BYTES, "max-bytes")
    try:
        text = unverified_data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(error.start, "utf-8") from None
    if found := _FORBIDDEN.search(text):
        raise FormatError(len(text[: found.start()].encode("utf-8")), "character")
    return _Parser(unverified_data).file()


def line_and_column(data: bytes, offset: int) -> tuple[int, int]:
    """Return the line and the column, in bytes, of an offset; both count from 1."""
    before = data[:offset]
    return before.count(b"\n") + 1, offset - before.rfind(b"\n")


class _Parser:
    """A position in a file, moving forward line by line."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0
        self.root = Table(0)
        self.current = self.root
        self.headers: set[tuple[str, ...]] = set()
        self.keys = 0

    def file(self) -> Table:
        """Return the root table."""
        while self.offset < len(self.data):
            self.skip(_SPACE)
            start = self.data[self.offset : self.offset + 1]
            if start == b"[":
                self.header()
            elif start not in (b"", b"#", b"\r", b"\n"):
                self.pair()
            rest = _REST_OF_LINE.match(self.data, self.offset)
            if rest is None:
                self.skip(_SPACE)
                raise FormatError(self.offset, "line-end")
            self.offset = rest.end()
        return self.root

    def header(self) -> None:
        """Read `[name]` or `[name.name]` and make that table the current one."""
        start = self.offset
        match = _HEADER.match(self.data, start)
        if match is None:
            raise FormatError(start, "table-name")
        self.offset = match.end()
        path = tuple(part.decode("ascii") for part in match.groups() if part is not None)
        if len(self.headers) == MAX_TABLES:
            raise FormatError(start, "max-tables")
        if path in self.headers:
            raise FormatError(start, "duplicate-table")
        self.headers.add(path)
        self.current = self.root
        for name in path:
            table = self.current.entries.setdefault(name, Table(start))
            if not isinstance(table, Table):
                raise FormatError(start, "duplicate-key")
            self.current = table

    def pair(self) -> None:
        """Read `name = value` into the current table."""
        start = self.offset
        name_bytes = self.skip(_NAME)
        if not 1 <= len(name_bytes) <= MAX_NAME_BYTES:
            raise FormatError(start, "key")
        self.keys += 1
        if self.keys > MAX_KEYS:
            raise FormatError(start, "max-keys")
        name = name_bytes.decode("ascii")
        if name in self.current.entries:
            raise FormatError(start, "duplicate-key")
        self.skip(_SPACE)
        if not self.take(b"="):
            raise FormatError(self.offset, "equals")
        self.skip(_SPACE)
        value_offset = self.offset
        self.current.entries[name] = Entry(start, value_offset, self.value())

    def value(self) -> Value:
        """Read a string, an array, a boolean or an integer."""
        start = self.offset
        if self.data.startswith(b'"', start):
            return self.string()
        if self.take(b"["):
            return self.array()
        token = self.skip(_TOKEN)
        if token in (b"true", b"false"):
            return token == b"true"
        if not token[:1].isdigit():
            raise FormatError(start, "value")
        if not _INTEGER.fullmatch(token) or int(token) > MAX_INTEGER:
            raise FormatError(start, "integer")
        return int(token)

    def array(self) -> tuple[str, ...]:
        """Read the strings of an array and its closing bracket."""
        elements: list[str] = []
        separated = True
        while True:
            self.skip(_BLANK)
            if self.take(b"]"):
                return tuple(elements)
            if not separated or not self.data.startswith(b'"', self.offset):
                raise FormatError(self.offset, "array")
            if len(elements) == MAX_ELEMENTS:
                raise FormatError(self.offset, "max-elements")
            elements.append(self.string())
            self.skip(_BLANK)
            separated = self.take(b",")

    def string(self) -> str:
        """Read a string in quotation marks."""
        match = _STRING.match(self.data, self.offset)
        if match is None:
            raise FormatError(self.offset, "string")
        if len(match[1]) > MAX_STRING_BYTES:
            raise FormatError(self.offset, "max-string")
        self.offset = match.end()
        return match[1].decode("utf-8")

    def skip(self, pattern: re.Pattern[bytes]) -> bytes:
        """Move over what a pattern that matches anywhere matches here, and return it."""
        match = pattern.match(self.data, self.offset)
        if match is None:
            return b""
        self.offset = match.end()
        return match[0]

    def take(self, byte: bytes) -> bool:
        """Move over one byte if it is this one."""
        if not self.data.startswith(byte, self.offset):
            return False
        self.offset += 1
        return True
