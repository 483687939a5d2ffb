"""Answers against the client library's own types, and against what a verifier makes of them."""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types import Completion, CreateEmbeddingResponse
from openai.types import Model as OpenAIModel
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel

from appliance.api import answers
from appliance.api.answered import finish_reason, joined, parts_of
from appliance.api.answers import FunctionCall, Head, Usage, to_json
from appliance.api.logprobs import TextOffsets, TokenLogprob
from crypto.transcript import ToolCall, answer_entries, build
from engine.grammar.spec import JsonObject, Tool, ToolCalls, ToolChoice
from engine.text.tool_calls import ArgumentsDelta, CallStart, ContentDelta, ToolCallParser
from verifier.responses import reduce
from verifier.transcript import decode

CHAT = Head("chatcmpl-1", 1_764_460_800, "tiny")
TEXT = Head("cmpl-1", 1_764_460_800, "tiny")
USAGE = Usage(prompt_tokens=12, completion_tokens=3, cached_tokens=8)
ATTESTATION = {"id": "a", "log_id": "00", "sequence": 1, "url": "/v1/attestations/a"}
LOGPROBS = (
    TokenLogprob(b"ab", -0.25, ((b"ab", -0.25), (b"\xe4\xbd", -1.5))),
    TokenLogprob(b"\xe4\xbd", -math.inf, ()),
    TokenLogprob(b"\xa0c", -2.0, ((b"\xff", -3.0), (b"\xfe", -4.0))),
)
CALLS = (FunctionCall("call_0a", "f", '{"a": 1.50}'), FunctionCall("call_0b", "g", "{}"))
SPEC = ToolCalls(
    tools=(Tool(name="f", description=None, parameters="{}"),),
    choice=ToolChoice.AUTO,
    parallel=True,
)


def strictly(kind: type[BaseModel], value: dict[str, Any], extra: set[str]) -> BaseModel:
    """Validate, and find nothing unknown but at the top, and every field that is not optional."""
    read = kind.model_validate(json.loads(to_json(value)), strict=True)
    assert set(read.model_extra or ()) == extra

    def walk(model: BaseModel, *, is_top: bool = False) -> None:
        assert is_top or not model.model_extra, model
        for name in model.model_fields_set:
            inner = getattr(model, name)
            for part in inner if isinstance(inner, list) else [inner]:
                if isinstance(part, BaseModel):
                    walk(part)

    walk(read, is_top=True)
    return read


def chat_stream(
    text: str, calls: tuple[FunctionCall, ...], reason: str, cut: int = 3
) -> list[dict[str, Any]]:
    """Return all chunks of an answer in small pieces."""
    chunks = [answers.first_chunk(CHAT)]
    chunks += [answers.content_chunk(CHAT, text[at : at + cut]) for at in range(0, len(text), cut)]
    for index, call in enumerate(calls):
        chunks.append(answers.call_chunk(CHAT, index, call.id, call.name))
        pieces = [call.arguments[at : at + cut] for at in range(0, len(call.arguments), cut)]
        chunks += [answers.arguments_chunk(CHAT, index, piece) for piece in pieces]
    chunks.append(answers.last_chunk(CHAT, finish_reason=reason, attestation=ATTESTATION))
    return [*chunks, answers.usage_chunk(CHAT, USAGE)]


def events(chunks: list[dict[str, Any]]) -> bytes:
    return b"".join(b"data: " + to_json(c) + b"\n\n" for c in chunks) + b"data: [DONE]\n\n"


def test_an_answer_in_one_piece():
    value = answers.chat_completion(
        CHAT,
        content="héllo",
        finish_reason="stop",
        logprobs=LOGPROBS,
        usage=USAGE,
        attestation=ATTESTATION,
    )
    read = strictly(ChatCompletion, value, {"attestation"})
    assert read.id == "chatcmpl-1"
    assert read.object == "chat.completion"
    (choice,) = read.choices
    assert choice.message.content == "héllo"
    assert choice.message.refusal is None
    assert choice.message.tool_calls is None
    assert "tool_calls" not in value["choices"][0]["message"]
    assert read.usage.total_tokens == 15
    assert read.usage.prompt_tokens_details.cached_tokens == 8
    first, second, third = choice.logprobs.content
    assert (first.token, first.bytes, first.logprob) == ("ab", [97, 98], -0.25)
    assert [top.token for top in first.top_logprobs] == ["ab", "\ufffd"]
    assert (second.token, second.bytes, second.logprob) == ("\ufffd", [0xE4, 0xBD], -9999.0)
    assert (third.token, third.bytes) == ("\ufffdc", [0xA0, 0x63])


