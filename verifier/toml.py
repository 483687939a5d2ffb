"""The subset of TOML of a trust file (crypto/README.md, section The subset of TOML)."""

from __future__ import annotations

import re

from verifier.errors import MalformedError

TYPE_CHECKING = False  # as of `typing`, which takes a tenth of the time to start
if TYPE_CHECKING:
    from typing import Any

Table = dict[str, "Any"]  # of str, int, bool, list[str] and further tables

MAX_BYTES = 65_536
MAX_NUMBER = (1 << 53) - 1

_REFUSED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
    "|\r(?!\n)"
)
_BLANK = re.compile(rb"[ \t]*")
_NAME = re.compile(rb"[A-Za-z0-9_-]*")
_PART = rb'([A-Za-z0-9_-]{1,64}|"[A-Za-z0-9_.-]{1,64}")'
_HEADER = re.compile(rb"\[" + _PART + rb"(?:\." + _PART + rb")?\]")
_TOKEN = re.compile(rb"[0-9A-Za-z_+.:-]*")
_INTEGER = re.compile(rb"0|[1-9][0-9]{0,15}")
_STRING = re.compile(rb'"([^"\\\t\r\n]*)"')
_LINE_END = re.compile(rb"[ \t]*(#[^\r\n]*)?(\r?\n|\Z)")
_BETWEEN = re.compile(rb"(?:[ \t\r\n]|#[^\r\n]*(?=[\r\n]|\Z))*")


def parse(data: bytes) -> Table:
    """Return the root table (MalformedError)."""
    if len(data) > MAX_BYTES:
        raise MalformedError("max-bytes", MAX_BYTES)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError("utf-8", error.start) from None
    if found := _REFUSED.search(text):
        raise MalformedError("character", len(text[: found.start()].encode("utf-8")))
    return _Parser(data).run()


class _Parser:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.root: Table = {}
        self.table = self.root
        self.headers: set[tuple[str, ...]] = set()
        self.pairs = 0

    def run(self) -> Table:
        at = 0
        while at < len(self.data):
            at = self._skip(_BLANK, at)
            head = self.data[at : at + 1]
            if head == b"[":
                at = self._header(at)
            elif head not in {b"", b"#", b"\n", b"\r"}:
                at = self._pair(at)
            end = _LINE_END.match(self.data, at)
            if end is None:
                raise MalformedError("line-end", self._skip(_BLANK, at))
            at = end.end()
        return self.root

    def _skip(self, pattern: re.Pattern[bytes], at: int) -> int:
        found = pattern.match(self.data, at)
        return found.end() if found else at

    def _header(self, start: int) -> int:
        found = _HEADER.match(self.data, start)
        if found is None:
            raise MalformedError("table-name", start)
        if len(self.headers) == 512:
            raise MalformedError("max-tables", start)
        parts = tuple(part.strip(b'"').decode("ascii") for part in found.groups() if part)
        if parts in self.headers:
            raise MalformedError("duplicate-table", start)
        self.headers.add(parts)
        self.table = self.root
        for part in parts:
            self.table = self.table.setdefault(part, {})
            if not isinstance(self.table, dict):
                raise MalformedError("duplicate-key", start)
        return found.end()

    def _pair(self, start: int) -> int:
        end = self._skip(_NAME, start)
        if not 1 <= end - start <= 64:
            raise MalformedError("key", start)
        self.pairs += 1
        if self.pairs > 4096:
            raise MalformedError("max-keys", start)
        name = self.data[start:end].decode("ascii")
        if name in self.table:
            raise MalformedError("duplicate-key", start)
        at = self._skip(_BLANK, end)
        if self.data[at : at + 1] != b"=":
            raise MalformedError("equals", at)
        self.table[name], end = self._value(self._skip(_BLANK, at + 1))
        return end

    def _value(self, at: int) -> tuple[str | int | list[str], int]:
        head = self.data[at : at + 1]
        if head == b'"':
            return self._string(at)
        if head == b"[":
            return self._array(at)
        end = self._skip(_TOKEN, at)
        token = self.data[at:end]
        if token in {b"true", b"false"}:
            return token == b"true", end
        if not token[:1].isdigit():
            raise MalformedError("value", at)
        if not _INTEGER.fullmatch(token) or int(token) > MAX_NUMBER:
            raise MalformedError("integer", at)
        return int(token), end

    def _string(self, at: int) -> tuple[str, int]:
        found = _STRING.match(self.data, at)
        if found is None:
            raise MalformedError("string", at)
        if len(found[1]) > 1024:
            raise MalformedError("max-string", at)
        return found[1].decode("utf-8"), found.end()

    def _array(self, start: int) -> tuple[list[str], int]:
        elements: list[str] = []
        at = start + 1
        comma = True
        while True:
            at = self._skip(_BETWEEN, at)
            head = self.data[at : at + 1]
            if head == b"]":
                return elements, at + 1
            if head != b'"' or not comma:
                raise MalformedError("array", at)
            if len(elements) == 256:
                raise MalformedError("max-elements", at)
            text, end = self._string(at)
            elements.append(text)
            at = self._skip(_BETWEEN, end)
            comma = self.data[at : at + 1] == b","
            at += comma
