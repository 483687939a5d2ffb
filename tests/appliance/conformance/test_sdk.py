"""OpenAI's SDK and LangChain as they are: formats, log-probabilities, usage, names, async."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Literal

import openai
import pytest
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from tests.appliance.service.live import QUESTION

pytestmark = [pytest.mark.slow, pytest.mark.ci]


class Lamp(BaseModel):
    """What a structured answer is to be."""

    on: bool
    colour: Literal["red", "green"]


SCHEMA = {
    "type": "object",
    "properties": {"on": {"type": "boolean"}, "colour": {"enum": ["red", "green"]}},
    "required": ["on", "colour"],
    "additionalProperties": False,
}
STREAMS = pytest.mark.parametrize("stream", [False, True])


def ask(client, **options):
    given = {"model": "model", "messages": QUESTION, "max_tokens": 8, "seed": 5} | options
    return client.chat.completions.create(**given)


def read(answer, stream):
    """Return text and reason of an answer, streamed or not."""
    if not stream:
        return answer.choices[0].message.content, answer.choices[0].finish_reason
    chunks = list(answer)
    return "".join(c.choices[0].delta.content or "" for c in chunks), chunks[-1].choices[
        0
    ].finish_reason


@STREAMS
def test_any_object_where_an_object_is_asked_for(client, stream):
    form = {"type": "json_object"}
    found = []
    for seed in range(8):
        answer = ask(client, response_format=form, stream=stream, max_tokens=120, seed=seed)
        text, reason = read(answer, stream)
        assert text.lstrip().startswith("{")
        if reason == "stop":
            found.append(json.loads(text))
    assert found
    assert all(isinstance(value, dict) for value in found)


@STREAMS
def test_the_object_of_a_schema(client, stream):
    form = {"type": "json_schema", "json_schema": {"name": "lamp", "schema": SCHEMA,
                                                   "strict": True}}  # fmt: skip
    for seed in range(3):
        answer = ask(client, response_format=form, stream=stream, max_tokens=90, seed=seed)
        text, reason = read(answer, stream)
        assert reason == "stop"
        Lamp.model_validate_json(text, strict=True)


def test_a_structured_answer_that_is_cut_is_an_error_of_the_sdk(client):
    given = {"model": "model", "messages": QUESTION, "response_format": Lamp, "seed": 1}
    with pytest.raises(openai.LengthFinishReasonError) as caught:
        client.chat.completions.parse(max_tokens=4, **given)
    assert caught.value.completion.usage.completion_tokens == 4
    with (
        pytest.raises(openai.LengthFinishReasonError),
        client.chat.completions.stream(max_tokens=4, **given) as stream,
    ):
        stream.get_final_completion()
    whole = client.chat.completions.parse(max_tokens=90, **given)
    assert isinstance(whole.choices[0].message.parsed, Lamp)


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_langchain_gets_a_structured_answer(live, method):
    chat = ChatOpenAI(
        model="model", base_url=f"{live.url}/v1", api_key=live.site.key, max_retries=0, seed=1,
        max_tokens=300,
    )  # fmt: skip
    options = {"tool_choice": "Lamp"} if method == "function_calling" else {}
    wanted = chat.with_structured_output(Lamp, method=method, include_raw=True, **options)
    answer = wanted.invoke("On or off?")
    assert answer["parsing_error"] is None, answer["raw"]
    assert isinstance(answer["parsed"], Lamp), answer["raw"]
    assert answer["raw"].response_metadata["model_name"] == "model"


def test_langchain_s_json_mode_is_an_object(live):
    chat = ChatOpenAI(
        model="model", base_url=f"{live.url}/v1", api_key=live.site.key, max_retries=0,
        max_tokens=120,
    )  # fmt: skip
    for seed in range(8):
        wanted = chat.bind(seed=seed).bind(response_format={"type": "json_object"})
        answer = wanted.invoke("An object, please.")
        assert answer.content.lstrip().startswith("{")
        if answer.response_metadata["finish_reason"] == "stop":
            assert isinstance(json.loads(answer.content), dict)
            return
    pytest.fail("no answer came to its end")


@STREAMS
def test_log_probabilities_of_a_chat(client, stream):
    answer = ask(client, logprobs=True, top_logprobs=3, stream=stream, temperature=0)
    if stream:
        chunks = list(answer)
        parts = [c.choices[0].logprobs for c in chunks if c.choices[0].logprobs]
        tokens = [token for part in parts for token in part.content or []]
        text = "".join(c.choices[0].delta.content or "" for c in chunks)
    else:
        tokens = answer.choices[0].logprobs.content
        text = answer.choices[0].message.content
    assert len(tokens) == 8
    assert b"".join(bytes(t.bytes) for t in tokens).decode("utf-8", "replace") == text
    for token in tokens:
        assert len(token.top_logprobs) == 3
        values = [each.logprob for each in token.top_logprobs]
        assert values == sorted(values, reverse=True)
        assert sum(math.exp(value) for value in values) <= 1 + 1e-6
        # at temperature 0 the most probable token is the one
        assert token.top_logprobs[0].bytes == token.bytes
        assert token.logprob == values[0] <= 0


@STREAMS
def test_log_probabilities_of_a_completion_have_their_own_shape(client, stream):
    given = {"model": "model", "prompt": "The sky", "max_tokens": 6, "seed": 5, "temperature": 0}
    answer = client.completions.create(logprobs=2, stream=stream, **given)
    choices = [c.choices[0] for c in answer] if stream else answer.choices
    text = "".join(choice.text for choice in choices)
    parts = [choice.logprobs for choice in choices if choice.logprobs]
    tokens = [token for part in parts for token in part.tokens]
    offsets = [offset for part in parts for offset in part.text_offset]
    values = [value for part in parts for value in part.token_logprobs]
    tops = [top for part in parts for top in part.top_logprobs]
    assert len(tokens) == len(offsets) == len(values) == len(tops) == 6
    assert all(value <= 0 for value in values)
    assert offsets == sorted(offsets)
    assert offsets[0] == 0
    assert offsets[-1] <= len(text)
    assert all(1 <= len(top) <= 2 and max(top.values()) <= 0 for top in tops)


def test_without_being_asked_there_are_no_log_probabilities(client):
    assert ask(client).choices[0].logprobs is None
    assert all(chunk.choices[0].logprobs is None for chunk in ask(client, stream=True))


@pytest.mark.parametrize("is_chat", [True, False])
@pytest.mark.parametrize("wanted", [True, False, None])
def test_numbers_of_tokens_end_a_stream_where_they_are_asked_for_alone(client, is_chat, wanted):
    options = {"stream": True}
    if wanted is not None:
        options["stream_options"] = {"include_usage": wanted}
    if is_chat:
        chunks = list(ask(client, **options))
    else:
        options |= {"model": "model", "prompt": "The sky", "max_tokens": 8, "seed": 5}
        chunks = list(client.completions.create(**options))
    with_usage = [chunk for chunk in chunks if chunk.usage is not None]
    if not wanted:
        assert with_usage == []
        assert all(len(chunk.choices) == 1 for chunk in chunks)
        return
    assert with_usage == chunks[-1:]
    assert chunks[-1].choices == []
    usage = chunks[-1].usage
    assert usage.completion_tokens == 8
    assert usage.total_tokens == usage.prompt_tokens + 8
    assert all(len(chunk.choices) == 1 for chunk in chunks[:-1])


def test_every_answer_has_an_id_of_its_request(live, client):
    answers = [ask(client), ask(client)]
    assert all(answer._request_id for answer in answers)
    assert answers[0]._request_id != answers[1]._request_id
    raw = client.chat.completions.with_raw_response.create(
        model="model", messages=QUESTION, max_tokens=1, extra_headers={"X-Request-Id": "mine"}
    )
    assert raw.request_id not in (None, "mine")
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, top_p=7)
    assert caught.value.request_id
    assert len({caught.value.request_id, raw.request_id, answers[0]._request_id}) == 3


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"best_friend": 1}, "best_friend"),
        ({"n": 2}, "n"),
        ({"store": True}, "store"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"web_search_options": {"search_context_size": "low"}}, "web_search_options"),
        ({"prediction": {"type": "content", "content": "x"}}, "prediction"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
    ],
)
def test_what_is_not_supported_is_refused_by_its_name(client, fields, param):
    with pytest.raises(openai.BadRequestError, match=param) as caught:
        ask(client, extra_body=fields)
    assert (caught.value.param, caught.value.code) == (param, "unsupported_parameter")


def test_neutral_values_of_other_wrappers_pass(client):
    neutral = {
        "n": 1, "logit_bias": {}, "stop": None, "tools": None, "tool_choice": None,
        "logprobs": False, "top_logprobs": None, "seed": None,
        "frequency_penalty": 0, "presence_penalty": 0.0, "user": None, "stream_options": None,
        "response_format": {"type": "text"}, "parallel_tool_calls": None, "service_tier": None,
    }  # fmt: skip
    assert ask(client, extra_body=neutral).choices


def test_the_asynchronous_client_has_answers_streams_and_many_at_once(live):
    async def run():
        made = {"base_url": f"{live.url}/v1", "api_key": live.site.key, "max_retries": 0}
        async with openai.AsyncOpenAI(**made) as client:
            whole = await ask(client)
            chunks = [chunk async for chunk in await ask(client, stream=True)]
            many = await asyncio.gather(*(ask(client) for _ in range(6)))
            with pytest.raises(openai.NotFoundError):
                await ask(client, model="gpt-4")
        return whole, chunks, many

    whole, chunks, many = asyncio.run(run())
    text = whole.choices[0].message.content
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == text
    assert [each.choices[0].message.content for each in many] == [text] * 6


def test_langchain_tells_tokens_and_reasons_whole_and_streamed(live):
    chat = ChatOpenAI(
        model="model", base_url=f"{live.url}/v1", api_key=live.site.key, max_retries=0, seed=5,
        max_tokens=8, stream_usage=True,
    )  # fmt: skip
    whole = chat.invoke("Why?")
    assert whole.usage_metadata["output_tokens"] == 8
    assert whole.response_metadata["finish_reason"] == "length"
    pieces = None
    for chunk in chat.stream("Why?"):
        pieces = chunk if pieces is None else pieces + chunk
    assert pieces.content == whole.content
    assert pieces.usage_metadata["output_tokens"] == 8
    assert pieces.response_metadata["finish_reason"] == "length"
