"""The OpenAPI document: every route, what it takes and what it may answer.

Source: OpenAPI Specification 3.1.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from appliance.api.openapi_answers import answer_schemas, ref
from appliance.api.openapi_requests import request_schemas
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH
from engine.version import RUNTIME_VERSION

Schema: TypeAlias = dict[str, Any]

_READY: Final = "/ready"
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_CBOR: Final = "application/cbor"
_TEXT: Final[Schema] = {"type": "string"}

_DESCRIPTIONS: Final = {
    400: "The request is not answered; `param` names the field.",
    401: "No valid key.",
    403: "The key lacks a scope.",
    404: "There is no such thing, or it is somebody else's.",
    405: "The address takes other methods.",
    411: "The request has no Content-Length.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    429: "The key is over a limit.",
    500: "A failure; it would happen again.",
    503: "Not ready, overloaded, or out of time.",
}
_WITH_RETRY_AFTER: Final = (429, 503)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route of the service.

    Attributes:
        path: as of OpenAPI, parameters in braces.
        method: `get` or `post`.
        scope: that a key needs, None for a public route.
        summary: one line.
        answers: media type and schema of the answer 200.
        request: the schema component of the body, None without a body.
        parameters: of path and query.
        statuses: of errors that are possible beside those of every route.
    """

    path: str
    method: str
    scope: str | None
    summary: str
    answers: dict[str, Schema]
    request: str | None = None
    parameters: tuple[Schema, ...] = ()
    statuses: tuple[int, ...] = ()


def routes() -> tuple[Route, ...]:
    """Return every route of the interface; pages and their assets are not part of it."""
    return (*_generating(), *_reading(), *_public())


def openapi_document(served_model: str) -> dict[str, Any]:
    """Return the document of a service.

    Args:
        served_model: the name of its model, the only one that requests may give.
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in routes():
        paths.setdefault(route.path, {})[route.method] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Windhover",
            "version": ".".join(map(str, RUNTIME_VERSION)),
            "description": "An OpenAI-compatible interface whose answers carry an attestation.",
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": {**request_schemas(served_model), **answer_schemas(served_model)},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    statuses = {400, 405, 500, *route.statuses}
    if route.scope is not None:
        statuses |= {401, 403, 429, 503}
    if route.request is not None:
        statuses |= {411, 413, 415}
    content = {media: {"schema": schema} for media, schema in route.answers.items()}
    responses: dict[str, Any] = {
        "200": {"description": "The answer.", "headers": _headers(route), "content": content}
    }
    responses |= {str(status): _error(status) for status in sorted(statuses)}
    if route.path == _READY:
        responses["503"]["content"] = content  # why not, in the shape of the answer
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "responses": responses,
    }
    if route.scope is None:
        operation["security"] = []
    else:
        operation["description"] = f"Needs the scope `{route.scope}`."
    if route.parameters:
        operation["parameters"] = list(route.parameters)
    if route.request is not None:
        body = {_JSON: {"schema": ref(route.request)}}
        operation["requestBody"] = {"required": True, "content": body}
    return operation


def _operation_id(route: Route) -> str:
    words = route.path.replace("{", "by ").replace("}", "").replace("/", " ").replace(".", " ")
    return "_".join([route.method, *words.replace("-", " ").split()])


def _headers(route: Route) -> dict[str, Any]:
    headers = {"X-Request-Id": {"schema": _TEXT}}
    if route.request is not None:
        headers["Windhover-Attestation"] = {"schema": _TEXT}
    return headers


def _error(status: int) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": _DESCRIPTIONS[status],
        "content": {_JSON: {"schema": ref("Error")}},
    }
    if status in _WITH_RETRY_AFTER:
        response["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return response


def _generating() -> tuple[Route, ...]:
    nonce = {
        "name": "Windhover-Nonce",
        "in": "header",
        "required": False,
        "description": "Chosen by the client and repeated in the statement: 16 .. 64 bytes.",
        "schema": {"type": "string", "pattern": "^([0-9a-fA-F]{2}){16,64}$"},
    }
    return (
        Route(
            path=CHAT_PATH,
            method="post",
            scope="generate",
            summary="Answer a conversation",
            answers={_JSON: ref("ChatCompletion"), _EVENTS: _TEXT},
            request="ChatRequest",
            parameters=(nonce,),
            statuses=(404,),
        ),
        Route(
            path=COMPLETIONS_PATH,
            method="post",
            scope="generate",
            summary="Continue a text",
            answers={_JSON: ref("TextCompletion"), _EVENTS: _TEXT},
            request="CompletionRequest",
            parameters=(nonce,),
            statuses=(404,),
        ),
        Route(
            path=EMBEDDINGS_PATH,
            method="post",
            scope="embeddings",
            summary="Embed texts",
            answers={_JSON: ref("Embeddings")},
            request="EmbeddingRequest",
            parameters=(nonce,),
            statuses=(404,),
        ),
    )


def _reading() -> tuple[Route, ...]:
    return (
        _get("/v1/models", "models", "List the model", ref("Models")),
        _get(
            "/v1/models/{id}",
            "models",
            "Describe the model",
            ref("Model"),
            parameters=(_in_path("id"),),
            statuses=(404,),
        ),
        Route(
            path="/v1/attestations/{id}",
            method="get",
            scope="attestations",
            summary="Get the attestation of an answer",
            answers={_JSON: ref("AttestationRecord"), _CBOR: {}},
            parameters=(
                _in_path("id"),
                {
                    "name": "format",
                    "in": "query",
                    "required": False,
                    "schema": {"enum": ["json", "bundle"]},
                },
            ),
            statuses=(400, 404),
        ),
        _get("/v1/log/checkpoint", "log", "Get the newest checkpoint", ref("Anything")),
        _get(
            "/v1/log/inclusion",
            "log",
            "Prove that an entry is in the log",
            ref("Anything"),
            parameters=(_in_query("index"), _in_query("size", is_required=False)),
            statuses=(400, 404),
        ),
        _get(
            "/v1/log/consistency",
            "log",
            "Prove that the log only grew",
            ref("Anything"),
            parameters=(_in_query("first"), _in_query("second", is_required=False)),
            statuses=(400, 404),
        ),
        _get("/v1/status", "status", "Describe the state of the service", ref("Anything")),
        _get("/metrics", "metrics", "Get numbers for Prometheus", _TEXT, media="text/plain"),
    )


def _public() -> tuple[Route, ...]:
    return (
        _get("/health", None, "Tell that the process answers", ref("Health")),
        _get(_READY, None, "Tell whether requests are answered", ref("Ready"), statuses=(503,)),
        _get(
            "/.well-known/windhover",
            None,
            "Get keys and digests to verify with",
            ref("Anything"),
            statuses=(503,),
        ),
        _get("/openapi.json", None, "Get this document", ref("Anything"), statuses=(503,)),
    )


def _get(
    path: str,
    scope: str | None,
    summary: str,
    schema: Schema,
    *,
    media: str = _JSON,
    parameters: tuple[Schema, ...] = (),
    statuses: tuple[int, ...] = (),
) -> Route:
    return Route(
        path=path,
        method="get",
        scope=scope,
        summary=summary,
        answers={media: schema},
        parameters=parameters,
        statuses=statuses,
    )


def _in_path(name: str) -> Schema:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _in_query(name: str, *, is_required: bool = True) -> Schema:
    """Return a number of the query; where it may be missing the newest tree is meant."""
    schema = {"type": "integer", "minimum": 0}
    return {"name": name, "in": "query", "required": is_required, "schema": schema}
