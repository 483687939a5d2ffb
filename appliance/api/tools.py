"""Tools: functions that the model may ask to be called, and whether it has to."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from appliance.api.fields import Fields
from appliance.api.json_body import Value, is_text, write_value
from appliance.api.limits import (
    MAX_DESCRIPTION_CHARACTERS,
    MAX_SCHEMA_CHARACTERS,
    MAX_TOOLS,
)
from appliance.api.request_error import RequestError, unsupported
from engine.grammar.spec import Tool, ToolCalls, ToolChoice

NO_PARAMETERS: Final = '{"type":"object","properties":{},"additionalProperties":false}'
"""The schema of a tool that is given without one."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_NAME: Final = 64
_CHOICES: Final = ("none", "auto", "required")


class Wanted(NamedTuple):
    """The tools that are shown to the model, and what its answer may do with them."""

    tools: tuple[Tool, ...]
    grammar: ToolCalls | None


def read_tools(fields: Fields) -> Wanted:
    """Take `tools`, `tool_choice` and `parallel_tool_calls` of a body.

    Raises:
        RequestError: one of them is malformed, not supported or names a tool that is not there.
    """
    tools = _tools(fields.take("tools"))
    choice = _choice(fields.take("tool_choice"), tools)
    parallel = fields.boolean("parallel_tool_calls", default=True)
    if not tools or choice is None:
        return Wanted((), None)
    return Wanted(tools, ToolCalls(tools=tools, choice=choice, parallel=parallel))


def read_name(function: Fields) -> str:
    """Take the name of a function (RequestError)."""
    name = function.text("name", _MAX_NAME)
    if _NAME.fullmatch(name) is None:
        raise RequestError(function.path("name"), "must be 1 .. 64 of A-Z a-z 0-9 _ -")
    return name


def read_schema(fields: Fields, name: str) -> str | None:
    """Take a JSON schema and return its text, None where it is absent (RequestError)."""
    value = fields.take(name)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise RequestError(fields.path(name), "must be an object")
    text = write_value(value)
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise RequestError(fields.path(name), f"longer than {MAX_SCHEMA_CHARACTERS} characters")
    return text


def _tools(value: Value) -> tuple[Tool, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_TOOLS:
        raise RequestError("tools", f"must be an array of at most {MAX_TOOLS} tools")
    tools = tuple(_tool(tool, f"tools[{index}]") for index, tool in enumerate(value))
    if len({tool.name for tool in tools}) != len(tools):
        raise RequestError("tools", "a name stands twice")
    return tools


def _tool(value: Value, place: str) -> Tool:
    fields = Fields.of(value, place)
    kind = fields.take("type")
    if kind != "function" or not is_text(kind):
        raise unsupported(fields.path("type"), "only tools of type function are supported")
    function = Fields.of(fields.take("function"), fields.path("function"))
    name = read_name(function)
    description = function.optional_text("description", MAX_DESCRIPTION_CHARACTERS)
    parameters = read_schema(function, "parameters")
    function.boolean("strict")  # arguments follow their schema either way
    function.refuse_others()
    fields.refuse_others()
    return Tool(name=name, description=description, parameters=parameters or NO_PARAMETERS)


def _choice(value: Value, tools: tuple[Tool, ...]) -> ToolChoice | str | None:
    """Return which tool has to be called, None for no tool at all."""
    if value is None:
        return ToolChoice.AUTO
    if isinstance(value, str) and is_text(value) and value in _CHOICES:
        if value == "none":
            return None
        choice: ToolChoice | str = ToolChoice(value)
    else:
        choice = _chosen_name(value, tools)
    if not tools and choice is not ToolChoice.AUTO:
        raise RequestError("tool_choice", "there are no tools")
    return choice


def _chosen_name(value: Value, tools: tuple[Tool, ...]) -> str:
    if not isinstance(value, dict):
        raise RequestError("tool_choice", f"must be one of {', '.join(_CHOICES)}, or an object")
    fields = Fields.of(value, "tool_choice")
    kind = fields.take("type")
    if kind != "function" or not is_text(kind):
        raise unsupported("tool_choice.type", "only the choice of a function is supported")
    function = Fields.of(fields.take("function"), "tool_choice.function")
    name = read_name(function)
    function.refuse_others()
    fields.refuse_others()
    if all(tool.name != name for tool in tools):
        raise RequestError("tool_choice.function.name", "names none of the tools")
    return name
