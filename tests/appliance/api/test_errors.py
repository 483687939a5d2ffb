"""Errors as clients see them."""

from __future__ import annotations

import json

import httpx
import openai
import pytest

from appliance.api import errors
from appliance.api.errors import ApiError, api_error_of, error_of_status
from appliance.api.request_error import INVALID_JSON, TOO_LARGE, RequestError
from appliance.log.errors import LogDamageError, LogUnavailableError
from crypto.errors import KeyFileError
from crypto.errors import WriteError as CryptoWriteError
from engine.errors import (
    CancelledError,
    ConfigError,
    ContextLengthError,
    EngineError,
    GrammarError,
    NonFiniteError,
    SamplingError,
    TemplateError,
    WeightsError,
    WeightsUncheckedError,
)

ROWS = [
    (errors.refused("invalid_value", "m", "p"), 400, "invalid_request_error", "invalid_value"),
    (
        errors.context_length_exceeded(90, 20, 100),
        400,
        "invalid_request_error",
        "context_length_exceeded",
    ),
    (errors.invalid_api_key(), 401, "invalid_request_error", "invalid_api_key"),
    (errors.insufficient_scope("log"), 403, "permission_error", "insufficient_scope"),
    (errors.model_not_found("x", ["a"]), 404, "invalid_request_error", "model_not_found"),
    (errors.not_found("attestation"), 404, "invalid_request_error", "not_found"),
    (errors.method_not_allowed(["GET"]), 405, "invalid_request_error", "method_not_allowed"),
    (errors.length_required(), 411, "invalid_request_error", "length_required"),
    (errors.request_too_large(), 413, "invalid_request_error", "request_too_large"),
    (errors.unsupported_media_type(), 415, "invalid_request_error", "unsupported_media_type"),
    (errors.rate_limit_exceeded("x", 3), 429, "rate_limit_error", "rate_limit_exceeded"),
    (errors.overloaded(7), 503, "server_error", "overloaded"),
    (errors.not_ready("loading", 5), 503, "server_error", "not_ready"),
    (errors.deadline_exceeded(), 503, "server_error", "deadline_exceeded"),
    (errors.engine_error(), 500, "server_error", "engine_error"),
    (errors.integrity_error(), 500, "server_error", "integrity_error"),
    (errors.attestation_error(), 500, "server_error", "attestation_error"),
]


@pytest.mark.parametrize(("error", "status", "kind", "code"), ROWS, ids=[row[3] for row in ROWS])
def test_a_row_of_the_table(error: ApiError, status: int, kind: str, code: str):
    assert error.status == status
    body = json.loads(json.dumps(error.body()))
    assert body == {
        "error": {"message": str(error), "type": kind, "param": error.param, "code": code}
    }
    assert str(error)
    headers = error.headers()
    assert ("WWW-Authenticate" in headers) == (status == 401)
    waits = code in ("rate_limit_exceeded", "overloaded", "not_ready")
    assert ("Retry-After" in headers) == waits
    stops = status == 500 or code == "deadline_exceeded"
    assert headers.get("x-should-retry") == ("false" if stops else None)


def test_waiting_is_at_least_a_second_and_not_promised_in_vain():
    assert errors.rate_limit_exceeded("x", 0).headers()["Retry-After"] == "1"
    assert errors.overloaded(0).headers()["Retry-After"] == "1"
    assert errors.not_ready("broken", None).headers() == {"x-should-retry": "false"}


@pytest.mark.parametrize(
    ("error", "status", "code", "param"),
    [
        (RequestError("seed", "m"), 400, "invalid_value", "seed"),
        (RequestError(None, "m", code=INVALID_JSON), 400, "invalid_json", None),
        (RequestError(None, "m", code=TOO_LARGE), 413, "request_too_large", None),
        (ConfigError("m"), 400, "invalid_value", None),
        (GrammarError("pattern", "is not supported"), 400, "unsupported_parameter", None),
        (ContextLengthError(9, 2, 10), 400, "context_length_exceeded", None),
        (TemplateError("m"), 400, "invalid_value", "messages"),
        (SamplingError("m"), 400, "invalid_value", None),
        (WeightsError("secret"), 500, "integrity_error", None),
        (WeightsUncheckedError("secret"), 500, "engine_error", None),
        (CancelledError("secret"), 503, "not_ready", None),
        (LogUnavailableError("full", "secret"), 500, "attestation_error", None),
        (LogDamageError("forked", "secret"), 500, "attestation_error", None),
        (KeyFileError("x", "secret"), 500, "attestation_error", None),
        (CryptoWriteError("secret"), 500, "attestation_error", None),
        (NonFiniteError("secret"), 500, "engine_error", None),
        (EngineError("secret"), 500, "engine_error", None),
        (KeyError("secret"), 500, "engine_error", None),
        (MemoryError("secret"), 500, "engine_error", None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_errors_become_answers_without_the_inside(
    error: Exception, status: int, code: str, param: str | None
):
    told = api_error_of(error)
    assert (told.status, told.code, told.param) == (status, code, param)
    assert "secret" not in json.dumps(told.body())
    assert api_error_of(told) is told


def test_what_is_too_long_is_told_with_its_numbers():
    told = api_error_of(ContextLengthError(300, 20, 256))
    assert {"300", "20", "256"} <= set(str(told).replace(";", "").split())


@pytest.mark.parametrize("status", [*range(400, 419), 421, 422, 426, 429, 431, 451, 500, 501, 503])
def test_every_status_of_the_framework_has_the_one_shape(status: int):
    told = error_of_status(status)
    assert told.status == (status if status < 500 else 500)
    assert list(told.body()["error"]) == ["message", "type", "param", "code"]


def test_a_status_that_nobody_knows():
    assert error_of_status(499).status == 400
    assert error_of_status(599).status == 500


def test_a_name_of_the_client_s_is_shown_harmlessly():
    told = errors.model_not_found("\x1b[2J" + "é" * 500, ["a", "b"])
    assert str(told).isascii()
    assert str(told).isprintable()
    assert "a, b" in str(told)
    assert len(str(told)) < 400


@pytest.mark.parametrize(("error", "status", "kind", "code"), ROWS, ids=[row[3] for row in ROWS])
def test_the_client_library_reads_every_field(error: ApiError, status: int, kind: str, code: str):
    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(error.status, json=error.body(), headers=error.headers())

    client = openai.OpenAI(
        api_key="k",
        base_url="http://appliance/v1",
        max_retries=0,
        http_client=httpx.Client(transport=httpx.MockTransport(handler)),
    )
    with client, pytest.raises(openai.APIStatusError) as caught:
        client.models.list()
    found = caught.value
    assert (found.status_code, found.type, found.code, found.param) == (
        status,
        kind,
        code,
        error.param,
    )
