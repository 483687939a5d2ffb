"""Every refusal of a request by its name, place and code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appliance.api.errors import api_error_of
from appliance.api.parse import parse_request
from appliance.api.request_error import RequestError

DATA = Path(__file__).parents[2] / "data" / "api" / "refusals.json"
CASES = json.loads(DATA.read_text(encoding="ascii"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_request_is_refused_by_place_and_code(case: dict[str, str]):
    with pytest.raises(RequestError) as caught:
        parse_request(case["path"], case["body"].encode())
    error = caught.value
    assert (error.param, error.code) == (case["param"], case["code"])
    assert str(error).isprintable()
    told = api_error_of(error)
    assert (told.status, told.param, told.code) == (400, case["param"], case["code"])
    assert str(told) == str(error)


def test_half_a_pair_is_named_by_its_character():
    case = CASES[0]
    with pytest.raises(RequestError, match=r"messages\[0\].content: .* at character 2"):
        parse_request(case["path"], case["body"].encode())
