"""The grammar of a specification, in the language that llguidance compiles (S16, S18).

A JSON text has no whitespace but one space, which may stand after a comma and after a colon: a
model can then not go on writing spaces for ever, and writes what it has mostly read.
"""

from __future__ import annotations

import json
import re
from typing import Final

from engine.errors import GrammarError
from engine.grammar.schema import Budget, read_schema
from engine.grammar.spec import (
    GrammarSpec,
    Json,
    JsonObject,
    JsonSchema,
    Tool,
    ToolCalls,
    ToolChoice,
)

MAX_TOOLS: Final = 128
CALL_BEGIN: Final = "<tool_call>"
CALL_END: Final = "</tool_call>"

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Tokens are never foreseen ("forced"): a mask holds every token that goes on legally.
_HEAD: Final = '%llguidance {"no_forcing": true}\n'
# One way only to write a character, so that a name of `properties` has no second spelling.
_JSON_OPTIONS: Final[dict[str, Json]] = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
    "json_allowed_escapes": 'nrbtf\\"',
    "json_allow_general_unicode_escapes": False,
}
_FREE_TEXT: Final = f"""start: TEXT | marker calls
TEXT: /(?s:.*)/ & ~/(?s:.*){CALL_BEGIN}(?s:.*)/
marker[lazy]: /(?s:.*){CALL_BEGIN}/
"""
_CALLS: Final = f'start: "{CALL_BEGIN}" calls\n'


def write_lark(spec: GrammarSpec) -> str:
    """Return the grammar of a specification.

    Raises:
        GrammarError: a schema or a tool is not supported.
    """
    if isinstance(spec, JsonObject):
        return f"{_HEAD}start: {_json({'type': 'object'})}\n"
    if isinstance(spec, JsonSchema):
        return f"{_HEAD}start: {_json(read_schema(spec.schema, Budget()))}\n"
    return _HEAD + _tool_calls(spec)


def _json(schema: dict[str, Json] | bool) -> str:
    if schema is False:
        raise GrammarError("schema", "nothing satisfies it")
    members = schema if isinstance(schema, dict) else {}
    return f"%json {json.dumps({**members, 'x-guidance': _JSON_OPTIONS})}"


def _tool_calls(spec: ToolCalls) -> str:
    tools = _chosen(spec)
    begin = _FREE_TEXT if spec.choice is ToolChoice.AUTO else _CALLS
    more = f' ("\\n{CALL_BEGIN}" call)*' if spec.parallel else ""
    lines = [f"calls: call{more}\n"]
    names = " | ".join(f"call_{index}" for index in range(len(tools)))
    lines.append(f'call: "\\n" ( {names} ) "\\n{CALL_END}"\n')
    budget = Budget()
    for index, tool in enumerate(tools):
        head = json.dumps(f'{{"name": "{tool.name}", "arguments": ')
        lines.append(f'call_{index}: {head} arguments_{index} "}}"\n')
        lines.append(f"arguments_{index}: {_json(_arguments(tool, budget))}\n")
    return begin + "".join(lines)


def _chosen(spec: ToolCalls) -> tuple[Tool, ...]:
    names = [tool.name for tool in spec.tools]
    if not 1 <= len(names) <= MAX_TOOLS or len(set(names)) != len(names):
        raise GrammarError("tools", f"must be 1 .. {MAX_TOOLS} tools of different names")
    for name in names:
        if _NAME.fullmatch(name) is None:
            raise GrammarError("tools", "a name must be 1 .. 64 of A-Z a-z 0-9 _ -")
    if isinstance(spec.choice, ToolChoice):
        return spec.tools
    chosen = tuple(tool for tool in spec.tools if tool.name == spec.choice)
    if not chosen:
        raise GrammarError("tool_choice", "no tool has this name")
    return chosen


def _arguments(tool: Tool, budget: Budget) -> dict[str, Json]:
    """Return the schema of a tool's arguments, which are an object whatever it says."""
    schema = read_schema(tool.parameters, budget)
    if isinstance(schema, bool):
        raise GrammarError("parameters", "must be the schema of an object")
    if schema.get("type", "object") not in ("object", ["object"]):
        raise GrammarError("type", "arguments must be an object")
    return {"type": "object", **schema}
