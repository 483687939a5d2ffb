"""What a schema may say: every keyword is enforced, an annotation, or refused by name."""

from __future__ import annotations

import json

import pytest

from engine.errors import ConfigError, GrammarError
from engine.grammar.schema import (
    ANNOTATIONS,
    FORMATS,
    MAX_DEPTH,
    MAX_NODES,
    SUPPORTED,
    Budget,
    read_schema,
)
from engine.grammar.spec import JsonSchema, ToolCalls, ToolChoice
from tests.engine.grammar.support import calls, compiler, of_schema, tool

# JSON Schema 2020-12, core and validation, all vocabularies; older drafts; OpenAPI.
OTHERS = (
    *("not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies"),
    *("contains", "minContains", "maxContains", "propertyNames", "additionalItems"),
    *("unevaluatedItems", "unevaluatedProperties", "$id", "id", "$anchor", "$dynamicRef"),
    *("$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"),
    *("contentEncoding", "contentMediaType", "contentSchema", "nullable", "discriminator"),
    *("x-guidance", "strict", "divisibleBy", "extends", "typ"),
)


@pytest.mark.parametrize("keyword", OTHERS)
@pytest.mark.parametrize("place", ["top", "property", "definition", "option"])
def test_a_keyword_that_is_not_enforced_is_refused_by_name(keyword: str, place: str) -> None:
    inner = {"type": "string", keyword: {}}
    schema = {
        "top": inner,
        "property": {"type": "object", "properties": {"a": inner}},
        "definition": {"$defs": {"a": inner}, "$ref": "#/$defs/a"},
        "option": {"anyOf": [{"type": "null"}, inner]},
    }[place]
    with pytest.raises(GrammarError, match="not supported") as caught:
        of_schema(schema)
    assert caught.value.keyword == keyword
    assert isinstance(caught.value, ConfigError)


def test_no_keyword_is_both_refused_and_supported() -> None:
    assert not SUPPORTED & set(OTHERS)
    assert not SUPPORTED & ANNOTATIONS


@pytest.mark.parametrize("keyword", sorted(ANNOTATIONS))
def test_an_annotation_changes_nothing(keyword: str) -> None:
    assert read_schema(json.dumps({"type": "null", keyword: [1]}), Budget()) == {"type": "null"}


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_listed_format_compiles(name: str) -> None:
    of_schema({"type": "string", "format": name})


BROKEN = {
    "type": ["text", [], 3, None, ["string", "x"]],
    "enum": [[], "a", {}],
    "required": ["a", [1]],
    "properties": [[], {"a": 1}, {"a": None}],
    "patternProperties": [[], {"(": {}}],
    "items": [[], [{}], None],
    "prefixItems": [[], {}],
    "anyOf": [[], {}, [1]],
    "allOf": [[]],
    "oneOf": [[], [{"type": "integer"}, {"type": "number"}]],
    "$ref": ["#/$defs/none", "http://x/y", "other.json", 1, "#/properties/a", "#/$defs/a~1b"],
    "$defs": [[], {"a": 3}],
    "minLength": [-1, 1.5, True, "1", 10**9],
    "maxLength": [-1, 10**9],
    "minItems": [-1, 10**9],
    "maxItems": [-1, 10**9],
    "minProperties": [-1, 2],
    "maxProperties": [-1, 10**9],
    "minimum": ["1", True, None, 2**53 + 1, -(10**30)],
    "exclusiveMaximum": [True, 2**60],
    "multipleOf": [0, -1, "2", 12345],
    "pattern": [1, "a" * 1001, "^(?=a)b", "("],
    "format": ["regex", "json-pointer", 1],
    "uniqueItems": [True, 1],
    "const": [2**53 + 1, "\x01", ["\x7f"], {"\x00": 1}, "\ud800"],
}


@pytest.mark.parametrize(
    ("keyword", "value"),
    [(keyword, value) for keyword, values in BROKEN.items() for value in values],
)
def test_a_malformed_or_unbounded_value_is_refused(keyword: str, value: object) -> None:
    with pytest.raises(GrammarError) as caught:
        of_schema({keyword: value})
    assert caught.value.keyword in (keyword, "schema")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "1", "null", '{"a"', '{"type":"null","type":"null"}', "{" * 5000, '{"minimum":NaN}'],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(GrammarError):
        compiler().compile(JsonSchema(text))


def test_what_nothing_satisfies_is_refused() -> None:
    for schema in (False, {"type": "integer", "minimum": 3, "maximum": 2}, {"allOf": [False]}):
        with pytest.raises(GrammarError):
            of_schema(schema)


def test_size_and_depth_are_bounded() -> None:
    deep: dict = {}
    for _ in range(MAX_DEPTH + 1):
        deep = {"items": deep}
    with pytest.raises(GrammarError, match="nested deeper"):
        of_schema(deep)
    wide = json.dumps({"properties": {f"p{i}": {} for i in range(MAX_NODES // 2 + 1)}})
    read_schema(wide, Budget())
    with pytest.raises(GrammarError, match="parts"):
        compiler().compile(calls(ToolChoice.AUTO, tools=(tool("a", wide), tool("b", wide))))
    with pytest.raises(GrammarError, match="longer than"):
        compiler().compile(JsonSchema(json.dumps({"title": "x" * 70_000})))


@pytest.mark.parametrize(
    "beside", [{"allOf": [{"minLength": 1}, {"maxLength": 9}]}, {"anyOf": [{}]}]
)
@pytest.mark.parametrize(
    "pattern", [{"pattern": "a"}, {"format": "date"}, {"multipleOf": 3}, {"patternProperties": {}}]
)
def test_expressions_are_never_intersected(beside: dict, pattern: dict) -> None:
    # 29 patterns under allOf would take longer than anybody waits, and no count bounds it.
    with pytest.raises(GrammarError) as caught:
        of_schema({**beside, **pattern})
    assert caught.value.keyword == next(iter(beside))


def test_a_schema_that_many_clients_send_is_taken() -> None:
    of_schema(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "Answer",
            "$defs": {"Step": {"type": "object", "properties": {"why": {"type": "string"}}}},
            "type": "object",
            "properties": {
                "steps": {"type": "array", "items": {"$ref": "#/$defs/Step"}},
                "kind": {"allOf": [{"$ref": "#/$defs/Step"}], "description": "as pydantic 1"},
                "score": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
            },
            "required": ["steps"],
            "additionalProperties": False,
        }
    )


@pytest.mark.parametrize(
    "parameters", ["true", "[]", '{"type":"string"}', '{"type":["object","null"]}']
)
def test_arguments_are_an_object(parameters: str) -> None:
    with pytest.raises(GrammarError):
        compiler().compile(calls("a", tools=(tool("a", parameters),)))


def test_tools_are_named_and_bounded() -> None:
    bad = [(), (tool("a"), tool("a")), (tool('"'),), tuple(tool(f"t{i}") for i in range(129))]
    for tools in bad:
        with pytest.raises(GrammarError) as caught:
            compiler().compile(ToolCalls(tools=tools, choice=ToolChoice.AUTO, parallel=True))
        assert caught.value.keyword == "tools"
    with pytest.raises(GrammarError) as caught:
        compiler().compile(calls("nobody"))
    assert caught.value.keyword == "tool_choice"
