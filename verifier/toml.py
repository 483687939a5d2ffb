"""The subset of TOML of a trust file (crypto/README.md, section The subset of TOML)."""

from __future__ import annotations

from verifier.errors import DIGITS, LOWER, Any, MalformedError, require

Table = dict[str, Any]  # of str, int, bool, list[str] and further tables

MAX_BYTES = 65_536
MAX_NUMBER = (1 << 53) - 1

_CONTROLS = (*range(9), 11, 12, *range(14, 32), *range(127, 160))
_DIRECTIONS = (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
_REFUSED = {chr(code) for code in _CONTROLS + _DIRECTIONS}
_BLANK = b" \t"
_NAME = (DIGITS + LOWER + LOWER.upper() + "_-").encode("ascii")
_TOKEN = _NAME + b"+.:"


def parse(data: bytes) -> Table:
    """Return the root table (MalformedError)."""
    require(len(data) <= MAX_BYTES, "max-bytes", MAX_BYTES)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError("utf-8", error.start) from None
    for at, sign in enumerate(text):
        if sign in _REFUSED or (sign == "\r" and text[at + 1 : at + 2] != "\n"):
            raise MalformedError("character", len(text[:at].encode("utf-8")))
    return _Parser(data).run()


class _Parser:
    """Each method reads from a place on and returns where it ended."""

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
            head = self._sign(at)
            if head == b"[":
                at = self._header(at)
            elif head not in {b"", b"#", b"\n", b"\r"}:
                at = self._pair(at)
            at = self._comment(self._skip(_BLANK, at))
            at += self._sign(at) == b"\r"  # a newline follows: `parse` has looked
            require(self._sign(at) in {b"", b"\n"}, "line-end", at)
            at += 1
        return self.root

    def _sign(self, at: int) -> bytes:
        return self.data[at : at + 1]

    def _skip(self, signs: bytes, at: int) -> int:
        while at < len(self.data) and self.data[at] in signs:
            at += 1
        return at

    def _comment(self, at: int) -> int:
        if self._sign(at) != b"#":
            return at
        end = self.data.find(b"\n", at)
        return len(self.data) if end < 0 else end

    def _between(self, at: int) -> int:
        at = self._skip(b" \t\r\n", at)
        while self._sign(at) == b"#":
            at = self._skip(b" \t\r\n", self._comment(at))
        return at

    def _header(self, start: int) -> int:
        parts: tuple[str, ...] = ()
        at = start
        while self._sign(at) == (b"." if parts else b"[") and len(parts) < 2:
            quoted = self._sign(at + 1) == b'"'
            begin = at + 1 + quoted
            at = self._skip(_NAME + b"." if quoted else _NAME, begin)
            require(1 <= at - begin <= 64, "table-name", start)
            parts += (self.data[begin:at].decode("ascii"),)
            require(not quoted or self._sign(at) == b'"', "table-name", start)
            at += quoted
        require(self._sign(at) == b"]", "table-name", start)
        require(len(self.headers) < 512, "max-tables", start)
        require(parts not in self.headers, "duplicate-table", start)
        self.headers.add(parts)
        self.table = self.root
        for part in parts:
            self.table = self.table.setdefault(part, {})
            require(isinstance(self.table, dict), "duplicate-key", start)
        return at + 1

    def _pair(self, start: int) -> int:
        end = self._skip(_NAME, start)
        require(1 <= end - start <= 64, "key", start)
        self.pairs += 1
        require(self.pairs <= 4096, "max-keys", start)
        name = self.data[start:end].decode("ascii")
        require(name not in self.table, "duplicate-key", start)
        at = self._skip(_BLANK, end)
        require(self._sign(at) == b"=", "equals", at)
        self.table[name], end = self._value(self._skip(_BLANK, at + 1))
        return end

    def _value(self, at: int) -> tuple[str | int | list[str], int]:
        if self._sign(at) == b'"':
            return self._string(at)
        if self._sign(at) == b"[":
            return self._array(at)
        end = self._skip(_TOKEN, at)
        token = self.data[at:end]
        if token in {b"true", b"false"}:
            return token == b"true", end
        require(token[:1].isdigit(), "value", at)
        plain = token.isdigit() and len(token) <= 16 and (token == b"0" or token[:1] != b"0")
        require(plain and int(token) <= MAX_NUMBER, "integer", at)
        return int(token), end

    def _string(self, at: int) -> tuple[str, int]:
        end = self.data.find(b'"', at + 1)
        content = self.data[at + 1 : end]
        require(end > 0 and not any(sign in content for sign in b"\\\t\r\n"), "string", at)
        require(len(content) <= 1024, "max-string", at)
        return content.decode("utf-8"), end + 1

    def _array(self, start: int) -> tuple[list[str], int]:
        elements: list[str] = []
        at = self._between(start + 1)
        comma = True
        while self._sign(at) != b"]":
            require(comma and self._sign(at) == b'"', "array", at)
            require(len(elements) < 256, "max-elements", at)
            text, at = self._string(at)
            elements.append(text)
            at = self._between(at)
            comma = self._sign(at) == b","
            at = self._between(at + comma)
        return elements, at + 1
