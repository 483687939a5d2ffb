"""What a route says about itself: who may ask it, and in which form.

A route that says nothing is refused to everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar

from flask import current_app, g, request

from appliance.api.errors import not_ready
from appliance.service.access_log import AccessRecord
from appliance.service.asked import NONCE_HEADER, Asked, nonce_of
from appliance.service.principals import SCOPES, Principal
from appliance.service.service import Service

if TYPE_CHECKING:
    from appliance.service.answering import Answering

PUBLIC: Final = "public"
EXTENSION: Final = "windhover"

_MARK: Final = "_windhover_endpoint"
_RETRY_AFTER_S: Final = 5
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Endpoint(NamedTuple):
    """What a view says.

    scope: the one that is needed, `public` for none and no key either. query: names that may stand
    in the query string. body: whether it takes JSON. ready: whether it needs a model.
    """

    scope: str
    query: frozenset[str]
    body: bool
    ready: bool


def endpoint(
    scope: str, *, query: tuple[str, ...] = (), body: bool = False, ready: bool = False
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Mark a view; stands below the decorator that routes to it.

    Args:
        scope: one of `SCOPES`, or `public`.
        query: names that may stand in the query string, once each.
        body: whether it takes a body of JSON, which `request_body` returns.
        ready: whether it is refused with 503 while the service is not ready.
    """
    if scope != PUBLIC and scope not in SCOPES:
        raise ValueError(f"{scope} is no scope")
    mark = Endpoint(scope, frozenset(query), body, ready)

    def decorate(view: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        setattr(view, _MARK, mark)
        return view

    return decorate


def endpoint_of(view: Callable[..., Any]) -> Endpoint | None:
    """Return what a view says about itself; None where it says nothing."""
    mark: Endpoint | None = getattr(view, _MARK, None)
    return mark


def current_service() -> Service:
    """Return the service that this application belongs to."""
    service: Service = current_app.extensions[EXTENSION]
    return service


def current_principal() -> Principal:
    """Return who asks; not of a public route."""
    principal: Principal = g.principal
    return principal


def current_record() -> AccessRecord:
    """Return what will be noted of this request; a stream keeps the object, and fills it in."""
    record: AccessRecord = g.record
    return record


def request_body() -> bytes:
    """Return the body as it was received; its length has been checked."""
    body: bytes = g.body
    return body


def current_asked() -> Asked:
    """Return this request for what answers it; ApiError as of `nonce_of`."""
    return Asked(
        path=request.path,
        body=request_body(),
        principal=current_principal(),
        nonce=nonce_of(request.headers.getlist(NONCE_HEADER)),
        record=current_record(),
    )


def current_answering() -> Answering:
    """Return what answers requests; ApiError 503 not_ready before it is there."""
    answering = current_service().answering
    if answering is None:
        raise not_ready("the service is starting", _RETRY_AFTER_S)
    return answering


def client_is_gone() -> Callable[[], bool]:
    """Return what tells whether the client has left; to be called while answering."""
    found: Callable[[], bool] = request.environ.get("waitress.client_disconnected", _never)
    return found


def _never() -> bool:
    return False
