"""Unmodified clients against the service as a process: OpenAI's SDK and LangChain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from appliance.bundle import decode_bundle
from tests.appliance.service.live import QUESTION, Live
from verifier.expectations import Expectations
from verifier.verify import read_trust, verify

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "switch",
        "description": "Turns it on or off.",
        "parameters": {
            "type": "object",
            "properties": {"on": {"type": "boolean"}},
            "required": ["on"],
            "additionalProperties": False,
        },
    },
}


class Lamp(BaseModel):
    """What a structured answer is to be."""

    on: bool


@pytest.fixture
def client(live: Live) -> Iterator[openai.OpenAI]:
    with live.client() as made:
        yield made


def ask(client: openai.OpenAI, **options: Any) -> Any:
    given = {"model": "model", "messages": QUESTION, "max_tokens": 8, "seed": 5} | options
    return client.chat.completions.create(**given)


def test_an_answer_and_its_stream_are_the_same_and_attested(
    live: Live, client: openai.OpenAI
) -> None:
    whole = ask(client)
    assert whole.model == "model"
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage.completion_tokens == 8
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 8
    (last,) = [c for c in chunks if c.choices and c.choices[0].finish_reason]
    ids = [whole.model_extra["attestation"]["id"], last.model_extra["attestation"]["id"]]
    bundles = [decode_bundle(live.bundle(each)) for each in ids]
    for name in ("transcript", "output_ids", "prompt_ids", "trace"):
        assert bundles[0].texts[name] == bundles[1].texts[name]


def test_a_careless_loop_over_a_stream_meets_a_choice_in_every_chunk(
    client: openai.OpenAI,
) -> None:
    assert all(chunk.choices[0].delta is not None for chunk in ask(client, stream=True))


def test_the_verifier_compares_what_the_client_sent_and_received(live: Live) -> None:
    sent: list[bytes] = []
    nonce = "5a" * 32
    http = httpx.Client(event_hooks={"request": [lambda r: sent.append(r.read())]})
    with live.client(http_client=http, default_headers={"Windhover-Nonce": nonce}) as client:
        raw = client.chat.completions.with_raw_response.create(
            model="model", messages=QUESTION, max_tokens=6
        )
    trust = "version = 1\n" + live.site.path("trust.toml").read_text().split("\n", 1)[1]
    bundle = live.bundle(raw.headers["windhover-attestation"])

    def verdict(**changes: Any) -> tuple[str, str]:
        expected = {
            "request": b"/v1/chat/completions\0" + sent[0],
            "response": raw.content,
            "nonce": bytes.fromhex(nonce),
        } | changes
        needed = frozenset({"A0", "A1", "A2"})
        report = verify(bundle, read_trust(trust.encode()), Expectations(need=needed, **expected))
        return report.verdict, report.reason

    # the log of a test is not pinned by a trust file, and the mode is dev: no step is false
    assert verdict()[0] == "INCOMPLETE"
    assert verdict(request=b"/v1/chat/completions\0" + sent[0][:-1] + b" }")[0] == "FAIL"
    assert verdict(nonce=bytes(32))[0] == "FAIL"
    assert verdict(response=raw.content.replace(b'"length"', b'"stop"'))[0] == "FAIL"


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_that_is_asked_for_is_called_with_valid_arguments(
    client: openai.OpenAI, stream: bool
) -> None:
    choice = {"type": "function", "function": {"name": "switch"}}
    options: Any = {"tools": [TOOL], "tool_choice": choice, "max_tokens": 70}
    if not stream:
        answer = ask(client, **options).choices[0]
        assert answer.finish_reason == "tool_calls"
        (call,) = answer.message.tool_calls
        assert call.function.name == "switch"
        assert json.loads(call.function.arguments) in ({"on": True}, {"on": False})
        return
    chunks = list(ask(client, stream=True, **options))
    deltas = [d for c in chunks for d in c.choices[0].delta.tool_calls or []]
    assert {delta.index for delta in deltas} == {0}
    assert [delta.id is not None for delta in deltas].count(True) == 1
    assert deltas[0].function.name == "switch"
    arguments = "".join(delta.function.arguments or "" for delta in deltas)
    assert set(json.loads(arguments)) == {"on"}
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_an_answer_follows_a_schema(client: openai.OpenAI) -> None:
    parsed = client.chat.completions.parse(
        model="model", messages=QUESTION, max_tokens=60, response_format=Lamp
    )
    assert isinstance(parsed.choices[0].message.parsed, Lamp)
    with client.chat.completions.stream(
        model="model", messages=QUESTION, max_tokens=60, response_format=Lamp
    ) as stream:
        final = stream.get_final_completion()
    assert isinstance(final.choices[0].message.parsed, Lamp)


def test_a_schema_that_cannot_be_enforced_is_refused_by_name(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {}, "unevaluatedItems": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with pytest.raises(openai.BadRequestError, match="unevaluatedItems"):
        ask(client, response_format=wanted)


def test_log_probabilities_come_with_every_token(client: openai.OpenAI) -> None:
    listed = ask(client, logprobs=True, top_logprobs=3).choices[0].logprobs.content
    assert len(listed) == 8
    assert all(len(each.top_logprobs) == 3 and each.logprob <= 0 for each in listed)
    legacy = client.completions.create(model="model", prompt="The", max_tokens=4, logprobs=2)
    assert len(legacy.choices[0].logprobs.tokens) == 4


def test_a_completion_and_its_stream(client: openai.OpenAI) -> None:
    options: Any = {"model": "model", "prompt": "The sky", "max_tokens": 6, "seed": 1}
    whole = client.completions.create(**options)
    pieces = client.completions.create(**options, stream=True)
    assert "".join(c.choices[0].text for c in pieces) == whole.choices[0].text


def test_models_are_listed_and_others_not_found(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["model"]
    assert client.models.retrieve("model").id == "model"
    for ask_for in (lambda: client.models.retrieve("gpt-4"), lambda: ask(client, model="Model")):
        with pytest.raises(openai.NotFoundError) as caught:
            ask_for()
        assert caught.value.code == "model_not_found"


def test_errors_have_the_classes_of_the_sdk(live: Live, client: openai.OpenAI) -> None:
    with pytest.raises(openai.AuthenticationError), live.client("wh-wrong") as other:
        ask(other)
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, max_tokens=100_000)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="best"):
        ask(client, extra_body={"best_friend": 1})


def test_a_client_that_leaves_is_stated_as_disconnected(live: Live, client: openai.OpenAI) -> None:
    outcomes = []
    for _ in range(5):  # the tiny model may be done before the service sees the client leave
        stream = ask(client, stream=True, max_tokens=400)
        attestation = stream.response.headers["windhover-attestation"]
        next(iter(stream))
        stream.close()
        outcomes.append(live.statement(attestation).outcome)
        if outcomes[-1] == "disconnected":
            break
    assert outcomes[-1] == "disconnected", outcomes
    assert set(outcomes) <= {"answered", "disconnected"}


def test_a_client_whose_patience_ends_gets_the_sdk_s_time_out(live: Live) -> None:
    with (
        live.client(timeout=httpx.Timeout(60.0, read=0.02)) as hasty,
        pytest.raises(openai.APITimeoutError),
    ):
        ask(hasty, max_tokens=400)


def test_langchain_answers_streams_and_calls_tools(live: Live) -> None:
    chat = ChatOpenAI(
        model="model",
        base_url=f"{live.url}/v1",
        api_key=live.site.key,  # type: ignore[arg-type]
        max_retries=0,
        seed=5,
        max_tokens=60,  # type: ignore[call-arg]
    )
    whole = chat.invoke("Why?").content
    assert "".join(str(chunk.content) for chunk in chat.stream("Why?")) == whole
    called = chat.bind_tools([TOOL], tool_choice="switch").invoke("On or off?")
    assert [call["name"] for call in called.tool_calls] == ["switch"]
    structured = chat.with_structured_output(Lamp, method="json_schema")
    assert isinstance(structured.invoke("On or off?"), Lamp)


def test_a_model_that_makes_no_vectors_says_so(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="no vectors") as caught:
        client.embeddings.create(model="model", input="a text")
    assert caught.value.code == "unsupported_parameter"
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="text-embedding-3-small", input="a text")
    with pytest.raises(openai.BadRequestError, match="input"):
        client.embeddings.create(model="model", input=[1, 2, 3])
