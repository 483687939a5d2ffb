"""Calls of tools on the wire: their shape, several in one answer, and every way to choose."""

from __future__ import annotations

import json

import openai
import pytest
from langchain_openai import ChatOpenAI

from tests.appliance.service.live import QUESTION


def tool(name, values):
    schema = {
        "type": "object",
        "properties": {"value": {"enum": values}},
        "required": ["value"],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [tool("first", ["é", 1]), tool("second", [2, 3])]
VALUES = {"first": ["é", 1], "second": [2, 3]}


def ask(client, **options):
    given = {"model": "model", "messages": QUESTION, "max_tokens": 300, "tools": TOOLS} | options
    return client.chat.completions.create(**given)


@pytest.fixture(scope="module")
def two_calls(live):
    """Return the seed of an answer with two calls, and that answer."""
    with live.client() as client:
        for seed in range(40):
            answer = ask(client, tool_choice="required", seed=seed)
            if len(answer.choices[0].message.tool_calls) == 2:
                return seed, answer
    pytest.fail("no answer has two calls")


def test_two_calls_in_one_answer(two_calls):
    (choice,) = two_calls[1].choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert len({call.id for call in choice.message.tool_calls}) == 2
    for call in choice.message.tool_calls:
        assert call.type == "function"
        assert json.loads(call.function.arguments)["value"] in VALUES[call.function.name]


def test_two_calls_in_a_stream_have_an_index_in_every_delta_and_id_and_name_once(client, two_calls):
    seed, whole = two_calls
    chunks = list(ask(client, tool_choice="required", seed=seed, stream=True))
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == [
        "tool_calls"
    ]
    deltas = [delta for c in chunks for delta in c.choices[0].delta.tool_calls or []]
    assert [delta.index for delta in deltas] == sorted(delta.index for delta in deltas)
    for index, call in enumerate(whole.choices[0].message.tool_calls):
        first, *rest = [delta for delta in deltas if delta.index == index]
        assert first.id
        assert (first.type, first.function.name) == ("function", call.function.name)
        assert len(rest) > 1
        assert all(d.id is d.type is d.function.name is None for d in rest)
        pieces = [delta.function.arguments or "" for delta in (first, *rest)]
        assert "".join(pieces) == call.function.arguments
    assert {delta.index for delta in deltas} == {0, 1}
    assert not any(c.choices[0].delta.content for c in chunks)


def test_the_sdk_s_own_reader_of_streams_finds_both_calls(client, two_calls):
    seed, whole = two_calls
    with client.chat.completions.stream(
        model="model", messages=QUESTION, max_tokens=300, tools=TOOLS, tool_choice="required",
        seed=seed,
    ) as stream:  # fmt: skip
        final = stream.get_final_completion()
    wanted = [call.function.arguments for call in whole.choices[0].message.tool_calls]
    assert [c.function.arguments for c in final.choices[0].message.tool_calls] == wanted


def test_one_call_where_several_are_not_wanted(client, two_calls):
    answer = ask(client, tool_choice="required", seed=two_calls[0], parallel_tool_calls=False)
    assert len(answer.choices[0].message.tool_calls) == 1
    assert answer.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("name", ["first", "second"])
def test_the_tool_that_is_named_is_called(client, name):
    choice = {"type": "function", "function": {"name": name}}
    answer = ask(client, tool_choice=choice, parallel_tool_calls=False, seed=1)
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == name
    assert answer.choices[0].finish_reason == "tool_calls"


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("choice", ["auto", None, "none"])
@pytest.mark.parametrize("stream", [False, True])
def test_where_no_tool_has_to_be_called_the_answer_may_be_text(client, choice, stream):
    options = {"seed": 1, "max_tokens": 20, "stream": stream}
    answer = ask(client, **options | ({} if choice is None else {"tool_choice": choice}))
    if stream:
        answer = list(answer)
        text = "".join(c.choices[0].delta.content or "" for c in answer)
        assert not any(c.choices[0].delta.tool_calls for c in answer)
        reason = answer[-1].choices[0].finish_reason
    else:
        text, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
        assert answer.choices[0].message.tool_calls is None
    assert text
    assert reason in ("stop", "length")


def test_tools_that_may_not_be_called_are_not_in_the_prompt(client):
    without = ask(client, tools=openai.omit, max_tokens=1).usage.prompt_tokens
    assert ask(client, tool_choice="none", max_tokens=1).usage.prompt_tokens == without
    assert ask(client, tool_choice="auto", max_tokens=1).usage.prompt_tokens > without


def test_a_tool_that_is_not_there_is_refused(client):
    choice = {"type": "function", "function": {"name": "third"}}
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, tool_choice=choice)
    assert caught.value.param == "tool_choice.function.name"
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, tools=openai.omit, tool_choice="required")
    assert caught.value.param == "tool_choice"


def test_results_of_calls_go_back_as_the_sdk_has_them(client, two_calls):
    message = two_calls[1].choices[0].message
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": "42"} for call in message.tool_calls
    ]
    # the same objects that came, without what the SDK added for itself
    said = message.model_dump(exclude_none=True)
    answer = ask(client, messages=[*QUESTION, said, *results], max_tokens=4, seed=1)
    assert answer.usage.prompt_tokens > two_calls[1].usage.prompt_tokens


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("choice", ["any", "required", "second", "auto", "none"])
def test_langchain_binds_tools(live, choice):
    chat = ChatOpenAI(
        model="model", base_url=f"{live.url}/v1", api_key=live.site.key, max_retries=0, seed=1,
        max_tokens=70,
    )  # fmt: skip
    bound = chat.bind_tools(TOOLS, tool_choice=choice, parallel_tool_calls=False)
    answer = bound.invoke("Which?")
    names = [call["name"] for call in answer.tool_calls]
    pieces = None
    for chunk in bound.stream("Which?"):
        pieces = chunk if pieces is None else pieces + chunk
    assert [call["name"] for call in pieces.tool_calls] == names
    if choice in ("auto", "none"):
        assert (names, answer.content != "") == ([], True)
    else:
        assert len(names) == 1
        assert choice != "second" or names == ["second"]
        assert answer.response_metadata["finish_reason"] == "tool_calls"
        assert answer.tool_calls[0]["args"]["value"] in VALUES[names[0]]
