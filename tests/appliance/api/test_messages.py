"""Messages, tools and formats as they are read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.api.parse import parse_request
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH, Call, Message
from appliance.api.tools import NO_PARAMETERS
from appliance.api.write import write_request
from engine.grammar.spec import JsonObject, JsonSchema, Tool, ToolCalls, ToolChoice

SPACED = ' {"a": 1.50}'
ASK = '{"role":"user","content":"q"}'
TOOL = '{"type":"function","function":{"name":"f"}}'


def chat(more: str = "", messages: str = f"[{ASK}]"):
    return parse_request(CHAT_PATH, f'{{"model":"m","messages":{messages}{more}}}'.encode())


def test_parts_of_a_text_are_joined_as_they_are():
    parts = '[{"type":"text","text":"a "},{"type":"text","text":""},{"type":"text","text":"b\\n"}]'
    for role in ("system", "developer", "user", "assistant"):
        (message,) = chat(messages=f'[{{"role":"{role}","content":{parts}}}]').messages
        assert message == Message(role=role, content="a b\n")


def test_an_answer_with_calls_and_their_results():
    call = '{"id":"%d","type":"function","function":{"name":"f","arguments":%s}}'
    calls = f"[{call % (1, json.dumps(''))},{call % (2, json.dumps(SPACED))}]"
    parsed = chat(
        messages=f'[{ASK},{{"role":"assistant","content":null,"tool_calls":{calls}}},'
        '{"role":"tool","tool_call_id":"2","content":"r"},'
        '{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"s"}]}]'
    )
    assert parsed.messages[1:] == (
        Message(
            role="assistant",
            content="",
            calls=(Call("1", "f", "{}"), Call("2", "f", ' {"a": 1.50}')),
        ),
        Message(role="tool", content="r", call_id="2"),
        Message(role="tool", content="s", call_id="1"),
    )


def test_what_client_libraries_send_back_is_read():
    message = {
        "role": "assistant",
        "content": "a",
        "refusal": None,
        "audio": None,
        "annotations": [],
        "function_call": None,
        "name": None,
        "parsed": {"x": [1]},
        "tool_calls": [
            {
                "id": "1",
                "type": "function",
                "index": 0,
                "function": {"name": "f", "arguments": "{}", "parsed_arguments": {}},
            }
        ],
    }
    (read,) = chat(messages=json.dumps([message])).messages
    assert read == Message(role="assistant", content="a", calls=(Call("1", "f", "{}"),))
    message["tool_calls"] = None
    (read,) = chat(messages=json.dumps([message])).messages
    assert read == Message(role="assistant", content="a")


def test_schemas_keep_their_order_and_their_numbers():
    schema = '{ "b" : 1.50 , "a" : [ true , null , 1E2 , "\\u00e9\\n" ] , "c" : { } }'
    kept = '{"b":1.50,"a":[true,null,1E2,"é\\n"],"c":{}}'
    tool = f'{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}'
    parsed = chat(f',"tools":[{tool}]')
    assert parsed.tools == (Tool(name="f", description=None, parameters=kept),)
    form = f'{{"type":"json_schema","json_schema":{{"name":"n","schema":{schema},"strict":true}}}}'
    assert chat(f',"response_format":{form}').grammar == JsonSchema(kept)


@pytest.mark.parametrize(
    ("more", "choice", "parallel"),
    [
        ("", ToolChoice.AUTO, True),
        (',"tool_choice":null,"parallel_tool_calls":null', ToolChoice.AUTO, True),
        (',"tool_choice":"auto"', ToolChoice.AUTO, True),
        (',"tool_choice":"required","parallel_tool_calls":false', ToolChoice.REQUIRED, False),
        (',"tool_choice":{"type":"function","function":{"name":"f"}}', "f", True),
    ],
)
def test_choices_of_tools(more: str, choice: ToolChoice | str, parallel: bool):
    parsed = chat(f',"tools":[{TOOL}]{more}')
    tool = Tool(name="f", description=None, parameters=NO_PARAMETERS)
    assert parsed.tools == (tool,)
    assert parsed.grammar == ToolCalls(tools=(tool,), choice=choice, parallel=parallel)
    assert parsed.parameters(5)["grammar"] == 3


def test_tools_that_may_not_be_called_are_as_good_as_absent():
    plain = chat()
    assert plain.grammar is None
    assert "grammar" not in plain.parameters(5)
    for more in (
        f',"tools":[{TOOL}],"tool_choice":"none"',
        ',"tools":[]',
        ',"tools":null,"tool_choice":"none"',
        ',"tool_choice":"auto","parallel_tool_calls":true',
    ):
        assert chat(more) == plain
    more = f',"tools":[{TOOL}],"tool_choice":"none","response_format":{{"type":"json_object"}}'
    assert chat(more).grammar == JsonObject()
    assert chat(more).parameters(5)["grammar"] == 1
    assert chat(f',"tools":[{TOOL}],"response_format":{{"type":"text"}}').grammar is not None


def test_log_probabilities_of_both_endpoints():
    assert chat().sampling.logprobs is None
    assert chat(',"logprobs":true').sampling.logprobs == 0
    assert chat(',"logprobs":true,"top_logprobs":20').sampling.logprobs == 20
    assert chat(',"logprobs":false,"top_logprobs":0') == chat()
    body = b'{"model":"m","prompt":"p","logprobs":5}'
    assert parse_request(COMPLETIONS_PATH, body).sampling.logprobs == 5


def test_embeddings():
    one = parse_request(EMBEDDINGS_PATH, b'{"model":"m","input":"a"}')
    assert (one.inputs, one.embedding_format) == (("a",), "float")
    body = b'{"model":"m","input":["a",""],"encoding_format":"base64","user":"u"}'
    two = parse_request(EMBEDDINGS_PATH, body)
    assert (two.inputs, two.embedding_format) == (("a", ""), "base64")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, object]]:
    """Any conversation in which every result has its call."""
    messages: list[dict[str, object]] = [{"role": "user", "content": draw(texts)}]
    for turn in range(draw(st.integers(0, 3))):
        calls = draw(
            st.lists(st.tuples(names, st.dictionaries(texts, json_values, max_size=2)), max_size=2)
        )
        answer: dict[str, object] = {"role": "assistant", "content": draw(texts)}
        if calls:
            answer["tool_calls"] = [
                {
                    "id": f"call_{turn}_{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for number, (name, arguments) in enumerate(calls)
            ]
        messages.append(answer)
        messages += [
            {"role": "tool", "tool_call_id": f"call_{turn}_{n}", "content": draw(texts)}
            for n in range(len(calls))
        ]
        messages.append({"role": "user", "content": draw(texts)})
    return messages


@settings(deadline=None, max_examples=60)
@given(conversations(), st.dictionaries(names, st.dictionaries(texts, json_values, max_size=3)))
def test_what_is_written_is_read(messages, schemas):
    tools = [
        {"type": "function", "function": {"name": name, "parameters": schema}}
        for name, schema in list(schemas.items())[:3]
    ]
    path, body = write_request(model="m", messages=messages, options={"tools": tools or None})
    parsed = parse_request(path, body)
    written = []
    for message in parsed.messages:
        back: dict[str, object] = {"role": message.role, "content": message.content}
        if message.calls:
            back["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in message.calls
            ]
        if message.call_id is not None:
            back["tool_call_id"] = message.call_id
        written.append(back)
    assert written == messages
    assert [(tool.name, json.loads(tool.parameters)) for tool in parsed.tools] == [
        (tool["function"]["name"], tool["function"]["parameters"]) for tool in tools
    ]
