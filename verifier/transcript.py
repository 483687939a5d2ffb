"""What an answer says: transcripts, and saved responses reduced to them (SPEC.md section 3)."""

from __future__ import annotations

import re
import struct
from binascii import a2b_base64, b2a_base64

from verifier import cbor
from verifier.errors import MalformedError
from verifier.json_text import parse

CONTENT, REFUSAL, NAME, ARGUMENTS, EMBEDDING, FINISH = range(1, 7)
MAX_ENTRIES = 65_536
MAX_INDEX = 65_535
MAX_BYTES = 64 << 20

Place = tuple[int, int, int, int]  # choice, group of the kind, item, kind: in the order of entries
Entries = dict[Place, bytes]
Object = dict[str, object]


def _place(choice: int, kind: int, item: int = 0) -> Place:
    return choice, NAME if kind == ARGUMENTS else kind, item, kind


def decode(data: bytes) -> Entries:
    """Read a transcript (MalformedError)."""
    value = cbor.decode(data, max_bytes=MAX_BYTES, max_items=1 + 5 * MAX_ENTRIES)
    entries: Entries = {}
    before = None
    for entry in _array(value):
        kind, choice, item, content = (
            entry if isinstance(entry, list) and len(entry) == 4 else [0] * 4
        )
        numbers = [number for number in (choice, kind, item) if type(number) is int]
        if len(numbers) != 3 or not isinstance(content, bytes):
            raise MalformedError("transcript")
        place = _place(*numbers)
        if before is not None and place <= before:
            raise MalformedError("transcript")
        entries[place] = content
        before = place
    return _checked(entries)


def finish_reasons(entries: Entries) -> list[bytes]:
    """Return the finish reasons of all choices."""
    return [content for place, content in entries.items() if place[3] == FINISH]


def encode(entries: Entries) -> bytes:
    """Return the transcript's bytes."""
    parts = [cbor.head(4, len(entries))]
    for place in sorted(entries):
        choice, _, item, kind = place
        content = entries[place]
        heads = (cbor.head(0, kind), cbor.head(0, choice), cbor.head(0, item))
        parts += [b"\x84", *heads, cbor.head(2, len(content)), content]
    return b"".join(parts)


def reduce(response: bytes, *, partial: bool = False) -> Entries:
    """Reduce a saved response; a stream may lack its end if partial (MalformedError)."""
    if 0x80 <= (response[0] if response else 0) <= 0x9B:
        return decode(response)
    reduction = _Reduction()
    if response.lstrip(b" \t\r\n").startswith(b"{"):
        reduction.add_body(parse(response))
        partial = False
    elif not reduction.add_stream(response) and not partial:
        raise MalformedError("response-done")
    entries = {place: b"".join(pieces) for place, pieces in reduction.pieces.items()}
    return entries if partial else _checked(entries)


def is_prefix(received: Entries, whole: Entries) -> bool:
    """Return whether each entry that was received begins the one of the same place."""
    return all(
        place in whole
        and (content == whole[place] if place[3] == FINISH else whole[place].startswith(content))
        for place, content in received.items()
    )


def _checked(entries: Entries) -> Entries:
    """Return entries of any order if they make a transcript (MalformedError)."""
    good = len(entries) <= MAX_ENTRIES
    for (choice, group, item, kind), content in entries.items():
        good = good and 0 <= choice <= MAX_INDEX and 0 <= item <= MAX_INDEX
        good = good and _place(choice, FINISH) in entries and (item == 0 or group == NAME)
        if kind == FINISH:
            good = good and re.fullmatch(rb"[a-z_]{1,32}", content) is not None
        elif kind == EMBEDDING:
            good = good and len(content) > 0 and len(content) % 4 == 0
        else:
            good = good and CONTENT <= kind <= ARGUMENTS and (kind == NAME or content != b"")
            good = good and (kind != ARGUMENTS or _place(choice, NAME, item) in entries)
            good = good and content.decode("utf-8", "replace").encode("utf-8") == content
    if not good:
        raise MalformedError("transcript")
    return entries


