"""What a request wants an answer to look like: value types, made from its bytes alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
"""A schema, or a part of one, as it was read."""


class ToolChoice(Enum):
    """Whether a tool has to be called."""

    AUTO = "auto"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class JsonObject:
    """Any JSON object."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """JSON of one schema; `schema` is its JSON text, members in the order of the request."""

    schema: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the model may ask to be called.

    Attributes:
        name: 1 .. 64 characters of A-Z a-z 0-9 _ -.
        description: for the model, None without one.
        parameters: JSON text of the schema of its arguments, an object.
    """

    name: str
    description: str | None
    parameters: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalls:
    """Calls of tools.

    Attributes:
        tools: at least one, names all different.
        choice: whether one has to be called; a name asks for that one.
        parallel: whether there may be more than one call.
    """

    tools: tuple[Tool, ...]
    choice: ToolChoice | str
    parallel: bool


GrammarSpec: TypeAlias = JsonObject | JsonSchema | ToolCalls
