"""Errors as clients see them: one shape for every status, and nothing of the inside in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from appliance.api.json_body import MAX_BODY_BYTES, shown
from appliance.api.request_error import TOO_LARGE, UNSUPPORTED, RequestError
from crypto.errors import CryptoError
from engine.errors import (
    CancelledError,
    ConfigError,
    ContextLengthError,
    EngineError,
    GrammarError,
    SamplingError,
    TemplateError,
    WeightsError,
)

INVALID_REQUEST: Final = "invalid_request_error"
PERMISSION: Final = "permission_error"
RATE_LIMIT: Final = "rate_limit_error"
SERVER: Final = "server_error"

_WAIT_AFTER_CANCEL_S: Final = 5


@dataclass(eq=False)
class ApiError(Exception):
    """A refusal or a failure, ready to be sent.

    Attributes:
        status: of HTTP, 400 .. 599.
        type: the class of the error, one of the four constants above.
        code: what it is, for programs.
        message: what it is, for people.
        param: the field that the client has to mend, None where the whole is meant.
        retry_after_s: when to try again, None where that would not help or is not known.
        should_retry: what the client libraries are told; None leaves it to the status.
    """

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    retry_after_s: int | None = None
    should_retry: bool | None = None

    def __str__(self) -> str:
        """Return the message."""
        return self.message

    def body(self) -> dict[str, object]:
        """Return the JSON of the answer; also the data of an event in a stream that breaks off."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }

    def headers(self) -> dict[str, str]:
        """Return the headers that go with it."""
        headers = {}
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        if self.retry_after_s is not None:
            headers["Retry-After"] = str(self.retry_after_s)
        if self.should_retry is not None:
            headers["x-should-retry"] = "true" if self.should_retry else "false"
        return headers


def refused(code: str, message: str, param: str | None = None) -> ApiError:
    """Return the 400 of a request that is not answered."""
    return ApiError(400, INVALID_REQUEST, code, message, param)


def context_length_exceeded(prompt_tokens: int, max_tokens: int, limit_tokens: int) -> ApiError:
    """Return the 400 of a request that does not fit, with all numbers."""
    message = str(ContextLengthError(prompt_tokens, max_tokens, limit_tokens))
    return refused("context_length_exceeded", message)


def invalid_api_key() -> ApiError:
    """Return the 401 of a request without a valid key; it does not say what is wrong with it."""
    message = "no valid API key was given; send it as `Authorization: Bearer KEY`"
    return ApiError(401, INVALID_REQUEST, "invalid_api_key", message)


def insufficient_scope(scope: str) -> ApiError:
    """Return the 403 of a key that may not do this."""
    message = f"this key lacks the scope {scope}"
    return ApiError(403, PERMISSION, "insufficient_scope", message)


def model_not_found(name: str, served: Sequence[str]) -> ApiError:
    """Return the 404 of a model that is not served."""
    message = f"the model {shown(name)!r} is not served here; there is: {', '.join(served)}"
    return ApiError(404, INVALID_REQUEST, "model_not_found", message, "model")


def not_found(what: str) -> ApiError:
    """Return the 404 of anything else, or of what belongs to somebody else."""
    return ApiError(404, INVALID_REQUEST, "not_found", f"there is no such {what}")


def method_not_allowed(allowed: Sequence[str]) -> ApiError:
    """Return the 405; the caller adds the header `Allow`."""
    message = f"this address takes only {', '.join(allowed)}"
    return ApiError(405, INVALID_REQUEST, "method_not_allowed", message)


def length_required() -> ApiError:
    """Return the 411 of a body without a length."""
    message = "the request has no Content-Length"
    return ApiError(411, INVALID_REQUEST, "length_required", message)


def request_too_large(most_bytes: int = MAX_BODY_BYTES) -> ApiError:
    """Return the 413 of a body that is too large."""
    message = f"the body is longer than {most_bytes} bytes"
    return ApiError(413, INVALID_REQUEST, TOO_LARGE, message)


