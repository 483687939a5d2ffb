"""Strict JSON: one meaning for each text, bounded depth (SPEC.md section 3)."""

from __future__ import annotations

import json
import re

from verifier.errors import Any, MalformedError, require

MAX_DEPTH = 32
MAX_SIGNS = 1 << 20
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{},]', re.DOTALL)


def parse(data: bytes) -> dict[str, Any]:
    """Return the object that is the whole text; numbers are floats (MalformedError)."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError("json-utf8", error.start) from None
    _check_structure(text)
    try:
        value: dict[str, Any] = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=float,
            parse_int=float,
        )
    except json.JSONDecodeError as error:
        raise MalformedError("json", error.pos) from None
    require(isinstance(value, dict), "json-object")
    return value


def _check_structure(text: str) -> None:
    depth = signs = 0
    for found in _STRUCTURE.finditer(text):
        sign = found[0]
        signs += sign in ",[{"
        depth += (sign in "[{") - (sign in "]}")
        require(signs <= MAX_SIGNS, "json-items", found.start())
        require(depth <= MAX_DEPTH, "json-depth", found.start())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    require(len(result) == len(pairs), "json-duplicate")
    return result


def _no_constant(_: str) -> object:
    raise MalformedError("json-constant")
