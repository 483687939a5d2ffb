"""JSON schemas of answers and errors, for the OpenAPI document (JSON Schema 2020-12)."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Schema: TypeAlias = dict[str, Any]

FINISH_REASONS: Final = ("stop", "length", "tool_calls")

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "number"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_HEX_32: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_BASE64: Final[Schema] = {"type": "string", "contentEncoding": "base64"}


def ref(name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def answer_schemas(served_model: str) -> dict[str, Schema]:
    """Return the components that answers are made of."""
    return {
        "Error": _error(),
        "Usage": _usage(),
        "Attestation": _attestation(),
        "ChatLogprobs": _chat_logprobs(),
        "TextLogprobs": _text_logprobs(),
        "ChatCompletion": _chat_completion(served_model),
        "ChatCompletionChunk": _chat_chunk(served_model),
        "TextCompletion": _text_completion(served_model),
        "Embeddings": _embeddings(served_model),
        "Model": _model(),
        "Models": _closed({"object": {"const": "list"}, "data": _array(ref("Model"))}),
        "AttestationRecord": _open(
            {
                "id": _TEXT,
                "statement": _BASE64,
                "bundle": {"type": ["string", "null"], "contentEncoding": "base64"},
            }
        ),
        "Ready": _ready(),
        "Health": _open({"status": {"const": "ok"}}),
        "Anything": {"type": "object"},
    }


def _closed(properties: dict[str, Schema], *, optional: tuple[str, ...] = ()) -> Schema:
    """Return an object with these members and no others."""
    return {**_open(properties, optional=optional), "additionalProperties": False}


def _open(properties: dict[str, Schema], *, optional: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _or_null(schema: Schema) -> Schema:
    return {"oneOf": [schema, {"type": "null"}]}


def _error() -> Schema:
    inner = _closed(
        {
            "message": _TEXT,
            "type": {
                "enum": [
                    "invalid_request_error",
                    "permission_error",
                    "rate_limit_error",
                    "server_error",
                ]
            },
            "param": {"type": ["string", "null"]},
            "code": _TEXT,
        }
    )
    return _closed({"error": inner})


def _ready() -> Schema:
    reason = _closed({"code": _TEXT, "message": _TEXT})
    phase: Schema = {"enum": ["loading", "ready", "draining", "failed"]}
    return _open({"status": phase, "ready": {"type": "boolean"}, "reasons": _array(reason)})


def _usage() -> Schema:
    return _closed(
        {
            "prompt_tokens": _COUNT,
            "completion_tokens": _COUNT,
            "total_tokens": _COUNT,
            "prompt_tokens_details": _closed({"cached_tokens": _COUNT}),
        }
    )


def _attestation() -> Schema:
    return _open(
        {
            "id": _TEXT,
            "log_id": {"type": "string", "pattern": "^([0-9a-f]{2})+$"},
            "sequence": _COUNT,
            "url": {"type": "string", "pattern": "^/v1/attestations/"},
            "statement": _BASE64,
        }
    )


def _chat_logprobs() -> Schema:
    byte: Schema = {"type": "integer", "minimum": 0, "maximum": 255}
    entry = {"token": _TEXT, "logprob": _NUMBER, "bytes": _array(byte)}
    token = _closed({**entry, "top_logprobs": _array(_closed(entry))})
    return _or_null(_closed({"content": _array(token), "refusal": {"type": "null"}}))


def _text_logprobs() -> Schema:
    top: Schema = {"type": "object", "additionalProperties": _NUMBER}
    return _or_null(
        _closed(
            {
                "tokens": _array(_TEXT),
                "token_logprobs": _array(_NUMBER),
                "top_logprobs": _array(top),
                "text_offset": _array(_COUNT),
            }
        )
    )


def _head(kind: str, prefix: str, served_model: str) -> dict[str, Schema]:
    return {
        "id": {"type": "string", "pattern": f"^{prefix}-"},
        "object": {"const": kind},
        "created": _COUNT,
        "model": {"const": served_model},
    }


def _message() -> Schema:
    function = _closed({"name": _TEXT, "arguments": _TEXT})
    call = _closed(
        {
            "id": {"type": "string", "pattern": "^call_"},
            "type": {"const": "function"},
            "function": function,
        }
    )
    return _closed(
        {
            "role": {"const": "assistant"},
            "content": {"type": ["string", "null"]},
            "refusal": {"type": "null"},
            "tool_calls": _array(call),
        },
        optional=("tool_calls",),
    )


def _chat_completion(served_model: str) -> Schema:
    choice = _closed(
        {
            "index": {"const": 0},
            "message": _message(),
            "logprobs": ref("ChatLogprobs"),
            "finish_reason": {"enum": list(FINISH_REASONS)},
        }
    )
    return _closed(
        {
            **_head("chat.completion", "chatcmpl", served_model),
            "choices": {**_array(choice), "minItems": 1, "maxItems": 1},
            "usage": ref("Usage"),
            "attestation": ref("Attestation"),
        }
    )


def _chat_chunk(served_model: str) -> Schema:
    function = _closed({"name": _TEXT, "arguments": _TEXT}, optional=("name",))
    call = _closed(
        {
            "index": _COUNT,
            "id": {"type": "string", "pattern": "^call_"},
            "type": {"const": "function"},
            "function": function,
        },
        optional=("id", "type"),
    )
    delta = _closed(
        {"role": {"const": "assistant"}, "content": _TEXT, "tool_calls": _array(call)},
        optional=("role", "content", "tool_calls"),
    )
    choice = _closed(
        {
            "index": {"const": 0},
            "delta": delta,
            "logprobs": ref("ChatLogprobs"),
            "finish_reason": {"enum": [*FINISH_REASONS, None]},
        }
    )
    return _closed(
        {
            **_head("chat.completion.chunk", "chatcmpl", served_model),
            "choices": {**_array(choice), "maxItems": 1},
            "usage": ref("Usage"),
            "attestation": ref("Attestation"),
        },
        optional=("usage", "attestation"),
    )


def _text_completion(served_model: str) -> Schema:
    """Return the schema of answers and of their chunks, which have one kind here."""
    choice = _closed(
        {
            "index": {"const": 0},
            "text": _TEXT,
            "logprobs": ref("TextLogprobs"),
            "finish_reason": {"enum": [*FINISH_REASONS, None]},
        }
    )
    return _closed(
        {
            **_head("text_completion", "cmpl", served_model),
            "choices": {**_array(choice), "maxItems": 1},
            "usage": ref("Usage"),
            "attestation": ref("Attestation"),
        },
        optional=("usage", "attestation"),
    )


def _embeddings(served_model: str) -> Schema:
    vector = {"oneOf": [_array(_NUMBER), _BASE64]}
    part = _closed({"object": {"const": "embedding"}, "index": _COUNT, "embedding": vector})
    return _closed(
        {
            "object": {"const": "list"},
            "data": _array(part),
            "model": {"const": served_model},
            "usage": _closed({"prompt_tokens": _COUNT, "total_tokens": _COUNT}),
            "attestation": ref("Attestation"),
        }
    )


def _model() -> Schema:
    return _closed(
        {
            "id": _TEXT,
            "object": {"const": "model"},
            "created": _COUNT,
            "owned_by": _TEXT,
            "model_digest": _HEX_32,
            "context_length": _COUNT,
        }
    )
