"""JSON that is spoiled: an answer or a refusal in the one shape, never a failure of the service."""

from __future__ import annotations

import json
import os
from collections import Counter

import pytest

from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH
from tests.appliance.hostile.bodies import TEXTS, VALID, spoiled
from tests.appliance.hostile.mutations import Draws
from tests.appliance.hostile.target import Target
from tests.engine.grammar.bombs import BOMBS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prober", "unharmed")]

MOST_MESSAGE_CHARACTERS = 600
NUM_BODIES = int(os.environ.get("WINDHOVER_FUZZ_BODIES", "5000"))


def ask(target: Target, path: str, body: bytes) -> int:
    """Send a body; return the status, after everything that holds for every answer was checked."""
    status, data = target.send("POST", path, body)
    assert b"Traceback" not in data
    if status != 200:
        assert 400 <= status < 500, (status, path, body[:300], data)
        error = json.loads(data)["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
        shown = error["message"] + (error["param"] or "")
        assert len(shown) < MOST_MESSAGE_CHARACTERS, shown
        assert data.isascii()
    elif data.startswith(b"data: "):
        assert b'"error"' not in data, (body[:300], data)
        assert data.endswith(b"data: [DONE]\n\n")
    elif path != EMBEDDINGS_PATH:
        target.assert_attested(json.loads(data), path, body)
    return status


def attack(target: Target, seed: str, number: int) -> Counter[int]:
    """Send spoiled bodies; return how many answers had which status."""
    draws = Draws(seed)
    return Counter(ask(target, *spoiled(draws)) for _ in range(number))


@pytest.mark.ci
def test_what_is_spoiled_was_answered_before(target: Target) -> None:
    for path, body in VALID:
        status = ask(target, path, json.dumps(body).encode())
        assert status == 200 or path == EMBEDDINGS_PATH


@pytest.mark.ci
def test_spoiled_bodies_are_answered_or_refused(target: Target) -> None:
    statuses = attack(target, "bodies", 300)
    assert statuses[200] > 0
    assert statuses[400] > statuses[200]


def test_spoiled_bodies_at_length(target: Target) -> None:
    assert attack(target, "bodies at length", NUM_BODIES)[400] > 0


@pytest.mark.ci
@pytest.mark.parametrize("path", [CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH])
def test_bodies_that_are_no_object(target: Target, path: str) -> None:
    for text in TEXTS:
        # of an empty object something is missing, so that none of these is a request
        for data in (text, f" {text}\n", f'{{"model":"model","x":{text}}}'):
            assert ask(target, path, data.encode("utf-8", "surrogatepass")) == 400
    for data in (
        b"",
        b" ",
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"\xed\xa0\x80":1}',
        b"\xc0\x80",
    ):
        assert ask(target, path, data) == 400
    for coding in ("utf-16", "utf-16-le", "utf-32"):
        assert ask(target, path, json.dumps(VALID[0][1]).encode(coding)) == 400


@pytest.mark.ci
@pytest.mark.parametrize("name", BOMBS)
def test_schemas_whose_parts_multiply(target: Target, name: str) -> None:
    schema, is_taken = BOMBS[name]
    form = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    body = {**VALID[0][1], "max_tokens": 8, "response_format": form}
    assert ask(target, CHAT_PATH, json.dumps(body).encode()) == (200 if is_taken else 400)


@pytest.mark.ci
def test_a_schema_that_leads_nowhere_is_refused_by_name(target: Target) -> None:
    schema = {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    form = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    body = json.dumps({**VALID[0][1], "response_format": form}).encode()
    status, data = target.send("POST", CHAT_PATH, body)
    assert status == 400
    assert "$ref" in json.loads(data)["error"]["message"]