def unsupported_media_type() -> ApiError:
    """Return the 415 of a body that does not call itself JSON."""
    message = "the Content-Type must be application/json"
    return ApiError(415, INVALID_REQUEST, "unsupported_media_type", message)


def rate_limit_exceeded(what: str, retry_after_s: int) -> ApiError:
    """Return the 429 of a key that asks too much.

    Args:
        what: which limit, such as `requests per minute`.
        retry_after_s: when there is room again.
    """
    message = f"this key is over its limit of {what}"
    return ApiError(
        429, RATE_LIMIT, "rate_limit_exceeded", message, retry_after_s=max(1, retry_after_s)
    )


def overloaded(retry_after_s: int) -> ApiError:
    """Return the 503 of a full queue."""
    message = f"all places are taken; about {retry_after_s} seconds until one is free"
    return ApiError(503, SERVER, "overloaded", message, retry_after_s=max(1, retry_after_s))


def not_ready(reason: str, retry_after_s: int | None) -> ApiError:
    """Return the 503 of an appliance that is loading, draining or broken.

    Args:
        reason: for people.
        retry_after_s: None where waiting does not help.
    """
    return ApiError(
        503,
        SERVER,
        "not_ready",
        reason,
        retry_after_s=retry_after_s,
        should_retry=None if retry_after_s is not None else False,
    )


def deadline_exceeded() -> ApiError:
    """Return the 503 of a request whose time ran out; trying again would only take as long."""
    message = "the time for this request ran out"
    return ApiError(503, SERVER, "deadline_exceeded", message, should_retry=False)


def engine_error() -> ApiError:
    """Return the 500 of a failure that another attempt would only repeat."""
    message = "the engine failed; the operator finds the request id in the log"
    return ApiError(500, SERVER, "engine_error", message, should_retry=False)


def integrity_error() -> ApiError:
    """Return the 500 of weights that no longer verify."""
    message = "the weights no longer verify; nothing more is answered"
    return ApiError(500, SERVER, "integrity_error", message, should_retry=False)


def attestation_error() -> ApiError:
    """Return the 500 of an answer that could not be attested, and was therefore not given."""
    message = "the answer could not be attested, so it is not given"
    return ApiError(500, SERVER, "attestation_error", message, should_retry=False)


_OF_STATUS: Final = {
    401: invalid_api_key,
    404: lambda: not_found("address"),
    405: lambda: method_not_allowed(("another method",)),
    411: length_required,
    413: request_too_large,
    415: unsupported_media_type,
}


def error_of_status(status: int) -> ApiError:
    """Return the error of a status that the framework gave."""
    if status in _OF_STATUS:
        return _OF_STATUS[status]()
    if not 400 <= status < 500:
        return engine_error()
    try:
        known = HTTPStatus(status)
    except ValueError:
        return refused("invalid_request", "the request is refused")
    return ApiError(status, INVALID_REQUEST, known.name.lower(), known.phrase.lower())


def api_error_of(error: Exception) -> ApiError:
    """Return what a client is told about an error; of failures inside no detail.

    A request's own mistakes are told as they are; everything else by its class.
    """
    match error:
        case ApiError():
            return error
        case RequestError(code=code) if code == TOO_LARGE:
            return request_too_large()
        case RequestError():
            return refused(error.code, str(error), error.param)
        case ContextLengthError():
            return context_length_exceeded(
                error.prompt_tokens, error.max_tokens, error.limit_tokens
            )
        case TemplateError():
            return refused("invalid_value", str(error), "messages")
        case GrammarError():
            return refused(UNSUPPORTED, str(error))
        case ConfigError() | SamplingError():
            return refused("invalid_value", str(error))
        case WeightsError():
            return integrity_error()
        case CancelledError():
            return not_ready("the request was cancelled", _WAIT_AFTER_CANCEL_S)
        case CryptoError():
            return attestation_error()
        case EngineError():  # also weights that could not be read: nothing says that they are wrong
            return engine_error()
        case _:
            return engine_error()
