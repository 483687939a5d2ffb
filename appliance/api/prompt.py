"""From a request to the ids of its prompt, as appliance/api/REQUESTS.md describes.

A pure function of the request, the model's tokenizer and template, and the time of admission.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from appliance.api.json_body import Number, Value, parse_object, write_value
from appliance.api.parsed import Call, Message, Parsed
from engine.errors import TemplateError
from engine.grammar.spec import Tool

if TYPE_CHECKING:
    from engine.text.template import ChatTemplate, Json
    from engine.text.tokenizer import Tokenizer

TOOLS_HEAD: Final = "You may call these functions:\n<tools>\n"
TOOLS_TAIL: Final = (
    "\n</tools>\nA call looks like this, one block for each:\n"
    '<tool_call>\n{"name": "the name", "arguments": {the arguments}}\n</tool_call>\n'
    "Its result comes in a <tool_response> block. "
    "Call only where it helps; otherwise answer in words."
)
_MAX_NUMBER: Final = 100
_SYSTEM_ROLES: Final = ("system", "developer")


class PromptSource(Protocol):
    """What makes ids of a request: a model, or its two text extents."""

    tokenizer: Tokenizer
    template: ChatTemplate | None

    def chat_ids(
        self,
        messages: Sequence[Mapping[str, Json]],
        *,
        now_unix_s: int,
        tools: Sequence[Json] | None = None,
    ) -> list[int]:
        """Return the prompt ids of a conversation."""
        ...


def prompt_ids(model: PromptSource, parsed: Parsed, *, now_unix_s: int) -> tuple[int, ...]:
    """Return the prompt ids of a request; of embeddings those of all inputs in their order.

    Args:
        model: whose tokenizer and template are used.
        parsed: the request.
        now_unix_s: the admission time in seconds, the only clock that a template sees.

    Raises:
        TemplateError: the model has no chat template, or it refuses the messages.
    """
    if parsed.prompt is not None:
        return tuple(model.tokenizer.encode_raw(parsed.prompt))
    if parsed.inputs:
        return tuple(i for ids in input_ids(model, parsed) for i in ids)
    template = model.template
    tools: list[Json] | None = None
    if template is not None and template.uses_tools:
        tools = [_described(tool) for tool in parsed.tools] or None
        messages = [_for_template(message) for message in parsed.messages]
    else:
        messages = _with_tools(_as_texts(parsed.messages), parsed.tools)
    if template is not None and not template.knows_developer:
        for message in messages:
            if message["role"] == "developer":
                message["role"] = "system"
    return tuple(model.chat_ids(messages, now_unix_s=now_unix_s, tools=tools))


def input_ids(model: PromptSource, parsed: Parsed) -> tuple[tuple[int, ...], ...]:
    """Return the ids of each text that is to be embedded (TemplateError as of the tokenizer)."""
    return tuple(tuple(model.tokenizer.encode_embedding(text)) for text in parsed.inputs)


def _described(tool: Tool) -> Json:
    """Return a tool as templates know it."""
    function: dict[str, Json] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = _json(parse_object(tool.parameters.encode("utf-8")))
    return {"type": "function", "function": function}


def _for_template(message: Message) -> dict[str, Json]:
    """Return a message as templates know it that know tools."""
    members: dict[str, Json] = {"role": message.role, "content": message.content}
    if message.calls:
        members["tool_calls"] = [_called(call) for call in message.calls]
    if message.call_id is not None:
        members["tool_call_id"] = message.call_id
    return members


def _called(call: Call) -> Json:
    arguments = _json(parse_object(call.arguments.encode("utf-8")))
    function: dict[str, Json] = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _json(value: Value) -> Json:
    """Return a value with numbers for the texts of numbers.

    Raises:
        TemplateError: a number is outside of what binary64 holds, or a whole number very long.
    """
    if isinstance(value, Number):
        return _number(value)
    if isinstance(value, dict):
        return {name: _json(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_json(part) for part in value]
    return value


def _number(text: str) -> int | float:
    if len(text) > _MAX_NUMBER:
        raise TemplateError(f"a number of more than {_MAX_NUMBER} characters")
    if text.lstrip("-").isdigit():
        return int(text)
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise TemplateError("a number is too large for a template")
    return number


def _as_texts(messages: Sequence[Message]) -> list[dict[str, Json]]:
    """Return messages for a template that knows no tools: calls and results are text."""
    texts: list[dict[str, Json]] = []
    results: list[str] = []
    for message in messages:
        if message.call_id is None:
            results = []
            texts.append({"role": message.role, "content": _with_calls(message)})
            continue
        if not results:
            texts.append({"role": "user"})
        results.append(f"<tool_response>\n{message.content}\n</tool_response>")
        texts[-1]["content"] = "\n".join(results)
    return texts


def _with_calls(message: Message) -> str:
    """Return the text of an answer with its calls, as the model wrote them."""
    calls = [
        f'<tool_call>\n{{"name": "{call.name}", "arguments": {call.arguments}}}\n</tool_call>'
        for call in message.calls
    ]
    return "\n".join(([message.content] if message.content else []) + calls)


def _with_tools(messages: list[dict[str, Json]], tools: Sequence[Tool]) -> list[dict[str, Json]]:
    """Return the messages with a description of the tools in the first system message."""
    if not tools:
        return messages
    lines = [_line(tool) for tool in tools]
    text = TOOLS_HEAD + "\n".join(lines) + TOOLS_TAIL
    first = messages[0]
    if first["role"] not in _SYSTEM_ROLES:
        return [{"role": "system", "content": text}, *messages]
    return [{"role": first["role"], "content": f"{first['content']}\n\n{text}"}, *messages[1:]]


def _line(tool: Tool) -> str:
    """Return the description of a tool in one line, as templates with tools write it."""
    function: dict[str, Value] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = parse_object(tool.parameters.encode("utf-8"))
    return write_value({"type": "function", "function": function}, is_spaced=True)
