"""The text of an answer taken apart: content, calls of tools, and why it ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from crypto.transcript import ToolCall
from engine.grammar.spec import GrammarSpec, ToolCalls
from engine.text.tool_calls import (
    ArgumentsDelta,
    CallStart,
    ContentDelta,
    Delta,
    ToolCallParser,
)

STOP: Final = "stop"
TOOL_CALLS: Final = "tool_calls"


@dataclass(frozen=True, slots=True)
class Parts:
    """What an answer says. content: its text without calls. calls: by their index."""

    content: str
    calls: tuple[ToolCall, ...]


def parts_of(text: str, grammar: GrammarSpec | None) -> Parts:
    """Return the parts of a whole text; without tools in the request all of it is content."""
    if not isinstance(grammar, ToolCalls):
        return Parts(text, ())
    parser = ToolCallParser()
    return joined([*parser.push(text), *parser.finish()])


def joined(deltas: Iterable[Delta]) -> Parts:
    """Return the parts that events bring, such as those that were handed out."""
    content: list[str] = []
    names: list[str] = []
    arguments: list[list[str]] = []
    for delta in deltas:
        match delta:
            case ContentDelta(text):
                content.append(text)
            case CallStart(_, name):
                names.append(name)
                arguments.append([])
            case ArgumentsDelta(index, text):
                arguments[index].append(text)
    calls = zip(names, arguments, strict=True)
    return Parts("".join(content), tuple(ToolCall(name, "".join(texts)) for name, texts in calls))


def finish_reason(reason: str, parts: Parts) -> str:
    """Return why an answer ended as the interface says it: `stop` with calls is `tool_calls`."""
    return TOOL_CALLS if reason == STOP and parts.calls else reason
