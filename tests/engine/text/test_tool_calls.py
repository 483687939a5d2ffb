"""The parser of tool calls: the same events however the text is cut, and no text lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.tool_calls import ArgumentsDelta, CallStart, ContentDelta, Delta, ToolCallParser

ARGUMENTS = '{"a": "}\\"{</tool_call>\\\\", "b": [{}, {"c": 1}]}'
CALL = f'<tool_call>\n{{"name": "get_w-1", "arguments": {ARGUMENTS}}}\n</tool_call>'
EMPTY = '<tool_call>\n{"name": "x", "arguments": {}}\n</tool_call>'


def parsed(*pieces: str) -> list[Delta]:
    """Return the events of a text, neighbours of one kind and index joined."""
    parser, joined = ToolCallParser(), list[Delta]()
    deltas = [delta for piece in pieces for delta in parser.push(piece)] + parser.finish()
    for delta in deltas:
        last = joined[-1] if joined else None
        if isinstance(delta, ContentDelta) and isinstance(last, ContentDelta):
            joined[-1] = ContentDelta(last.text + delta.text)
        elif (
            isinstance(delta, ArgumentsDelta)
            and isinstance(last, ArgumentsDelta)
            and delta.index == last.index
        ):
            joined[-1] = ArgumentsDelta(last.index, last.text + delta.text)
        else:
            joined.append(delta)
    return joined


CASES: dict[str, list[Delta]] = {
    "": [],
    "plain <b> text": [ContentDelta("plain <b> text")],
    "held <tool_call": [ContentDelta("held <tool_call")],
    "<<tool_<tool_cal <": [ContentDelta("<<tool_<tool_cal <")],
    CALL: [CallStart(0, "get_w-1"), ArgumentsDelta(0, ARGUMENTS)],
    "Hm.\n" + CALL: [ContentDelta("Hm.\n"), CallStart(0, "get_w-1"), ArgumentsDelta(0, ARGUMENTS)],
    "<" + EMPTY: [ContentDelta("<"), CallStart(0, "x"), ArgumentsDelta(0, "{}")],
    CALL + "\n" + EMPTY: [
        CallStart(0, "get_w-1"),
        ArgumentsDelta(0, ARGUMENTS),
        CallStart(1, "x"),
        ArgumentsDelta(1, "{}"),
    ],
    '<tool_call>\n{"name": "x", "arguments": {"a': [CallStart(0, "x"), ArgumentsDelta(0, '{"a')],
    '<tool_call>\n{"name": "x", "argu': [],
    '<tool_call>\n{"name": "x': [],
    EMPTY[:-3]: [CallStart(0, "x"), ArgumentsDelta(0, "{}")],
    EMPTY + "\n<tool": [CallStart(0, "x"), ArgumentsDelta(0, "{}")],
    EMPTY + " more": [CallStart(0, "x"), ArgumentsDelta(0, "{}"), ContentDelta(" more")],
    "<tool_call>{": [ContentDelta("<tool_call>{")],
    'a<tool_call>\n{"name": "!"': [ContentDelta('a<tool_call>\n{"name": "!"')],
    '<tool_call>\n{"name": "x", "arguments": 1': [CallStart(0, "x"), ContentDelta("1")],
}


@pytest.mark.parametrize("text", CASES)
def test_a_text_gives_its_events_wherever_it_is_cut(text: str) -> None:
    assert parsed(text) == CASES[text]
    assert parsed(*text) == CASES[text]
    for cut in range(len(text)):
        assert parsed(text[:cut], text[cut:]) == CASES[text]


def test_content_is_not_held_longer_than_needed() -> None:
    parser = ToolCallParser()
    assert parser.push("a<tool") == [ContentDelta("a")]
    assert parser.push("s") == [ContentDelta("<tools")]
    assert parser.push('<tool_call>\n{"name": "x", "arguments": ') == [CallStart(0, "x")]
    assert parser.push('{"a"') == [ArgumentsDelta(0, '{"a"')]
    assert parser.num_calls == 1


def test_nothing_comes_after_the_end() -> None:
    parser = ToolCallParser()
    parser.push("<tool")
    assert parser.finish() == [ContentDelta("<tool")]
    assert parser.finish() == []


pieces = st.sampled_from(
    [CALL, EMPTY, "<tool_call>", "\n", "{", "}", '"', "\\", "a", "<", '\n{"name": "x']
)


@settings(deadline=None, max_examples=200)
@given(parts=st.lists(pieces, max_size=6), cuts=st.lists(st.integers(0, 400), max_size=8))
def test_cuts_never_matter(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    assert parsed(*(text[a:b] for a, b in pairwise(places))) == parsed(text)
