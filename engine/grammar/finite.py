"""Which parts of a schema a finite value satisfies, so that no answer must go on for ever (S17).

A reference may lead back to where it stands, but only past a value that needs no further round:
otherwise an answer that comes there can never end, or never even begin. Every part of the schema is
a vertex that holds once all of its conditions hold, or one of them; what holds in the end is found
in time linear in the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from engine.errors import GrammarError
from engine.grammar.spec import Json

_BOUND: Final = frozenset({"object", "array"})
"""Types whose values have parts; all others are finite by themselves."""


def refuse_endless(schema: dict[str, Json] | bool) -> None:
    """Refuse a reference to a schema that no finite value satisfies.

    Args:
        schema: as it was checked: references are to `#` or to a definition at the top.

    Raises:
        GrammarError: there is such a reference; the keyword is `$ref`.
    """
    graph = _Graph()
    graph.add_document(schema)
    graph.settle()
    for target in graph.targets:
        if not graph.holds(graph.places[target]):
            raise GrammarError("$ref", "no finite value satisfies what it names")


class _Graph:
    """Vertices of conditions: how many of them are still open, and whose conditions they are."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.targets: list[str] = []
        self._open: list[int] = []
        self._parents: list[list[int]] = []
        self._pending: list[tuple[int, str]] = []

    def add_document(self, schema: dict[str, Json] | bool) -> None:
        """Add a schema, its definitions, and the edges of its references."""
        self.places["#"] = self._schema(schema)
        for place in ("$defs", "definitions"):
            members = schema.get(place, {}) if isinstance(schema, dict) else {}
            for name, each in cast("dict[str, Json]", members).items():
                self.places[f"#/{place}/{name}"] = self._schema(each)
        for vertex, target in self._pending:
            self._parents[self.places[target]].append(vertex)
            self.targets.append(target)

    def settle(self) -> None:
        """Find everything that holds: each edge is gone along at most once."""
        done = [vertex for vertex, count in enumerate(self._open) if count <= 0]
        while done:
            for parent in self._parents[done.pop()]:
                self._open[parent] -= 1
                if self._open[parent] == 0:
                    done.append(parent)

    def holds(self, vertex: int) -> bool:
        """Return whether a finite value satisfies it."""
        return self._open[vertex] <= 0

    def _vertex(self, num_needed: int, children: Iterable[int]) -> int:
        vertex = len(self._open)
        self._open.append(num_needed)
        self._parents.append([])
        for child in children:
            self._parents[child].append(vertex)
        return vertex

    def _all(self, children: Iterable[int]) -> int:
        different = set(children)
        return self._vertex(len(different), different)

    def _any(self, children: Iterable[int]) -> int:
        return self._vertex(1, set(children))

    def _schema(self, schema: Json) -> int:
        """Add a schema: everything that it demands has to hold."""
        if not isinstance(schema, dict):
            return self._all(()) if schema is True else self._any(())
        demands = []
        if "$ref" in schema:
            vertex = self._any(())
            self._pending.append((vertex, cast("str", schema["$ref"])))
            demands.append(vertex)
        demands.extend(
            self._any([self._schema(option) for option in _list(schema[keyword])])
            for keyword in ("anyOf", "oneOf")
            if keyword in schema
        )
        demands.extend(self._schema(each) for each in _list(schema.get("allOf")))
        demands.append(self._shape(schema))
        return self._all(demands)

    def _shape(self, schema: Mapping[str, Json]) -> int:
        """Add what a schema says of the parts of a value, by the types that it may have."""
        wanted = schema.get("type", [None])
        types = set(wanted if isinstance(wanted, list) else [wanted])
        # Both are added in any case: references inside them count as well.
        forms = {"object": self._members(schema), "array": self._elements(schema)}
        if types - _BOUND or "const" in schema or "enum" in schema:
            return self._all(())
        return self._any(forms[name] for name in forms if name in types)

    def _members(self, schema: Mapping[str, Json]) -> int:
        properties = {name: self._schema(each) for name, each in _dict(schema, "properties")}
        others = [self._schema(each) for _, each in _dict(schema, "patternProperties")]
        other = self._any([*others, self._schema(schema.get("additionalProperties", True))])
        needed = [
            properties.get(cast("str", name), other) for name in _list(schema.get("required"))
        ]
        if schema.get("minProperties") and not needed:
            needed = [self._any([*properties.values(), other])]
        return self._all(needed)

    def _elements(self, schema: Mapping[str, Json]) -> int:
        first = [self._schema(each) for each in _list(schema.get("prefixItems"))]
        rest = self._schema(schema.get("items", True))
        least = cast("int", schema.get("minItems", 0))
        return self._all([*first[:least], *([rest] if least > len(first) else [])])


def _list(value: Json = None) -> list[Json]:
    return value if isinstance(value, list) else []


def _dict(schema: Mapping[str, Json], keyword: str) -> Iterable[tuple[str, Json]]:
    return cast("dict[str, Json]", schema.get(keyword, {})).items()
