"""Schemas of a request, checked keyword by keyword before anything is made of them (S17).

What a grammar would not hold is refused by name, so that no keyword is ever passed over in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, cast

from engine.errors import GrammarError
from engine.grammar.finite import refuse_endless
from engine.grammar.spec import Json

MAX_SCHEMA_BYTES: Final = 65_536
MAX_DEPTH: Final = 32
MAX_NODES: Final = 2_000
MAX_VALUES: Final = 1_000
MAX_COUNT: Final = 10_000
MAX_ITEMS: Final = 1_000
MAX_PATTERN_CHARACTERS: Final = 1_000
MAX_NUMBER: Final = 1 << 53
MAX_DIVISOR_DIGITS: Final = 4

FORMATS: Final = frozenset(
    {
        *("date", "time", "date-time", "duration", "email", "hostname"),
        *("ipv4", "ipv6", "uuid", "uri"),
    }
)
TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
ANNOTATIONS: Final = frozenset(
    {
        *("title", "description", "default", "examples", "$comment"),
        *("deprecated", "readOnly", "writeOnly"),
    }
)
DIALECTS: Final = frozenset(
    {
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
    }
)

_COMBINED: Final = ("allOf", "anyOf", "oneOf", "$ref")
_PATTERNS: Final = ("pattern", "format", "patternProperties", "multipleOf")
_DEFINITION: Final = re.compile(r"#/(\$defs|definitions)/([^/~%]+)")
_UNWRITABLE: Final = re.compile("[\x00-\x07\x0b\x0e-\x1f\x7f\ud800-\udfff]")
"""Control characters that JSON has no short escape for (S17), and halves of surrogate pairs."""


class Budget:
    """How many parts the schemas of one grammar may still have."""

    def __init__(self) -> None:
        """Start with all of them."""
        self._left = MAX_NODES

    def spend(self) -> None:
        """Count one part; GrammarError if there are too many."""
        self._left -= 1
        if self._left < 0:
            raise GrammarError("schema", f"there are more than {MAX_NODES} parts")


def read_schema(text: str, budget: Budget) -> dict[str, Json] | bool:
    """Return a schema of which every keyword is enforced, without annotations.

    Args:
        text: its JSON text; members keep their order.
        budget: of the grammar that it becomes part of.

    Raises:
        GrammarError: it is no schema, too large, has a keyword that is not supported, or a
            reference that no finite value satisfies.
    """
    schema = _parse(text)
    checked = _Reader(schema, budget).root()
    refuse_endless(checked)
    return checked


def _parse(text: str) -> Json:
    if len(text) > MAX_SCHEMA_BYTES or len(text.encode("utf-8", "replace")) > MAX_SCHEMA_BYTES:
        raise GrammarError("schema", f"it is longer than {MAX_SCHEMA_BYTES} bytes")
    try:
        value: Json = json.loads(
            text, object_pairs_hook=_members, parse_constant=_constant, parse_float=_float
        )
    except RecursionError:
        raise GrammarError("schema", "it is nested too deeply") from None
    except ValueError:
        raise GrammarError("schema", "it is not JSON") from None
    return value


def _members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise GrammarError("schema", "an object has two members of one name")
    return members


def _constant(name: str) -> Json:
    raise GrammarError("schema", f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not abs(value) <= MAX_NUMBER:
        raise GrammarError("schema", "a number is beyond 2^53")
    return value


class _Reader:
    """Goes through one schema."""

    def __init__(self, schema: Json, budget: Budget) -> None:
        self._document = schema
        self._budget = budget
        self._pattern: str | None = None
        self._intersection: str | None = None
        self._definitions: dict[tuple[str, str], Json] = {}
        if isinstance(schema, dict):
            for place in ("$defs", "definitions"):
                for name, value in _object(place, schema.get(place, {})).items():
                    self._definitions[place, name] = value

    def root(self) -> dict[str, Json] | bool:
        document = self._document
        if isinstance(document, dict) and "$schema" in document:
            dialect = document["$schema"]
            if not isinstance(dialect, str) or dialect.removesuffix("#") not in DIALECTS:
                raise GrammarError("$schema", "this dialect is not supported")
            document = {name: value for name, value in document.items() if name != "$schema"}
        checked = self._schema("schema", document, 0, is_root=True)
        if self._pattern is not None and self._intersection is not None:
            # To intersect expressions takes time that nothing bounds.
            raise GrammarError(
                self._intersection, f"not supported in a schema that uses {self._pattern}"
            )
        return checked

    def _schema(
        self, place: str, value: Json, depth: int, *, is_root: bool = False
    ) -> dict[str, Json] | bool:
        self._count(depth)
        if isinstance(value, bool):
            return value
        if not isinstance(value, dict):
            raise GrammarError(place, "must be a schema")
        checked: dict[str, Json] = {}
        for keyword, argument in value.items():
            if keyword in ANNOTATIONS:
                continue
            checked[keyword] = self._keyword(keyword, argument, depth, is_root=is_root)
        self._note(checked)
        checked.pop("uniqueItems", None)
        return checked

    def _keyword(self, keyword: str, value: Json, depth: int, *, is_root: bool) -> Json:
        if keyword in ("$defs", "definitions"):
            if not is_root:
                raise GrammarError(keyword, "definitions stand at the top of a schema only")
            return self._named(keyword, value, depth)
        if keyword in ("properties", "patternProperties"):
            if keyword == "patternProperties":
                for pattern in _object(keyword, value):
                    _pattern(keyword, pattern)
            return self._named(keyword, value, depth)
        if keyword in ("items", "additionalProperties"):
            return self._schema(keyword, value, depth + 1)
        if keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
            return [
                self._schema(keyword, option, depth + 1)
                for option in _array(keyword, value, least=1)
            ]
        if keyword in ("const", "enum"):
            values = _array(keyword, value, least=1) if keyword == "enum" else [value]
            for each in values:
                self._value(keyword, each, depth + 1)
            return value
        if keyword == "$ref":
            return self._reference(value)
        check = _SIMPLE.get(keyword)
        if check is None:
            raise GrammarError(keyword, "this keyword is not supported")
        check(keyword, value)
        return value

    def _named(self, keyword: str, value: Json, depth: int) -> dict[str, Json]:
        members = _object(keyword, value)
        for name in members:
            _text(keyword, name)
        return {name: self._schema(keyword, each, depth + 1) for name, each in members.items()}

    def _reference(self, value: Json) -> str:
        if value == "#":
            return "#"
        match = _DEFINITION.fullmatch(value) if isinstance(value, str) else None
        if match is None or (match[1], match[2]) not in self._definitions:
            raise GrammarError("$ref", "it must name a definition at the top of this schema")
        return match[0]

    def _value(self, keyword: str, value: Json, depth: int) -> None:
        self._count(depth)
        if isinstance(value, dict):
            for name, each in value.items():
                _text(keyword, name)
                self._value(keyword, each, depth + 1)
        elif isinstance(value, list):
            for each in value:
                self._value(keyword, each, depth + 1)
        elif isinstance(value, str):
            _text(keyword, value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            _number(keyword, value)

    def _note(self, schema: Mapping[str, Json]) -> None:
        """Remember what may not stand beside something else in one document."""
        patterns = [keyword for keyword in _PATTERNS if keyword in schema]
        if "pattern" in patterns and "format" in patterns:
            raise GrammarError("format", "not supported beside pattern")
        self._pattern = self._pattern or (patterns[0] if patterns else None)
        combined = [keyword for keyword in _COMBINED if keyword in schema]
        if not combined:
            return
        all_of = schema.get("allOf")
        others = schema.keys() - {"type", "$defs", "definitions", "uniqueItems"}
        if len(others) > 1 or (isinstance(all_of, list) and len(all_of) > 1):
            self._intersection = self._intersection or combined[0]

    def _count(self, depth: int) -> None:
        self._budget.spend()
        if depth > MAX_DEPTH:
            raise GrammarError("schema", f"it is nested deeper than {MAX_DEPTH}")


def _object(keyword: str, value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise GrammarError(keyword, "must be an object")
    return value


def _array(keyword: str, value: Json, *, least: int = 0) -> list[Json]:
    if not isinstance(value, list):
        raise GrammarError(keyword, "must be an array")
    if not least <= len(value) <= MAX_VALUES:
        raise GrammarError(keyword, f"must have {least} .. {MAX_VALUES} elements")
    return value


def _text(keyword: str, value: Json) -> None:
    if not isinstance(value, str):
        raise GrammarError(keyword, "must be a string")
    if _UNWRITABLE.search(value):
        raise GrammarError(keyword, "holds a control character, or half a surrogate pair")


def _pattern(keyword: str, value: Json) -> None:
    _text(keyword, value)
    if len(cast("str", value)) > MAX_PATTERN_CHARACTERS:
        raise GrammarError(keyword, f"longer than {MAX_PATTERN_CHARACTERS} characters")


def _number(keyword: str, value: Json) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise GrammarError(keyword, "must be a number")
    if not abs(value) <= MAX_NUMBER:
        raise GrammarError(keyword, "a number is beyond 2^53")


def _positive(keyword: str, value: Json) -> None:
    _number(keyword, value)
    if not cast("float", value) > 0:
        raise GrammarError(keyword, "must be above 0")
    if len(Decimal(repr(value)).normalize().as_tuple().digits) > MAX_DIVISOR_DIGITS:
        raise GrammarError(keyword, f"has more than {MAX_DIVISOR_DIGITS} digits")


def _limit(most: int) -> Callable[[str, Json], None]:
    def check(keyword: str, value: Json) -> None:
        if type(value) is not int:
            raise GrammarError(keyword, "must be a whole number")
        if not 0 <= value <= most:
            raise GrammarError(keyword, f"must be 0 .. {most}")

    return check


def _types(keyword: str, value: Json) -> None:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name in TYPES for name in names):
        raise GrammarError(keyword, f"must be one or more of {', '.join(sorted(TYPES))}")


def _format(keyword: str, value: Json) -> None:
    if not isinstance(value, str) or value not in FORMATS:
        raise GrammarError(keyword, f"must be one of {', '.join(sorted(FORMATS))}")


def _names(keyword: str, value: Json) -> None:
    for name in _array(keyword, value):
        _text(keyword, name)


def _false(keyword: str, value: Json) -> None:
    if value is not False:
        raise GrammarError(keyword, "this keyword is not supported")


_SIMPLE: Final[Mapping[str, Callable[[str, Json], None]]] = {
    "type": _types,
    "required": _names,
    # Nothing keeps a model from writing one free name twice, which counts once.
    "minProperties": _limit(1),
    "maxProperties": _limit(MAX_COUNT),
    "minItems": _limit(MAX_ITEMS),
    "maxItems": _limit(MAX_ITEMS),
    "uniqueItems": _false,
    "minLength": _limit(MAX_COUNT),
    "maxLength": _limit(MAX_COUNT),
    "pattern": _pattern,
    "format": _format,
    "minimum": _number,
    "maximum": _number,
    "exclusiveMinimum": _number,
    "exclusiveMaximum": _number,
    "multipleOf": _positive,
}
SUPPORTED: Final = frozenset(
    {
        *_SIMPLE,
        *("$ref", "$defs", "definitions", "const", "enum", "anyOf", "oneOf", "allOf"),
        *("properties", "patternProperties", "additionalProperties", "items", "prefixItems"),
    }
)
