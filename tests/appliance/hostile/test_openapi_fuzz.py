"""Requests made from the published document, right and wrong ones, against the whole service."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from appliance.api.openapi import Route, openapi_document, routes
from tests.appliance.hostile.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prober", "unharmed")]

DOCUMENT = json.loads(json.dumps(openapi_document("model")))
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
ROUTES = routes()
CHECKS: list[Any] = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
FEW, MANY = 8, int(os.environ.get("WINDHOVER_FUZZ_CASES", "60"))
JSON = "application/json"


def test_the_document_is_the_one_that_is_served(target: Target) -> None:
    assert json.loads(target.get("/openapi.json")[1]) == DOCUMENT


def check(case: Any, target: Target, headers: dict[str, str]) -> int:
    """Send a case; return the status, after everything that holds for every answer was checked."""
    given_headers = {**(case.headers or {}), **headers}
    if case.headers is not None and not headers:
        given_headers.pop("Authorization", None)
    case.headers = given_headers
    response = case.call(base_url=target.url, timeout=60)
    status: int = response.status_code
    assert b"Traceback" not in response.content
    if status == 503:
        assert response.headers["retry-after"]
    else:
        assert status < 500, response.content
    if status >= 400:
        error = response.json()["error"]
        assert error.keys() == {"message", "type", "param", "code"}
    case.validate_response(response, checks=CHECKS)
    return status


def fuzz(
    target: Target, route: Route, mode: GenerationMode, number: int, look: Callable[[Any], None]
) -> None:
    """Make cases of a route and look at each."""
    operation = SCHEMA[route.path][route.method.upper()]

    @settings(
        max_examples=number,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        look(case)

    run()


def has_negative(route: Route) -> bool:
    return route.request is not None or bool(route.parameters)


@pytest.mark.ci
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_with_a_key(target: Target, route: Route) -> None:
    key = {"Authorization": f"Bearer {target.key}"}
    statuses: list[int] = []
    fuzz(
        target,
        route,
        GenerationMode.POSITIVE,
        FEW,
        lambda case: statuses.append(check(case, target, key)),
    )
    assert statuses


@pytest.mark.ci
@pytest.mark.parametrize("route", list(filter(has_negative, ROUTES)), ids=lambda each: each.path)
def test_with_a_key_and_wrong(target: Target, route: Route) -> None:
    key = {"Authorization": f"Bearer {target.key}"}
    fuzz(target, route, GenerationMode.NEGATIVE, FEW, lambda case: check(case, target, key))


@pytest.mark.ci
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_without_a_key(target: Target, route: Route) -> None:
    def look(case: Any) -> None:
        status = check(case, target, {})
        assert (status == 401) == (route.scope is not None)

    fuzz(target, route, GenerationMode.POSITIVE, 3, look)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_at_length(target: Target, route: Route) -> None:
    key = {"Authorization": f"Bearer {target.key}"}
    modes = [GenerationMode.POSITIVE] + [GenerationMode.NEGATIVE] * has_negative(route)
    for mode in modes:
        fuzz(target, route, mode, MANY, lambda case: check(case, target, key))