@pytest.mark.parametrize(("content", "shown"), [("", None), ("first", "first")])
def test_an_answer_with_calls(content: str, shown: str | None):
    value = answers.chat_completion(
        CHAT,
        content=content,
        calls=CALLS,
        finish_reason="tool_calls",
        usage=USAGE,
        attestation=ATTESTATION,
    )
    read = strictly(ChatCompletion, value, {"attestation"})
    message = read.choices[0].message
    assert message.content == shown
    assert "content" in value["choices"][0]["message"]
    assert [(c.id, c.type, c.function.name, c.function.arguments) for c in message.tool_calls] == [
        ("call_0a", "function", "f", '{"a": 1.50}'),
        ("call_0b", "function", "g", "{}"),
    ]
    assert read.choices[0].logprobs is None


def test_an_empty_answer_is_an_empty_text():
    value = answers.chat_completion(
        CHAT, content="", finish_reason="stop", usage=USAGE, attestation=ATTESTATION
    )
    assert value["choices"][0]["message"]["content"] == ""


def test_a_stream():
    chunks = chat_stream("one two", CALLS, "tool_calls")
    read = [
        strictly(ChatCompletionChunk, chunk, {"attestation"} if chunk is chunks[-2] else set())
        for chunk in chunks
    ]
    assert {(c.id, c.created, c.model, c.object) for c in read} == {
        ("chatcmpl-1", 1_764_460_800, "tiny", "chat.completion.chunk")
    }
    assert read[0].choices[0].delta.role == "assistant"
    assert read[0].choices[0].delta.content == ""
    assert all(c.choices[0].delta.role is None for c in read[1:-1])
    assert [c.choices[0].finish_reason for c in read[:-1]] == [None] * (len(read) - 2) + [
        "tool_calls"
    ]
    assert chunks[-2]["choices"][0]["delta"] == {}
    assert read[-1].choices == []
    assert read[-1].usage.total_tokens == 15
    assert all(c.usage is None for c in read[:-1])
    calls = [c for r in read[:-1] for c in r.choices[0].delta.tool_calls or ()]
    assert all(call.index in (0, 1) for call in calls)
    for index, whole in enumerate(CALLS):
        own = [call for call in calls if call.index == index]
        assert [(c.id, c.type, c.function.name) for c in own if c.id or c.function.name] == [
            (whole.id, "function", whole.name)
        ]
        assert "".join(c.function.arguments for c in own) == whole.arguments


def test_continued_texts():
    value = answers.text_completion(
        TEXT,
        text="ab你c",
        finish_reason="length",
        logprobs=LOGPROBS,
        usage=USAGE,
        attestation=ATTESTATION,
    )
    read = strictly(Completion, value, {"attestation"})
    (choice,) = read.choices
    assert (choice.text, choice.finish_reason, choice.index) == ("ab你c", "length", 0)
    assert choice.logprobs.tokens == ["ab", "bytes:\\xe4\\xbd", "bytes:\\xa0\\x63"]
    assert choice.logprobs.token_logprobs == [-0.25, -9999.0, -2.0]
    assert choice.logprobs.text_offset == [0, 2, 2]
    assert choice.logprobs.top_logprobs[2] == {"bytes:\\xff": -3.0, "bytes:\\xfe": -4.0}


def test_continued_texts_in_pieces():
    offsets = TextOffsets()
    chunks = [
        answers.text_chunk(TEXT, "ab", offsets, logprobs=LOGPROBS[:1]),
        answers.text_chunk(TEXT, "你c", offsets, logprobs=LOGPROBS[1:]),
        answers.last_text_chunk(TEXT, offsets, finish_reason="stop", attestation=ATTESTATION),
        answers.text_usage_chunk(TEXT, USAGE),
    ]
    whole = answers.text_completion(
        TEXT,
        text="ab你c",
        finish_reason="stop",
        logprobs=LOGPROBS,
        usage=USAGE,
        attestation=ATTESTATION,
    )
    found = [chunk["choices"][0]["logprobs"] for chunk in chunks[:2]]
    for name, wanted in whole["choices"][0]["logprobs"].items():
        assert [value for part in found for value in part[name]] == wanted
    assert reduce(events(chunks)) == reduce(to_json(whole))
    # the library's type insists on a finish reason, which its own server leaves open in chunks
    strictly(Completion, chunks[2], {"attestation"})
    strictly(Completion, chunks[3], set())


