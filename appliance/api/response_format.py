"""What an answer has to look like: any text, a JSON object, or JSON of one schema."""

from __future__ import annotations

import re
from typing import Final

from appliance.api.fields import Fields
from appliance.api.json_body import Value
from appliance.api.limits import MAX_DESCRIPTION_CHARACTERS
from appliance.api.request_error import RequestError
from appliance.api.tools import read_schema
from engine.grammar.spec import JsonObject, JsonSchema

TYPES: Final = ("text", "json_object", "json_schema")

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_NAME: Final = 64


def read_response_format(value: Value) -> JsonObject | JsonSchema | None:
    """Return what the answer has to look like, None for any text.

    Raises:
        RequestError: the format is malformed or of another type.
    """
    if value is None:
        return None
    fields = Fields.of(value, "response_format")
    kind = fields.one_of("type", TYPES)
    if kind is None:
        raise RequestError("response_format.type", f"must be one of {', '.join(TYPES)}")
    schema = None
    if kind == "json_schema":
        schema = _read_schema(fields.take("json_schema"))
    fields.refuse_others()
    if kind == "text":
        return None
    return JsonObject() if schema is None else JsonSchema(schema)


def _read_schema(value: Value) -> str:
    fields = Fields.of(value, "response_format.json_schema")
    name = fields.text("name", _MAX_NAME)
    if _NAME.fullmatch(name) is None:
        raise RequestError(fields.path("name"), "must be 1 .. 64 of A-Z a-z 0-9 _ -")
    fields.optional_text("description", MAX_DESCRIPTION_CHARACTERS)
    fields.boolean("strict")  # the answer follows its schema either way
    schema = read_schema(fields, "schema")
    if schema is None:
        raise RequestError(fields.path("schema"), "must be an object")
    fields.refuse_others()
    return schema
