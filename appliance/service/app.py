"""The application around the routes: whatever is not let through here never reaches one.

In this order: the host, a browser's question about origins, the address, who asks, the scope, the
query string, the rate, whether the service is ready, the body. A route that is not marked is
refused to everybody, and every error has the same shape, whoever made it.
"""

from __future__ import annotations

import secrets
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from flask import Blueprint, Flask, Response, current_app, g, json, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from appliance.api.errors import (
    ApiError,
    api_error_of,
    error_of_status,
    insufficient_scope,
    invalid_api_key,
    method_not_allowed,
)
from appliance.service.access_log import AccessRecord, client_request_id
from appliance.service.endpoint import (
    EXTENSION,
    PUBLIC,
    Endpoint,
    current_service,
    endpoint_of,
)
from appliance.service.headers import (
    add_answer_headers,
    bearer,
    certificate,
    check_host,
    check_query,
    is_preflight,
    read_body,
)
from appliance.service.keys import KeysUnavailableError
from appliance.service.principals import Principal
from appliance.service.readiness import Readiness, Reason
from appliance.service.routes.all import BLUEPRINTS
from appliance.service.service import Service

_REQUEST_ID_BYTES: Final = 16
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "OPTIONS"})
_ROOT: Final = Path(__file__).parents[2]


def create_app(service: Service, blueprints: Iterable[Blueprint] = BLUEPRINTS) -> Flask:
    """Return the application of a service.

    Args:
        service: what routes get.
        blueprints: the routes.
    """
    app = Flask(
        "windhover", static_folder=None, template_folder=None, root_path=str(Path(__file__).parent)
    )
    app.config.update(
        DEBUG=False,
        TESTING=False,
        PROPAGATE_EXCEPTIONS=False,
        MAX_CONTENT_LENGTH=service.settings.limits.body_bytes,
        MAX_FORM_MEMORY_SIZE=0,
        TRAP_HTTP_EXCEPTIONS=False,
    )
    app.jinja_options = {"loader": None}
    app.session_interface.open_session = _no_session  # type: ignore[method-assign]
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False
    app.extensions[EXTENSION] = service
    app.before_request(_let_through)
    app.after_request(_finish)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _error)
    for blueprint in blueprints:
        app.register_blueprint(blueprint)
    return app


def _no_session(app: Flask, request: object) -> None:
    """There are no sessions: nothing is remembered of a browser."""


def _begin(service: Service) -> AccessRecord:
    """Start what is noted of a request."""
    rule = request.url_rule
    g.begun_ns = time.monotonic_ns()
    g.record = AccessRecord(
        time_ms=time.time_ns() // 1_000_000,
        request_id=secrets.token_hex(_REQUEST_ID_BYTES),
        route="-" if rule is None else rule.rule,
        method=request.method if request.method in _METHODS else "-",
        client_request_id=client_request_id(request.headers.get("X-Request-Id")),
    )
    record: AccessRecord = g.record
    return record


def _let_through() -> Response | None:
    service = current_service()
    record = _begin(service)
    settings = service.settings
    check_host(request, settings.hosts | service.extra_hosts)
    if is_preflight(request) and request.headers.get("Origin") in settings.server.cors_origins:
        return Response(status=204)
    if request.routing_exception is not None:
        raise request.routing_exception
    view = current_app.view_functions.get(request.endpoint or "")
    mark = None if view is None else endpoint_of(view)
    if mark is None or mark.scope != PUBLIC:
        g.principal = principal = _principal(service)
        record.principal, record.key_id = principal.id.hex(), principal.key_id
        if mark is None or mark.scope not in principal.scopes:
            raise insufficient_scope("none" if mark is None else mark.scope)
        if mark.scope not in ("metrics", "status"):
            service.limits.request(principal)
    _check_form(service, mark)
    return None


def _check_form(service: Service, mark: Endpoint) -> None:
    check_query(request, mark.query)
    if mark.ready:
        service.look()
        service.state.require()
    g.body = read_body(request, is_taken=mark.body, most_bytes=service.settings.limits.body_bytes)


def _principal(service: Service) -> Principal:
    """Return who asks."""
    settings = service.settings
    der = certificate(request, is_believed=settings.auth.certificates)
    text = bearer(request)
    try:
        found = None
        if text is not None:
            found = service.keys.principal(text)
        elif der is not None:
            found = service.keys.certificate(der)
    except KeysUnavailableError:
        reason = Reason("keys", "the file of API keys cannot be used")
        raise Readiness.error(reason) from None
    if found is None:
        raise invalid_api_key()
    return found


def _http_error(error: HTTPException) -> Response:
    """Give an error of the framework our shape."""
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        methods = sorted(set(error.valid_methods) - {"OPTIONS"})
        response = error_response(method_not_allowed(methods))
        response.headers["Allow"] = ", ".join(methods)
        return response
    status = error.code or 500
    if status < 400:
        # Redirects to other spellings of an address are not made.
        status = 404
    return error_response(error_of_status(status))


def _error(error: Exception) -> Response:
    """Give any other error our shape; one that nobody expected is noted by class and place."""
    known = api_error_of(error)
    if known.status >= 500 and not isinstance(error, ApiError):
        where = place_of(error)
        current_service().note_error(type(error).__name__, where)
        if "record" in g:
            g.record.error = f"{type(error).__name__} at {where}"
    return error_response(known)


def error_response(error: ApiError) -> Response:
    """Return an error as an answer."""
    if "record" in g:
        g.record.code = error.code
    body = json.dumps(error.body(), ensure_ascii=True) + "\n"
    response = Response(body, status=error.status, mimetype="application/json")
    response.headers.update(error.headers())
    return response


def place_of(error: BaseException) -> str:
    """Return the last place in our own code that an exception passed, without any value."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(_ROOT) and "site-packages" not in path.parts:
            return f"{path.relative_to(_ROOT)}:{frame.lineno}"
    return "elsewhere"


def _finish(response: Response) -> Response:
    """Add the headers, and note the request when its last byte was made."""
    service = current_service()
    if "record" not in g:
        _begin(service)
    record, begun_ns = g.record, g.begun_ns
    record.status = response.status_code
    add_answer_headers(
        request,
        response,
        request_id=record.request_id,
        origins=service.settings.server.cors_origins,
    )

    @response.call_on_close
    def note() -> None:
        record.duration_ms = (time.monotonic_ns() - begun_ns) // 1_000_000
        service.metrics.record(record)
        service.access_log.write(record)

    return response
