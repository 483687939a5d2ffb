"""The messages of a conversation."""

from __future__ import annotations

from typing import Final

from appliance.api.fields import Fields
from appliance.api.json_body import MAX_BODY_BYTES, Value, is_text, parse_object
from appliance.api.limits import (
    MAX_ARGUMENTS_CHARACTERS,
    MAX_CALL_ID_CHARACTERS,
    MAX_CALLS,
    MAX_MESSAGES,
    MAX_PARTS,
)
from appliance.api.parsed import Call, Message
from appliance.api.request_error import RequestError, unsupported
from appliance.api.tools import read_name

ROLES: Final = ("system", "developer", "user", "assistant", "tool")

UNSUPPORTED_OF_MESSAGES: Final[dict[str, tuple[Value, ...]]] = {"name": ()}
"""Members of every message that are refused, with the values that pass beside null."""

UNSUPPORTED_OF_ANSWERS: Final[dict[str, tuple[Value, ...]]] = {
    "refusal": (),
    "audio": (),
    "function_call": (),
    "annotations": ([],),
}
"""The same of an assistant's messages, as client libraries send answers back."""

IGNORED_OF_ANSWERS: Final = ("parsed",)
IGNORED_OF_CALLS: Final = ("index",)
IGNORED_OF_FUNCTIONS: Final = ("parsed_arguments",)
"""Members that client libraries add to an answer; they repeat what stands beside them."""


def read_messages(value: Value) -> tuple[Message, ...]:
    """Return the messages of a body.

    Raises:
        RequestError: they are none; the path says where.
    """
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_MESSAGES:
        raise RequestError("messages", f"must be an array of 1 .. {MAX_MESSAGES} messages")
    messages: list[Message] = []
    called: set[str] = set()
    for index, element in enumerate(value):
        message = _read_message(element, f"messages[{index}]")
        if message.call_id is not None and message.call_id not in called:
            place = f"messages[{index}].tool_call_id"
            raise RequestError(place, "names no call of an earlier message")
        called.update(call.id for call in message.calls)
        messages.append(message)
    return tuple(messages)


def _read_message(value: Value, place: str) -> Message:
    fields = Fields.of(value, place)
    role = fields.one_of("role", ROLES)
    if role is None:
        raise RequestError(fields.path("role"), f"must be one of {', '.join(ROLES)}")
    content = fields.take("content")
    calls: tuple[Call, ...] = ()
    call_id = None
    for name, neutral in UNSUPPORTED_OF_MESSAGES.items():
        fields.refuse_unless(name, neutral)
    if role == "assistant":
        calls = _read_calls(fields.take("tool_calls"), fields.path("tool_calls"))
        for name, neutral in UNSUPPORTED_OF_ANSWERS.items():
            fields.refuse_unless(name, neutral)
        for name in IGNORED_OF_ANSWERS:
            fields.take(name)
    elif role == "tool":
        call_id = fields.text("tool_call_id", MAX_CALL_ID_CHARACTERS)
    fields.refuse_others()
    text = "" if content is None and calls else _read_content(content, fields.path("content"))
    return Message(role=role, content=text, calls=calls, call_id=call_id)


def _read_content(value: Value, place: str) -> str:
    """Return a text: a string, or text parts, which are joined as they are."""
    if isinstance(value, str) and is_text(value):
        return value
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_PARTS:
        message = f"must be a string or an array of 1 .. {MAX_PARTS} text parts"
        raise RequestError(place, message)
    return "".join(_read_part(part, f"{place}[{index}]") for index, part in enumerate(value))


def _read_part(value: Value, place: str) -> str:
    fields = Fields.of(value, place)
    kind = fields.take("type")
    if kind != "text" or not is_text(kind):
        raise unsupported(fields.path("type"), "only parts of type text are supported")
    text = fields.text("text", MAX_BODY_BYTES)
    fields.refuse_others()
    return text


def _read_calls(value: Value, place: str) -> tuple[Call, ...]:
    """Return the calls of an answer, each with an id of its own."""
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_CALLS:
        raise RequestError(place, f"must be an array of at most {MAX_CALLS} calls")
    calls = tuple(_read_call(call, f"{place}[{index}]") for index, call in enumerate(value))
    if len({call.id for call in calls}) != len(calls):
        raise RequestError(place, "an id stands twice")
    return calls


def _read_call(value: Value, place: str) -> Call:
    fields = Fields.of(value, place)
    call_id = fields.text("id", MAX_CALL_ID_CHARACTERS)
    kind = fields.take("type")
    if kind != "function" or not is_text(kind):
        raise unsupported(fields.path("type"), "only calls of type function are supported")
    function = Fields.of(fields.take("function"), fields.path("function"))
    name = read_name(function)
    arguments = function.text("arguments", MAX_ARGUMENTS_CHARACTERS)
    for ignored in IGNORED_OF_FUNCTIONS:
        function.take(ignored)
    for ignored in IGNORED_OF_CALLS:
        fields.take(ignored)
    function.refuse_others()
    fields.refuse_others()
    try:
        arguments = arguments or "{}"
        parse_object(arguments.encode("utf-8"))
    except RequestError as error:
        message = f"must be the text of a JSON object ({error.reason})"
        raise RequestError(function.path("arguments"), message) from None
    return Call(call_id, name, arguments)
