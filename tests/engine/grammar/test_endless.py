"""References that lead nowhere: refused, since no answer could follow them to an end."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import GrammarError
from engine.grammar.schema import Budget, read_schema
from tests.engine.grammar.support import drawn, of_schema

SELF: dict[str, Any] = {"$ref": "#/$defs/a"}
NEEDS_SELF = {"type": "object", "properties": {"n": SELF}, "required": ["n"]}


def defined(schema: object, **others: object) -> dict[str, Any]:
    return {"$defs": {"a": schema, **others}, **SELF}


ENDLESS: dict[str, dict[str, Any]] = {
    "itself": defined(SELF),
    "the root": {"$ref": "#"},
    "two of each other": defined({"$ref": "#/$defs/b"}, b=SELF),
    "one way of one": defined({"anyOf": [SELF]}),
    "every way of several": defined({"oneOf": [SELF, {"$ref": "#/$defs/b"}]}, b=NEEDS_SELF),
    "all of": defined({"allOf": [SELF]}),
    "a member that must be there": defined(NEEDS_SELF),
    "a free member that must be there": defined(
        {"type": "object", "additionalProperties": SELF, "required": ["n"]}
    ),
    "some member": defined(
        {
            "type": "object",
            "properties": {"n": SELF},
            "additionalProperties": False,
            "minProperties": 1,
        }
    ),
    "an element that must be there": defined({"type": "array", "items": SELF, "minItems": 1}),
    "the first element": defined({"type": "array", "prefixItems": [SELF], "minItems": 1}),
    "in a definition that nobody uses": {"$defs": {"a": SELF}, "type": "null"},
    "in a member that may be left out": {
        "$defs": {"a": NEEDS_SELF},
        "type": "object",
        "properties": {"x": SELF},
    },
    "nothing at all": {"$defs": {"a": False}, "anyOf": [SELF, {"type": "null"}]},
    "the older word": {
        "definitions": {"a": {"$ref": "#/definitions/a"}},
        "$ref": "#/definitions/a",
    },
}
FINITE: dict[str, dict[str, Any]] = {
    "a member that may be left out": defined({"type": "object", "properties": {"n": SELF}}),
    "another way": defined({"anyOf": [NEEDS_SELF, {"type": "null"}]}),
    "another way, itself the first": defined({"anyOf": [SELF, {"type": "null"}]}),
    "no element": defined({"type": "array", "items": SELF}),
    "an element after which it ends": defined(
        {"type": "array", "prefixItems": [{"type": "null"}], "items": SELF, "minItems": 1}
    ),
    "another type": defined({**NEEDS_SELF, "type": ["object", "null"]}),
    "a tree": {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["children"],
    },
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_reference_that_no_finite_value_satisfies_is_refused(name: str) -> None:
    with pytest.raises(GrammarError) as caught:
        of_schema(ENDLESS[name])
    assert caught.value.keyword == "$ref"


@pytest.mark.parametrize("name", FINITE)
def test_a_reference_that_comes_to_an_end_is_taken(name: str) -> None:
    grammar = of_schema(FINITE[name])
    check = jsonschema_rs.Draft202012Validator(FINITE[name])
    answers = [drawn(grammar, seed, most=400) for seed in range(8)]
    whole = [data for data, is_whole in answers if is_whole]
    assert whole
    for data in whole:
        check.validate(json.loads(data))


def schemas() -> st.SearchStrategy[Any]:
    reference = st.sampled_from("abc").map(lambda name: {"$ref": f"#/$defs/{name}"})
    leaf = reference | st.sampled_from([{"type": "null"}, {"type": "integer"}, {"const": 1}])

    def more(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        options = st.lists(inner, min_size=1, max_size=2)
        members = st.dictionaries(st.sampled_from("xy"), inner, min_size=1, max_size=2)
        return (
            st.builds(lambda each: {"anyOf": each}, options)
            | st.builds(lambda each: {"allOf": each[:1]}, options)
            | st.builds(
                lambda each, least: {"type": "array", "items": each, "minItems": least},
                inner,
                st.integers(0, 1),
            )
            | st.builds(
                lambda each, needed: {
                    "type": "object",
                    "properties": each,
                    "required": list(each)[:needed],
                },
                members,
                st.integers(0, 2),
            )
        )

    return st.recursive(leaf, more, max_leaves=4)


@given(st.fixed_dictionaries({name: schemas() for name in "abc"}))
def test_what_is_taken_has_an_answer_of_bounded_depth(definitions: dict[str, Any]) -> None:
    schema = {"$defs": definitions, "$ref": "#/$defs/a"}
    try:
        read_schema(json.dumps(schema), Budget())
        refusal = None
    except GrammarError as error:
        refusal = error.keyword
    # the same question by another way: try all definitions together, deeper and deeper
    ends = {f"#/$defs/{name}": False for name in definitions}
    for _ in range(len(ends) + 1):
        ends |= {f"#/$defs/{name}": _ends(each, ends) for name, each in definitions.items()}
    used = {word for word in ends if f'"{word}"' in json.dumps(schema)}
    assert refusal == (None if all(ends[target] for target in used) else "$ref")


def _ends(schema: dict[str, Any], known: dict[str, bool]) -> bool:
    if "$ref" in schema:
        return known[schema["$ref"]]
    if "anyOf" in schema:
        return any(_ends(each, known) for each in schema["anyOf"])
    if "allOf" in schema:
        return all(_ends(each, known) for each in schema["allOf"])
    if schema.get("type") == "array":
        return schema["minItems"] == 0 or _ends(schema["items"], known)
    properties = schema.get("properties", {})
    return all(_ends(properties[name], known) for name in schema.get("required", []))
