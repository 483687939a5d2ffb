"""Schemas whose parts multiply, and whether they are taken; run as a program it tries them all."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import GrammarError
from tests.engine.grammar.support import drawn, of_schema

if TYPE_CHECKING:
    from collections.abc import Callable

CPU_S = 60
"""For all of them; each takes a fraction of a second."""


def chain(form: Callable[[Any], dict[str, Any]], length: int) -> dict[str, Any]:
    """Return definitions of which each refers to the next, more than once."""
    links = {f"a{i}": form({"$ref": f"#/$defs/a{i + 1}"}) for i in range(length)}
    return {"$defs": {**links, f"a{length}": {"type": "null"}}, "$ref": "#/$defs/a0"}


def _pair(link: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": link, "y": link}, "required": ["x", "y"]}


def _choice(number: int) -> dict[str, Any]:
    name = f"p{number}"
    return {"anyOf": [{"properties": {name: {"const": j}}, "required": [name]} for j in range(3)]}


def _meeting(number: int) -> dict[str, Any]:
    others = [{"$ref": f"#/$defs/a{(number * 7 + k) % 200}"} for k in range(5)]
    return {"anyOf": [{"type": "null"}, *others]}


def _text(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern}


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": 10_000}
    for _ in range(levels):
        schema = {"type": "array", "minItems": 1000, "items": schema}
    return schema


def _members(number: int, **each: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{i}": each for i in range(number)}}


BOMBS: dict[str, tuple[dict[str, Any], bool]] = {
    "members double 300 times": (chain(_pair, 300), True),
    "ways double 300 times": (chain(lambda link: {"anyOf": [link, link]}, 300), True),
    "demands double 300 times": (chain(lambda link: {"allOf": [link, link]}, 300), True),
    "500 elements of 500 elements": (
        chain(lambda link: {"type": "array", "items": link, "minItems": 500}, 300),
        True,
    ),
    "3^20 alternatives": ({"allOf": [_choice(number) for number in range(20)]}, False),
    "definitions that all meet": (
        {"$defs": {f"a{i}": _meeting(i) for i in range(200)}, "$ref": "#/$defs/a0"},
        True,
    ),
    "1,000 values": ({"enum": [f"v{i}" for i in range(1000)]}, True),
    "1,001 values": ({"enum": list(range(1001))}, False),
    "values of 60 kB": ({"enum": ["x" * 60 + str(i) for i in range(900)]}, True),
    "a name of 60 kB": (_members(1) | {"required": ["n" * 60_000]}, True),
    "1,900 members that may be left out": (_members(1900), True),
    "900 bounded texts": (_members(900, type="string", minLength=7, maxLength=9_999), True),
    "900 addresses": (_members(900, type="string", format="uri"), True),
    "20 levels": (_nested(20), True),
    "33 levels": (_nested(33), False),
    "repeats of repeats": (_text("^((a{100}){100}){100}$"), True),
    "a repeat beyond 2^32": (_text("a{99999999999}"), False),
    "brackets in brackets": (_text("(" * 400 + ")" * 400), False),
    "1,001 characters of a pattern": (_text("a" * 1001), False),
    "states that double": (_text("^(a|b)*a(a|b){200}$"), True),
    "patterns that meet": (
        {"patternProperties": {f"(a|b)*a(a|b){{{i}}}": {} for i in range(30)}},
        False,
    ),
}


def main() -> None:
    """Print what became of each, and the memory that all took, within a limit of the system."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    taken: dict[str, Any] = {}
    for name, (schema, _) in BOMBS.items():
        try:
            drawn(of_schema(schema), 0, most=40)
            taken[name] = True
        except GrammarError as error:
            taken[name] = error.keyword
    # ru_maxrss begins with what the parent had
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(status.split("VmHWM:")[1].split()[0]) << 10
    print(json.dumps({"taken": taken, "peak_bytes": peak}))


if __name__ == "__main__":
    main()
