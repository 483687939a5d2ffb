"""Strict JSON: one meaning for each text, bounded depth (SPEC.md section 3)."""

from __future__ import annotations

import json
import re

from verifier.errors import MalformedError

MAX_DEPTH = 32
MAX_SIGNS = 1 << 20
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{},]', re.DOTALL)


def parse(data: bytes) -> dict[str, object]:
    """Return the object that is the whole text; numbers are floats (MalformedError)."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError("json-utf8", error.start) from None
    _check_structure(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=float,
            parse_int=float,
        )
    except json.JSONDecodeError as error:
        raise MalformedError("json", error.pos) from None
    if not isinstance(value, dict):
        raise MalformedError("json-object")
    return value


def _check_structure(text: str) -> None:
    depth = signs = 0
    for found in _STRUCTURE.finditer(text):
        sign = found[0]
        if sign in ",[{":
            signs += 1
            if signs > MAX_SIGNS:
                raise MalformedError("json-items", found.start())
        if sign in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise MalformedError("json-depth", found.start())
        elif sign in "]}":
            depth -= 1


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise MalformedError("json-duplicate")
    return result


def _no_constant(_: str) -> object:
    raise MalformedError("json-constant")
