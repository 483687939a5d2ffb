"""What an answer says, independent of how it travelled.

Source: verifier/SPEC.md section 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from crypto.cbor import decode, encode
from crypto.errors import FormatError

MAX_ENTRIES: Final = 65_536
MAX_TRANSCRIPT_BYTES: Final = 32 << 20
MAX_INDEX: Final = 65_535

_ITEMS_PER_ENTRY: Final = 5
_FLOAT_BYTES: Final = 4
_FINISH_REASON: Final = re.compile(rb"[a-z_]{1,32}")


class Kind(IntEnum):
    """What a piece of an answer is."""

    CONTENT = 1
    REFUSAL = 2
    TOOL_NAME = 3
    TOOL_ARGUMENTS = 4
    EMBEDDING = 5
    FINISH = 6


_WITH_ITEM: Final = frozenset({Kind.TOOL_NAME, Kind.TOOL_ARGUMENTS})


@dataclass(frozen=True, slots=True)
class Entry:
    """One piece of an answer.

    kind: what it is. choice: index of the choice. item: index of the tool call, 0 elsewhere.
    data: UTF-8; of an embedding binary32, little-endian; of a finish reason ASCII.
    """

    kind: Kind
    choice: int
    item: int
    data: bytes

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Where it stands: by choice, then as in the specification's list."""
        if self.kind in _WITH_ITEM:
            return self.choice, Kind.TOOL_NAME, self.item, self.kind
        return self.choice, self.kind, 0, 0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool: its name, and its arguments as the model wrote them."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """All entries of an answer, in their order."""

    entries: tuple[Entry, ...]

    def encode(self) -> bytes:
        """Return the bytes that are committed to.

        Raises:
            ValueError: entries that `decode_transcript` would refuse; the message names the rule.
        """
        data = encode([[int(e.kind), e.choice, e.item, e.data] for e in self.entries])
        try:
            decode_transcript(data)
        except FormatError as error:
            raise ValueError(f"no such transcript can be written: {error.rule}") from None
        return data

    @property
    def finish_reasons(self) -> tuple[str, ...]:
        """Why each choice ended, in the order of choices."""
        return tuple(e.data.decode("ascii") for e in self.entries if e.kind is Kind.FINISH)


def answer_entries(
    *,
    choice: int = 0,
    content: str = "",
    refusal: str = "",
    tool_calls: Sequence[ToolCall] = (),
    finish_reason: str,
) -> list[Entry]:
    """Return the entries of one choice; empty texts have none.

    Args:
        choice: its index.
        content: text of the answer.
        refusal: text of a refusal.
        tool_calls: in the order of their index.
        finish_reason: why it ended.

    Raises:
        UnicodeEncodeError: text that is not Unicode.
    """
    pieces = [(Kind.CONTENT, 0, content), (Kind.REFUSAL, 0, refusal)]
    for item, call in enumerate(tool_calls):
        pieces.append((Kind.TOOL_NAME, item, call.name))
        pieces.append((Kind.TOOL_ARGUMENTS, item, call.arguments))
    entries = [
        Entry(kind, choice, item, text.encode("utf-8"))
        for kind, item, text in pieces
        if text or kind is Kind.TOOL_NAME
    ]
    entries.append(Entry(Kind.FINISH, choice, 0, finish_reason.encode("ascii")))
    return entries


def build(choices: Iterable[Sequence[Entry]]) -> Transcript:
    """Return the transcript of several choices, each as of `answer_entries`."""
    entries = [entry for choice in choices for entry in choice]
    return Transcript(tuple(sorted(entries, key=lambda entry: entry.place)))


def decode_transcript(unverified_data: bytes | bytearray | memoryview) -> Transcript:
    """Return the transcript that the bytes encode.

    Raises:
        FormatError: a rule of the CBOR subset, of objects or of transcripts (crypto/README.md).
            The offset is that of the entry, of the array for rules that concern the whole.
    """
    value = decode(
        unverified_data,
        max_depth=2,
        max_items=1 + _ITEMS_PER_ENTRY * MAX_ENTRIES,
        max_bytes=MAX_TRANSCRIPT_BYTES,
    )
    if not isinstance(value, list):
        raise FormatError(0, "value-type")
    if len(value) > MAX_ENTRIES:
        raise FormatError(0, "value-range")
    entries: list[Entry] = []
    for index, element in enumerate(value):
        try:
            entries.append(_read_entry(element))
            if index and entries[-1].place <= entries[-2].place:
                raise FormatError(0, "transcript-order")
        except FormatError as error:
            head = len(encode([0] * len(value))) - len(value)
            before = sum(len(encode(earlier)) for earlier in value[:index])
            raise FormatError(head + before, error.rule) from None
    _check_whole(entries)
    return Transcript(tuple(entries))


def _read_entry(element: object) -> Entry:
    """Return one entry, whose numbers and bytes are in their ranges."""
    match element:
        case [int(kind), int(choice), int(item), bytes(data)]:
            pass
        case _:
            raise FormatError(0, "value-type")
    if any(isinstance(number, bool) for number in (kind, choice, item)):
        raise FormatError(0, "value-type")
    if not Kind.CONTENT <= kind <= Kind.FINISH:
        raise FormatError(0, "transcript-kind")
    if not (0 <= choice <= MAX_INDEX and 0 <= item <= MAX_INDEX):
        raise FormatError(0, "value-range")
    entry = Entry(Kind(kind), choice, item, data)
    if item and entry.kind not in _WITH_ITEM:
        raise FormatError(0, "transcript-item")
    _check_data(entry)
    return entry


def _check_data(entry: Entry) -> None:
    """Refuse bytes that an entry of this kind cannot have."""
    if not entry.data and entry.kind is not Kind.TOOL_NAME:
        raise FormatError(0, "transcript-empty")
    if entry.kind is Kind.FINISH:
        if _FINISH_REASON.fullmatch(entry.data) is None:
            raise FormatError(0, "transcript-text")
    elif entry.kind is Kind.EMBEDDING:
        if len(entry.data) % _FLOAT_BYTES:
            raise FormatError(0, "transcript-embedding")
    else:
        try:
            entry.data.decode("utf-8")
        except UnicodeDecodeError:
            raise FormatError(0, "transcript-text") from None


def _check_whole(entries: Sequence[Entry]) -> None:
    """Refuse a choice without a finish reason at its end, and arguments without a name."""
    last = {entry.choice: entry.kind for entry in entries}
    if any(kind is not Kind.FINISH for kind in last.values()):
        raise FormatError(0, "transcript-finish")
    named = {(e.choice, e.item) for e in entries if e.kind is Kind.TOOL_NAME}
    called = {(e.choice, e.item) for e in entries if e.kind is Kind.TOOL_ARGUMENTS}
    if not called <= named:
        raise FormatError(0, "transcript-name")
