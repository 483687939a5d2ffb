"""Calls of tools in the text of an answer (X10), found as the text comes.

    <tool_call>
    {"name": "NAME", "arguments": {...}}
    </tool_call>

A pure function of the text, however it is cut: the events of one kind and index, joined, are the
same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

BEGIN: Final = "<tool_call>"
_HEAD: Final = '\n{"name": "'
_MIDDLE: Final = '", "arguments": '
_TAIL: Final = "}\n</tool_call>"
_NEXT: Final = "\n" + BEGIN
_MAX_NAME: Final = 64
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME_CHARACTERS: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
)


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More of the text of an answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A call begins, the index-th from 0."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More of the JSON text of a call's arguments."""

    index: int
    text: str


Delta: TypeAlias = ContentDelta | CallStart | ArgumentsDelta


class _Place(Enum):
    CONTENT = "content"
    HEAD = "head"
    NAME = "name"
    MIDDLE = "middle"
    ARGUMENTS = "arguments"
    TAIL = "tail"
    NEXT = "next"
    OVER = "over"


class ToolCallParser:
    """Cuts the text of one answer into content and calls.

    Text that does not keep the form, which no grammar allows, is content from there on. The
    beginning of a call that ends before its name is complete is nothing; so is an end cut short.
    """

    def __init__(self) -> None:
        """Start an answer."""
        self.num_calls = 0
        self._place = _Place.CONTENT
        self._held = ""
        self._head = ""
        self._name = ""
        self._scan = _ObjectScan()
        self._deltas: list[Delta] = []

    def push(self, text: str) -> list[Delta]:
        """Return what the next piece of text brings."""
        for character in text:
            self._take(character)
        return self._give()

    def finish(self) -> list[Delta]:
        """Return what was held back when the answer ends."""
        if self._place is _Place.CONTENT:
            self._content(self._held)
        self._held = ""
        self._place = _Place.OVER
        return self._give()

    def _give(self) -> list[Delta]:
        deltas, self._deltas = self._deltas, []
        return deltas

    def _take(self, character: str) -> None:
        if self._place is _Place.CONTENT:
            self._take_content(character)
        elif self._place is _Place.ARGUMENTS:
            self._take_argument(character)
        elif self._place is _Place.NAME:
            self._take_name(character)
        elif self._place is _Place.OVER:
            self._content(character)
        else:
            self._take_fixed(character)

    def _take_content(self, character: str) -> None:
        self._held += character
        if self._held == BEGIN:
            self._head, self._held, self._place = BEGIN, "", _Place.HEAD
            return
        # "<" stands at the beginning of the marker only, so that what is held never overlaps.
        while self._held and not BEGIN.startswith(self._held):
            self._content(self._held[0])
            self._held = self._held[1:]

    def _take_fixed(self, character: str) -> None:
        wanted, after = _FIXED[self._place]
        self._held += character
        if not wanted.startswith(self._held):
            self._break()
        elif self._held == wanted:
            if self._place is _Place.MIDDLE:
                self._deltas.append(CallStart(self.num_calls, self._name))
                self.num_calls += 1
                self._scan = _ObjectScan()
                self._head = self._held = ""
            self._head += self._held if after in _BEFORE_CALL else ""
            self._held, self._place = "", after

    def _take_name(self, character: str) -> None:
        if character in _NAME_CHARACTERS and len(self._held) < _MAX_NAME:
            self._held += character
        elif character == '"' and _NAME.fullmatch(self._held):
            self._name, self._head = self._held, self._head + self._held
            self._held, self._place = character, _Place.MIDDLE
        else:
            self._held += character
            self._break()

    def _take_argument(self, character: str) -> None:
        if not self._scan.take(character):
            self._held = character
            self._break()
            return
        last = self._deltas[-1] if self._deltas else None
        index = self.num_calls - 1
        if isinstance(last, ArgumentsDelta):
            self._deltas[-1] = ArgumentsDelta(index, last.text + character)
        else:
            self._deltas.append(ArgumentsDelta(index, character))
        if self._scan.is_over:
            self._place = _Place.TAIL

    def _break(self) -> None:
        self._content(self._head + self._held)
        self._head, self._held, self._place = "", "", _Place.OVER

    def _content(self, text: str) -> None:
        if not text:
            return
        last = self._deltas[-1] if self._deltas else None
        if isinstance(last, ContentDelta):
            self._deltas[-1] = ContentDelta(last.text + text)
        else:
            self._deltas.append(ContentDelta(text))


_FIXED: Final = {
    _Place.HEAD: (_HEAD, _Place.NAME),
    _Place.MIDDLE: (_MIDDLE, _Place.ARGUMENTS),
    _Place.TAIL: (_TAIL, _Place.NEXT),
    _Place.NEXT: (_NEXT, _Place.HEAD),
}

_BEFORE_CALL: Final = frozenset({_Place.HEAD, _Place.NAME, _Place.MIDDLE})
"""Places where what was held may still turn out to be content."""


class _ObjectScan:
    """Finds the end of a JSON object by its brackets, those in strings left out."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._is_escaped = False
        self.is_over = False

    def take(self, character: str) -> bool:
        """Take one character; return whether it can belong to an object."""
        if self._depth == 0:
            self._depth = 1
            return character == "{"
        if self._in_string:
            self._in_string = self._is_escaped or character != '"'
            self._is_escaped = not self._is_escaped and character == "\\"
        elif character == '"':
            self._in_string = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            self.is_over = self._depth == 0
        return True