def _object(value: object) -> Object:
    if not isinstance(value, dict):
        raise MalformedError("response-object")
    return value


def _array(value: object) -> list[object]:
    if not isinstance(value, list):
        raise MalformedError("response-array")
    return value


def _text(value: object) -> bytes:
    """Return the UTF-8 of a string; what is absent or null is empty."""
    if not isinstance(value, str | None):
        raise MalformedError("response-text")
    try:
        return (value or "").encode("utf-8")
    except UnicodeEncodeError:
        raise MalformedError("response-surrogate") from None


def _index(value: object) -> int:
    if not isinstance(value, float) or not value.is_integer() or not 0 <= value <= MAX_INDEX:
        raise MalformedError("response-index")
    return int(value)


class _Reduction:
    """The pieces of each place, in the order of their arrival."""

    def __init__(self) -> None:
        self.pieces: dict[Place, list[bytes]] = {}

    def add(self, place: Place, content: bytes) -> None:
        if content or place[3] == NAME:
            self.pieces.setdefault(place, []).append(content)

    def add_body(self, body: Object) -> None:
        """Add the body of an unstreamed response."""
        seen = set()
        for part in map(
            _object, _array(body["choices"] if "choices" in body else body.get("data"))
        ):
            choice = _index(part.get("index", 0.0))
            if choice in seen:
                raise MalformedError("response-index")
            seen.add(choice)
            if "choices" in body:
                self._add_choice(choice, part, "message")
            else:
                self.add(_place(choice, EMBEDDING), _embedding(part.get("embedding")))
                self.add(_place(choice, FINISH), b"stop")

    def add_stream(self, stream: bytes) -> bool:
        """Add the events of a stream and return whether it was ended by [DONE]."""
        data: list[bytes] = []
        at = 0
        while (end := stream.find(b"\n", at)) >= 0:
            line = stream[at:end].removesuffix(b"\r")
            at = end + 1
            if line.startswith(b"data:"):
                data.append(line[6 if line[5:6] == b" " else 5 :])
            elif not line and data:
                event = b"\n".join(data)
                data = []
                if event == b"[DONE]":
                    return True
                for part in map(_object, _array(parse(event).get("choices", []))):
                    self._add_choice(_index(part.get("index", 0.0)), part, "delta")
        return False

    def _add_choice(self, choice: int, part: Object, holder: str) -> None:
        message = _object(part.get(holder, {"content": part.get("text")}))
        self.add(_place(choice, CONTENT), _text(message.get("content")))
        self.add(_place(choice, REFUSAL), _text(message.get("refusal")))
        calls = message.get("tool_calls")
        for number, call in enumerate(map(_object, _array([] if calls is None else calls))):
            streamed = holder == "delta"
            item = _index(call.get("index") if streamed else float(number))
            function = _object(call.get("function", {} if streamed else None))
            if not streamed and function.get("name") is None:
                raise MalformedError("response-name")
            self.add(_place(choice, NAME, item), _text(function.get("name")))
            self.add(_place(choice, ARGUMENTS, item), _text(function.get("arguments")))
        if part.get("finish_reason") is not None:
            if _place(choice, FINISH) in self.pieces:
                raise MalformedError("response-finish")
            self.pieces[_place(choice, FINISH)] = [_text(part["finish_reason"])]


def _embedding(value: object) -> bytes:
    try:
        if isinstance(value, str):
            content = a2b_base64(value.encode("ascii"), strict_mode=True)
            if b2a_base64(content, newline=False) == value.encode("ascii"):
                return content
            raise MalformedError("response-embedding")
        numbers = _array(value)
        if not all(isinstance(number, float) and abs(number) < float("inf") for number in numbers):
            raise MalformedError("response-embedding")
        return struct.pack(f"<{len(numbers)}f", *numbers)
    except (ValueError, OverflowError):
        raise MalformedError("response-embedding") from None
