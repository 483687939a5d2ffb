"""Constrained answers: an honest one passes A5, and an id that the grammar excludes is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.attestation import Answer, Attestor
from appliance.audit.findings import PASS
from engine.model import Model
from tests.appliance.audit.case import Lie, attested
from tests.appliance.audit.test_replay_steps import audit, failures

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 10, "maximum": 99}},
    "required": ["n"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
ASKED: dict[str, dict[str, Any]] = {
    "object": {"response_format": {"type": "json_object"}},
    "schema": {"response_format": FORMAT},
    "forced": {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
    "auto": {"tools": TOOLS},
}


@pytest.mark.parametrize("name", ASKED)
def test_an_honest_constrained_answer_passes(
    attestor: Attestor, tiny_model: Model, name: str
) -> None:
    bundle, generation = attested(attestor, tiny_model, max_tokens=70, **ASKED[name])
    assert audit(bundle, tiny_model).verdict == (PASS, "ok")
    if name == "schema":
        assert generation.text.startswith('{"n":')
        assert generation.finish_reason.value == "stop"


def test_an_id_that_the_grammar_excludes_is_found(attestor: Attestor, tiny_model: Model) -> None:
    place = 2

    def swapped(answer: Answer) -> Answer:
        ids = list(answer.output_ids)
        ids[place] = ids[0]
        return replace(answer, output_ids=tuple(ids))

    lie = Lie(change=swapped)
    bundle, generation = attested(attestor, tiny_model, lie, max_tokens=80, **ASKED["schema"])
    found = failures(audit(bundle, tiny_model))
    assert found["answer"][0] == "choice"
    position = generation.prompt_tokens + place
    assert found["choices"] == ("choice", position)


def test_an_answer_that_never_saw_its_grammar_is_found(
    attestor: Attestor, tiny_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unbound:
        """Compiles nothing."""

        def compile(self, _spec: object) -> None:
            return None

    with monkeypatch.context() as patched:
        patched.setitem(tiny_model.__dict__, "grammars", Unbound())
        bundle, _ = attested(attestor, tiny_model, **ASKED["schema"])
    found = failures(audit(bundle, tiny_model))
    assert found["choices"][0] == "choice"
