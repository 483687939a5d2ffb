"""The OpenAPI document: against the parser, against answers, against a fuzzer's reader."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
import schemathesis

from appliance.api import answers, errors
from appliance.api.answers import FunctionCall, Head, Usage, to_json
from appliance.api.logprobs import TextOffsets, TokenLogprob
from appliance.api.openapi import openapi_document, routes
from appliance.api.parameters import Row, rows
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH
from tests.appliance.api.test_parameters import REQUIRED, ROW_IDS
from tests.appliance.api.test_refusals import CASES

DOCUMENT = openapi_document("m")
REQUESTS = {
    CHAT_PATH: "ChatRequest",
    COMPLETIONS_PATH: "CompletionRequest",
    EMBEDDINGS_PATH: "EmbeddingRequest",
}
BEYOND_SCHEMAS = {
    "tools": 1,  # names that stand twice
}


def validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    )


@pytest.mark.parametrize("row", list(rows()), ids=ROW_IDS)
def test_schemas_take_and_refuse_what_the_table_says(row: Row):
    if row.name == "model":
        return  # every name but one is refused by the route, not by the parser
    check = validator(REQUESTS[row.path])

    def body(text: str) -> Any:
        members = {**REQUIRED[row.path], row.name: text}
        inner = ",".join(f'"{name}":{value}' for name, value in members.items())
        return json.loads(f"{{{inner}{row.beside and ','}{row.beside}}}")

    for text in row.takes:
        assert check.is_valid(body(text)), text
    accepted = [text for text in row.refuses if check.is_valid(body(text))]
    # JSON Schema knows no difference between 1 and 1.0
    accepted = [text for text in accepted if text not in ("1.0", "1e3")]
    assert len(accepted) <= BEYOND_SCHEMAS.get(row.name, 0), accepted


BEYOND = {
    "a lone surrogate in a message",
    "a lone surrogate deep in a schema",
    "a name that stands twice in a schema",
    "33 levels",
    "arguments that are no JSON",
    "arguments that are an array",
    "arguments with a name twice",
    "arguments with half a pair behind two escapes",
    "two calls of one id",
    "a result of no call",
    "a result before its call",
    "two tools of one name",
    "a choice that is required of no tools",
    "the choice of a tool that is not there",
    "a format beside tools",
    "two lengths",
    "alternatives without log-probabilities",
    "options of a stream that is none",
    "a bias beyond every vocabulary",
}
"""Refusals that a schema of this size does not express."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_schemas_refuse_what_the_parser_refuses(case: dict[str, str]):
    body = json.loads(case["body"].encode("utf-8", "surrogatepass"))
    try:
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        assert case["name"].startswith("a lone surrogate")
        return
    is_valid = validator(REQUESTS[case["path"]]).is_valid(body)
    assert not is_valid or case["name"] in BEYOND


HEAD = Head("chatcmpl-1", 5, "m")
TEXT = Head("cmpl-1", 5, "m")
USAGE = Usage(3, 2, 1)
ATTESTATION = {
    "id": "a",
    "log_id": "00" * 32,
    "sequence": 1,
    "url": "/v1/attestations/a",
    "statement": "AA==",
}
LOGPROBS = (TokenLogprob(b"\xff", -1.0, ((b"a", -2.0),)),)
CALL = FunctionCall("call_00", "f", "{}")
END = {"attestation": ATTESTATION}
ANSWERS = [
    (
        "ChatCompletion",
        answers.chat_completion(
            HEAD, content="", calls=[CALL], finish_reason="tool_calls", usage=USAGE, **END
        ),
    ),
    (
        "ChatCompletion",
        answers.chat_completion(
            HEAD, content="a", finish_reason="stop", logprobs=LOGPROBS, usage=USAGE, **END
        ),
    ),
    ("ChatCompletionChunk", answers.first_chunk(HEAD)),
    ("ChatCompletionChunk", answers.content_chunk(HEAD, "a", LOGPROBS)),
    ("ChatCompletionChunk", answers.call_chunk(HEAD, 0, "call_00", "f")),
    ("ChatCompletionChunk", answers.arguments_chunk(HEAD, 0, "{")),
    ("ChatCompletionChunk", answers.last_chunk(HEAD, finish_reason="length", **END)),
    ("ChatCompletionChunk", answers.usage_chunk(HEAD, USAGE)),
    (
        "TextCompletion",
        answers.text_completion(
            TEXT, text="a", finish_reason="stop", logprobs=LOGPROBS, usage=USAGE, **END
        ),
    ),
    ("TextCompletion", answers.text_chunk(TEXT, "a", TextOffsets(), logprobs=LOGPROBS)),
    ("TextCompletion", answers.last_text_chunk(TEXT, TextOffsets(), finish_reason="stop", **END)),
    ("TextCompletion", answers.text_usage_chunk(TEXT, USAGE)),
    (
        "Models",
        answers.models(
            [
                answers.model_object(
                    "m", created=1, owned_by="x", model_digest=bytes(32), context_length_tokens=9
                )
            ]
        ),
    ),
    ("Error", errors.invalid_api_key().body()),
    ("Error", errors.refused("invalid_value", "m", "p").body()),
    ("Error", errors.rate_limit_exceeded("x", 1).body()),
    ("Error", errors.insufficient_scope("log").body()),
    ("Error", errors.engine_error().body()),
]


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_answers_have_their_schemas(number: int):
    name, value = ANSWERS[number]
    sent = json.loads(to_json(value))
    check = validator(name)
    check.validate(sent)
    for member in list(sent):
        if member not in ("usage", "attestation"):
            assert not check.is_valid({k: v for k, v in sent.items() if k != member}), member
    assert not check.is_valid({**sent, "more": 1})


def test_every_error_status_has_the_one_body():
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            statuses = set(operation["responses"]) - {"200"}
            is_public = operation.get("security") == []
            assert {"400", "405", "500"} <= statuses
            assert ({"401", "403", "429", "503"} <= statuses) != is_public
            if "requestBody" in operation:
                assert {"404", "411", "413", "415"} <= statuses
            for status in statuses:
                content = operation["responses"][status]["content"]
                is_state = (path, status) == ("/ready", "503")
                wanted = {"$ref": f"#/components/schemas/{'Ready' if is_state else 'Error'}"}
                assert content == {"application/json": {"schema": wanted}}, (path, status)


def test_public_routes_are_these_and_no_others():
    public = {route.path for route in routes() if route.scope is None}
    assert public == {"/health", "/ready", "/.well-known/windhover", "/openapi.json"}
    scopes = {route.scope for route in routes()} - {None}
    assert scopes == {
        *("generate", "embeddings", "models", "attestations", "log", "metrics", "status")
    }


def test_a_fuzzer_reads_it():
    schema = schemathesis.openapi.from_dict(json.loads(json.dumps(DOCUMENT)))
    found = {
        (operation.ok().path, operation.ok().method) for operation in schema.get_all_operations()
    }
    assert found == {(route.path, route.method) for route in routes()}
