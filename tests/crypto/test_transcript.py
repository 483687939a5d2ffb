from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.cbor import encode
from crypto.errors import FormatError
from crypto.transcript import (
    MAX_ENTRIES,
    Entry,
    Kind,
    ToolCall,
    Transcript,
    answer_entries,
    build,
    decode_transcript,
)


def test_valid_vectors(load_vectors):
    for vector in load_vectors("transcript.json")["valid"]:
        entries = tuple(
            Entry(Kind(kind), choice, item, bytes.fromhex(data))
            for kind, choice, item, data in vector["entries"]
        )
        data = bytes.fromhex(vector["data"])
        assert decode_transcript(data) == Transcript(entries), vector["id"]
        assert Transcript(entries).encode() == data, vector["id"]


def test_invalid_vectors(load_vectors):
    vectors = load_vectors("transcript.json")["invalid"]
    for vector in vectors:
        with pytest.raises(FormatError) as caught:
            decode_transcript(bytes.fromhex(vector["data"]))
        found = (caught.value.rule, caught.value.offset)
        assert found == (vector["rule"], vector["offset"]), vector["id"]
    from tests.crypto.test_crypto_readme import table_after

    assert {row[0] for row in table_after("transcript rule")} <= {v["rule"] for v in vectors}


def test_the_number_of_entries_is_bounded():
    for count, rule in ((MAX_ENTRIES, "value-type"), (MAX_ENTRIES + 1, "value-range")):
        with pytest.raises(FormatError) as caught:
            decode_transcript(encode([0] * count))
        assert caught.value.rule == rule


def test_an_answer_has_the_order_of_the_specification():
    first = answer_entries(
        content="Blau.",
        refusal="no",
        tool_calls=[ToolCall("f", ""), ToolCall("g", "{}")],
        finish_reason="tool_calls",
    )
    second = answer_entries(choice=1, finish_reason="length")
    transcript = build([second, first])
    assert [(e.kind, e.choice, e.item, e.data) for e in transcript.entries] == [
        (1, 0, 0, b"Blau."),
        (2, 0, 0, b"no"),
        (3, 0, 0, b"f"),
        (3, 0, 1, b"g"),
        (4, 0, 1, b"{}"),
        (6, 0, 0, b"tool_calls"),
        (6, 1, 0, b"length"),
    ]
    assert transcript.finish_reasons == ("tool_calls", "length")
    assert decode_transcript(transcript.encode()) == transcript
    assert Transcript(()).encode() == b"\x80"


def test_text_that_is_no_unicode_is_refused():
    with pytest.raises(UnicodeEncodeError):
        answer_entries(content="\ud800", finish_reason="stop")
    with pytest.raises(ValueError, match="transcript-finish"):
        Transcript((Entry(Kind.CONTENT, 0, 0, b"a"),)).encode()


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
answers = st.lists(
    st.tuples(texts, texts, st.lists(st.builds(ToolCall, texts, texts), max_size=3)), max_size=3
)


@settings(deadline=None, max_examples=60)
@given(answers)
def test_round_trip(answers):
    transcript = build(
        answer_entries(
            choice=choice, content=content, refusal=refusal, tool_calls=calls, finish_reason="stop"
        )
        for choice, (content, refusal, calls) in enumerate(answers)
    )
    data = transcript.encode()
    assert decode_transcript(data) == transcript
    assert decode_transcript(data).encode() == data
    assert len(transcript.finish_reasons) == len(answers)
