"""Saved responses, JSON bodies or SSE streams, reduced to transcripts (SPEC.md section 3)."""

from __future__ import annotations

import struct
from binascii import a2b_base64, b2a_base64

from verifier import transcript
from verifier.errors import Any, MalformedError, require
from verifier.json_text import parse
from verifier.transcript import ARGUMENTS, EMBEDDING, FINISH, MAX_INDEX, NAME, Entries, Place, place

Object = dict[str, Any]


def reduce(response: bytes, partial: bool = False) -> Entries:
    """Reduce a saved response; a stream may lack its end if partial (MalformedError)."""
    if 0x80 <= (response[0] if response else 0) <= 0x9B:
        return transcript.decode(response)
    reduction = _Reduction()
    if response.lstrip(b" \t\r\n").startswith(b"{"):
        reduction.add_body(parse(response))
        partial = False
    else:
        require(reduction.add_stream(response) or partial, "response-done")
    entries = {here: b"".join(pieces) for here, pieces in reduction.pieces.items()}
    return entries if partial else transcript.checked(entries)


class _Reduction:
    """The pieces of each place, in the order of their arrival."""

    def __init__(self) -> None:
        self.pieces: dict[Place, list[bytes]] = {}

    def add(self, here: Place, content: bytes) -> None:
        if content or here[3] == NAME:
            self.pieces.setdefault(here, []).append(content)

    def add_body(self, body: Object) -> None:
        """Add the body of an unstreamed response."""
        seen = set()
        for part in _objects(body["choices"] if "choices" in body else body.get("data")):
            choice = _index(part.get("index", 0.0))
            require(choice not in seen, "response-index")
            seen.add(choice)
            if "choices" in body:
                self._add_choice(choice, part, "message")
            else:
                self.add(place(choice, EMBEDDING), _embedding(part.get("embedding")))
                self.add(place(choice, FINISH), b"stop")

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
                for part in _objects(parse(event).get("choices", [])):
                    self._add_choice(_index(part.get("index", 0.0)), part, "delta")
        return False

    def _add_choice(self, choice: int, part: Object, holder: str) -> None:
        message = _object(part.get(holder, {"content": part.get("text")}))
        self.add(place(choice, transcript.CONTENT), _text(message.get("content")))
        self.add(place(choice, transcript.REFUSAL), _text(message.get("refusal")))
        streamed = holder == "delta"
        calls = message.get("tool_calls")
        for number, call in enumerate(_objects([] if calls is None else calls)):
            item = _index(call.get("index") if streamed else float(number))
            function = _object(call.get("function", {} if streamed else None))
            require(streamed or function.get("name") is not None, "response-name")
            self.add(place(choice, NAME, item), _text(function.get("name")))
            self.add(place(choice, ARGUMENTS, item), _text(function.get("arguments")))
        if part.get("finish_reason") is not None:
            require(place(choice, FINISH) not in self.pieces, "response-finish")
            self.pieces[place(choice, FINISH)] = [_text(part["finish_reason"])]


def _object(value: Any) -> Any:
    require(isinstance(value, dict), "response-object")
    return value


def _objects(value: Any) -> list[Object]:
    require(isinstance(value, list), "response-array")
    return [_object(part) for part in value]


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


def _embedding(value: Any) -> bytes:
    try:
        if isinstance(value, str):
            content = a2b_base64(value.encode("ascii"), strict_mode=True)
            require(
                b2a_base64(content, newline=False) == value.encode("ascii"), "response-embedding"
            )
            return content
        require(isinstance(value, list), "response-array")
        finite = all(isinstance(part, float) and abs(part) < float("inf") for part in value)
        require(finite, "response-embedding")
        return struct.pack(f"<{len(value)}f", *value)
    except (ValueError, OverflowError):
        raise MalformedError("response-embedding") from None