@pytest.mark.parametrize("as_base64", [False, True])
def test_embeddings(as_base64: bool):
    vectors = [np.array([0.1, -0.0, 1e-40], np.float32), np.array([3.0, 1 / 3, 2.0], np.float32)]
    value = answers.embeddings(
        "tiny", vectors, as_base64=as_base64, prompt_tokens=9, attestation=ATTESTATION
    )
    sent = json.loads(to_json(value))
    for part, vector in zip(sent["data"], vectors, strict=True):
        data = (
            base64.b64decode(part["embedding"])
            if as_base64
            else struct.pack("<3f", *part["embedding"])
        )
        assert data == vector.tobytes()
    assert [part["index"] for part in sent["data"]] == [0, 1]
    assert sent["usage"] == {"prompt_tokens": 9, "total_tokens": 9}
    if not as_base64:
        strictly(CreateEmbeddingResponse, value, {"attestation"})
    entries = reduce(to_json(value))
    assert b"".join(entries.values()) == vectors[0].tobytes() + b"stop" + (
        vectors[1].tobytes() + b"stop"
    )


def test_models():
    one = answers.model_object(
        "tiny", created=5, owned_by="x", model_digest=bytes(32), context_length_tokens=512
    )
    strictly(OpenAIModel, one, {"model_digest", "context_length"})
    assert answers.models([one]) == {"object": "list", "data": [one]}


def test_what_json_has_not_is_not_written():
    with pytest.raises(ValueError, match="JSON"):
        to_json({"a": math.nan})
    with pytest.raises(ValueError, match="surrogates"):
        to_json({"a": "\ud800"})


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
names = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
arguments = st.dictionaries(texts, texts | st.integers(), max_size=3).map(json.dumps)
some_calls = st.lists(st.tuples(names, arguments), max_size=3)


@settings(deadline=None, max_examples=100)
@given(texts, some_calls, st.sampled_from(["stop", "length", "tool_calls"]), st.integers(1, 9))
def test_both_forms_are_reduced_to_the_transcript(content, calls, reason, cut):
    numbered = tuple(FunctionCall(f"call_{n}", *call) for n, call in enumerate(calls))
    entries = answer_entries(
        content=content, tool_calls=[ToolCall(*call) for call in calls], finish_reason=reason
    )
    wanted = decode(build([entries]).encode())
    whole = answers.chat_completion(
        CHAT,
        content=content,
        calls=numbered,
        finish_reason=reason,
        usage=USAGE,
        attestation=ATTESTATION,
    )
    assert reduce(to_json(whole)) == wanted
    assert reduce(events(chat_stream(content, numbered, reason, cut))) == wanted


@settings(deadline=None, max_examples=100)
@given(texts.filter(lambda text: "<" not in text), some_calls, st.integers(1, 9))
def test_the_text_of_an_answer_is_taken_apart_however_it_is_cut(content, calls, cut):
    blocks = [
        f'<tool_call>\n{{"name": "{name}", "arguments": {text}}}\n</tool_call>'
        for name, text in calls
    ]
    text = content + "\n".join(blocks)
    parts = parts_of(text, SPEC)
    assert parts.content == content
    assert parts.calls == tuple(ToolCall(*call) for call in calls)
    assert finish_reason("stop", parts) == ("tool_calls" if calls else "stop")
    assert finish_reason("length", parts) == "length"
    parser = ToolCallParser()
    deltas = [d for at in range(0, len(text), cut) for d in parser.push(text[at : at + cut])]
    assert joined([*deltas, *parser.finish()]) == parts
    for grammar in (None, JsonObject()):
        assert parts_of(text, grammar).content == text
        assert parts_of(text, grammar).calls == ()


def test_events_become_parts():
    parts = joined(
        [
            ContentDelta("a"),
            ContentDelta("b"),
            CallStart(0, "f"),
            ArgumentsDelta(0, "{"),
            CallStart(1, "g"),
            ArgumentsDelta(1, "{}"),
            ArgumentsDelta(0, "}"),
        ]
    )
    assert (parts.content, parts.calls) == ("ab", (ToolCall("f", "{}"), ToolCall("g", "{}")))
