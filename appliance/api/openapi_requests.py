"""JSON schemas of request bodies, for the OpenAPI document (JSON Schema 2020-12)."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from appliance.api.json_body import Value
from appliance.api.limits import (
    MAX_ARGUMENTS_CHARACTERS,
    MAX_CALL_ID_CHARACTERS,
    MAX_CALLS,
    MAX_DESCRIPTION_CHARACTERS,
    MAX_INPUTS,
    MAX_INT32,
    MAX_KEY_CHARACTERS,
    MAX_MESSAGES,
    MAX_METADATA,
    MAX_METADATA_NAME_CHARACTERS,
    MAX_METADATA_VALUE_CHARACTERS,
    MAX_PARTS,
    MAX_SEED,
    MAX_TOOLS,
)
from appliance.api.messages import UNSUPPORTED_OF_ANSWERS, UNSUPPORTED_OF_MESSAGES
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH
from appliance.api.sampling import DECIMALS
from appliance.api.unsupported import IGNORED_TEXTS, NEUTRAL
from engine.sampling.parameters import MAX_LOGIT_BIASES, MAX_LOGPROBS, ONE
from engine.text.stop import MAX_STOP_CHARACTERS, MAX_STOPS

Schema: TypeAlias = dict[str, Any]

_NAME: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
_BOOLEAN: Final[Schema] = {"type": ["boolean", "null"]}
_TEXT: Final[Schema] = {"type": "string"}


def request_schemas(served_model: str) -> dict[str, Schema]:
    """Return the components that request bodies are made of."""
    return {
        "TextPart": _object({"type": {"const": "text"}, "text": _TEXT}, ["type", "text"]),
        "Content": {
            "oneOf": [_TEXT, _array({"$ref": "#/components/schemas/TextPart"}, 1, MAX_PARTS)]
        },
        "Call": _call(),
        "Message": {"oneOf": [_plain_message(), _assistant_message(), _tool_message()]},
        "Tool": _tool(),
        "ToolChoice": {
            "oneOf": [
                {"enum": ["none", "auto", "required", None]},
                _object(
                    {
                        "type": {"const": "function"},
                        "function": _object({"name": _NAME}, ["name"]),
                    },
                    ["type", "function"],
                ),
            ]
        },
        "ResponseFormat": _response_format(),
        "ChatRequest": _chat(served_model),
        "CompletionRequest": _completion(served_model),
        "EmbeddingRequest": _embedding(served_model),
    }


def _object(properties: dict[str, Schema], required: list[str]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _array(items: Schema, least: int, most: int) -> Schema:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def _or_null(schema: Schema) -> Schema:
    return {"oneOf": [schema, {"type": "null"}]}


def _text(most: int, *, least: int = 0) -> Schema:
    return {"type": ["string", "null"], "minLength": least, "maxLength": most}


def _integer(least: int, most: int) -> Schema:
    return {"type": ["integer", "null"], "minimum": least, "maximum": most}


def _neutral(values: tuple[Value, ...]) -> Schema:
    """Return the schema of a field that passes only where it asks for nothing."""
    plain = [int(value) if value == "1" else value for value in values]
    return {"enum": [*plain, None]}


def _plain_message() -> Schema:
    properties: dict[str, Schema] = {
        "role": {"enum": ["system", "developer", "user"]},
        "content": {"$ref": "#/components/schemas/Content"},
        **{name: _neutral(values) for name, values in UNSUPPORTED_OF_MESSAGES.items()},
    }
    return _object(properties, ["role", "content"])


def _assistant_message() -> Schema:
    """Content may be missing where there are calls."""
    calls: Schema = _array({"$ref": "#/components/schemas/Call"}, 0, MAX_CALLS)
    schema = _object(
        {
            "role": {"const": "assistant"},
            "content": _or_null({"$ref": "#/components/schemas/Content"}),
            "tool_calls": _or_null(calls),
            "parsed": {},
            **{name: _neutral(values) for name, values in UNSUPPORTED_OF_MESSAGES.items()},
            **{name: _neutral(values) for name, values in UNSUPPORTED_OF_ANSWERS.items()},
        },
        ["role"],
    )
    has_content = {
        "properties": {"content": {"not": {"type": "null"}}},
        "required": ["content"],
    }
    has_calls = {
        "properties": {"tool_calls": {"type": "array", "minItems": 1}},
        "required": ["tool_calls"],
    }
    return {**schema, "anyOf": [has_content, has_calls]}


def _tool_message() -> Schema:
    properties: dict[str, Schema] = {
        "role": {"const": "tool"},
        "content": {"$ref": "#/components/schemas/Content"},
        "tool_call_id": {"type": "string", "maxLength": MAX_CALL_ID_CHARACTERS},
        **{name: _neutral(values) for name, values in UNSUPPORTED_OF_MESSAGES.items()},
    }
    return _object(properties, ["role", "content", "tool_call_id"])


def _call() -> Schema:
    function: Schema = _object(
        {
            "name": _NAME,
            "arguments": {
                "type": "string",
                "maxLength": MAX_ARGUMENTS_CHARACTERS,
                "description": "The text of a JSON object; the empty text is {}.",
            },
            "parsed_arguments": {},
        },
        ["name", "arguments"],
    )
    properties: dict[str, Schema] = {
        "id": {"type": "string", "maxLength": MAX_CALL_ID_CHARACTERS},
        "type": {"const": "function"},
        "function": function,
        "index": {},
    }
    return _object(properties, ["id", "type", "function"])


def _tool() -> Schema:
    function: Schema = _object(
        {
            "name": _NAME,
            "description": _text(MAX_DESCRIPTION_CHARACTERS),
            "parameters": {
                "type": ["object", "null"],
                "description": "A JSON schema; a keyword that is not supported is refused.",
            },
            "strict": _BOOLEAN,
        },
        ["name"],
    )
    return _object({"type": {"const": "function"}, "function": function}, ["type", "function"])


def _response_format() -> Schema:
    inner = _object(
        {
            "name": _NAME,
            "description": _text(MAX_DESCRIPTION_CHARACTERS),
            "schema": {
                "type": "object",
                "description": "A JSON schema; a keyword that is not supported is refused.",
            },
            "strict": _BOOLEAN,
        },
        ["name", "schema"],
    )
    return {
        "oneOf": [
            {"type": "null"},
            _object({"type": {"enum": ["text", "json_object"]}}, ["type"]),
            _object(
                {"type": {"const": "json_schema"}, "json_schema": inner}, ["type", "json_schema"]
            ),
        ]
    }


def _generation() -> dict[str, Schema]:
    """Return the fields that chat and completions have in common."""
    stop: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_STOP_CHARACTERS}
    decimals: dict[str, Schema] = {
        name: {
            "type": ["number", "null"],
            "minimum": bounds.least / ONE,
            "maximum": bounds.most / ONE,
        }
        for name, bounds in DECIMALS.items()
    }
    options = _object(
        {"include_usage": _BOOLEAN, "include_obfuscation": {"enum": [False, None]}}, []
    )
    bias: Schema = {
        "type": ["object", "null"],
        "propertyNames": {"pattern": "^(0|[1-9][0-9]{0,5})$"},
        "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
        "maxProperties": MAX_LOGIT_BIASES,
    }
    return {
        **decimals,
        "max_tokens": _integer(1, MAX_INT32),
        "seed": _integer(0, MAX_SEED),
        "top_k": _integer(0, MAX_INT32),
        "logit_bias": bias,
        "stop": {"oneOf": [{"type": "null"}, stop, _array(stop, 0, MAX_STOPS)]},
        "stream": _BOOLEAN,
        "stream_options": _or_null(options),
    }


def _others(path: str) -> dict[str, Schema]:
    """Return the fields that change nothing."""
    texts = {name: _text(MAX_KEY_CHARACTERS) for name in IGNORED_TEXTS[path]}
    return texts | {name: _neutral(values) for name, values in NEUTRAL[path].items()}


def _model(served_model: str) -> Schema:
    return {"const": served_model}


def _chat(served_model: str) -> Schema:
    metadata: Schema = {
        "type": ["object", "null"],
        "propertyNames": {"maxLength": MAX_METADATA_NAME_CHARACTERS},
        "additionalProperties": {"type": "string", "maxLength": MAX_METADATA_VALUE_CHARACTERS},
        "maxProperties": MAX_METADATA,
    }
    tools = _array({"$ref": "#/components/schemas/Tool"}, 0, MAX_TOOLS)
    return _object(
        {
            "model": _model(served_model),
            "messages": _array({"$ref": "#/components/schemas/Message"}, 1, MAX_MESSAGES),
            **_generation(),
            "max_completion_tokens": _integer(1, MAX_INT32),
            "logprobs": _BOOLEAN,
            "top_logprobs": _integer(0, MAX_LOGPROBS),
            "tools": _or_null(tools),
            "tool_choice": {"$ref": "#/components/schemas/ToolChoice"},
            "parallel_tool_calls": _BOOLEAN,
            "response_format": {"$ref": "#/components/schemas/ResponseFormat"},
            "prompt_cache_key": _text(MAX_KEY_CHARACTERS),
            "metadata": metadata,
            **_others(CHAT_PATH),
        },
        ["model", "messages"],
    )


def _completion(served_model: str) -> Schema:
    return _object(
        {
            "model": _model(served_model),
            "prompt": {"oneOf": [_TEXT, _array(_TEXT, 1, 1)]},
            **_generation(),
            "logprobs": _integer(0, MAX_LOGPROBS),
            **_others(COMPLETIONS_PATH),
        },
        ["model", "prompt"],
    )


def _embedding(served_model: str) -> Schema:
    return _object(
        {
            "model": _model(served_model),
            "input": {"oneOf": [_TEXT, _array(_TEXT, 1, MAX_INPUTS)]},
            "encoding_format": {"enum": ["float", "base64", None]},
            **_others(EMBEDDINGS_PATH),
        },
        ["model", "input"],
    )
