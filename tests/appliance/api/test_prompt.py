"""From requests to prompt ids: with tools and without, and nothing of a request is a control id."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from appliance.api import prompt
from appliance.api.parse import parse_request
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH, Parsed
from appliance.api.prompt import input_ids, prompt_ids
from engine.errors import TemplateError
from engine.text.template import ChatTemplate, Json
from tests.engine.text.support import MARKERS, compiled, naive, template, tokenizer

ADMITTED_UNIX_S = 1_764_460_800
SPECIFICATION = (Path(prompt.__file__).with_name("REQUESTS.md")).read_text(encoding="utf-8")


class Source:
    """A tokenizer and one template, as a model has them."""

    def __init__(self, template: ChatTemplate | None) -> None:
        self.tokenizer = tokenizer()
        self.template = template
        self.text = ""

    def chat_ids(
        self,
        messages: Sequence[Mapping[str, Json]],
        *,
        now_unix_s: int,
        tools: Sequence[Json] | None = None,
    ) -> list[int]:
        """Keep the text, return the ids."""
        assert self.template is not None
        rendered = self.template.render(messages, now_unix_s=now_unix_s, tools=tools)
        self.text = rendered.text
        return self.tokenizer.encode_prompt(rendered)


PLAIN = compiled("{% for m in messages %}[{{ m.role }}|{{ m.content }}]{% endfor %}")
ADD = (
    '{"type":"function","function":{"name":"add",'
    '"parameters":{"type":"object","properties":{"a":{"type":"number"}}}}}'
)
SAY = (
    '{"type":"function","function":'
    '{"name":"say","description":"Say \\"it\\"\\n.","parameters":null}}'
)
TALK = (
    '[{"role":"user","content":"q"},'
    '{"role":"assistant","content":"so","tool_calls":['
    '{"id":"1","type":"function","function":{"name":"add","arguments":"{\\"a\\": 1.50}"}},'
    '{"id":"2","type":"function","function":{"name":"say","arguments":""}}]},'
    '{"role":"tool","tool_call_id":"1","content":"2.5"},'
    '{"role":"tool","tool_call_id":"2","content":"hi"},'
    '{"role":"user","content":"and?"}]'
)


def chat(messages: str, more: str = "") -> Parsed:
    return parse_request(CHAT_PATH, f'{{"model":"m","messages":{messages}{more}}}'.encode())


def text_of(template: ChatTemplate, parsed: Parsed) -> str:
    source = Source(template)
    prompt_ids(source, parsed, now_unix_s=ADMITTED_UNIX_S)
    return source.text


def test_tools_are_described_in_a_system_message_of_their_own():
    text = text_of(PLAIN, chat('[{"role":"user","content":"q"}]', f',"tools":[{ADD}]'))
    described, rest = text.removeprefix("[system|").split("][", 1)
    assert rest == "user|q]"
    assert f"```text\n{described}\n```" in SPECIFICATION


@pytest.mark.parametrize("role", ["system", "developer"])
def test_tools_are_described_behind_the_first_system_message(role: str):
    talk = f'[{{"role":"{role}","content":"Be brief."}},{{"role":"user","content":"q"}}]'
    text = text_of(PLAIN, chat(talk, f',"tools":[{ADD},{SAY}]'))
    assert text.startswith("[system|Be brief.\n\nYou may call these functions:")
    lines = text[text.index("<tools>\n") + 8 : text.index("\n</tools>")].split("\n")
    assert lines == [
        '{"type": "function", "function": {"name": "add", "parameters": '
        '{"type": "object", "properties": {"a": {"type": "number"}}}}}',
        '{"type": "function", "function": {"name": "say", "description": "Say \\"it\\"\\n.", '
        '"parameters": {"type": "object", "properties": {}, "additionalProperties": false}}}',
    ]


def test_calls_and_results_are_text_where_the_template_knows_no_tools():
    assert text_of(PLAIN, chat(TALK)) == (
        "[user|q]"
        '[assistant|so\n<tool_call>\n{"name": "add", "arguments": {"a": 1.50}}\n</tool_call>\n'
        '<tool_call>\n{"name": "say", "arguments": {}}\n</tool_call>]'
        "[user|<tool_response>\n2.5\n</tool_response>\n<tool_response>\nhi\n</tool_response>]"
        "[user|and?]"
    )
    block = '```text\n<tool_call>\n{"name": "add", "arguments": {"a": 1.50}}\n</tool_call>\n```'
    assert block in SPECIFICATION
    assert "```text\n<tool_response>\n2.5\n</tool_response>\n```" in SPECIFICATION


def test_a_template_with_tools_gets_them_as_values():
    talk = TALK.replace('"user","content":"q"', '"user","content":"é"')
    text = text_of(template("tools"), chat(talk, f',"tools":[{ADD},{SAY}]'))
    tools = [json.loads(ADD), json.loads(SAY)]
    tools[1]["function"]["parameters"] = {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    messages = json.loads(talk)
    for call in messages[1]["tool_calls"]:
        call["function"]["arguments"] = json.loads(call["function"]["arguments"] or "{}")
    assert text == naive("tools", messages, tools=tools)
    assert '"a": 1.5}' in text


def test_a_choice_changes_no_prompt_and_none_shows_no_tools():
    tools = f',"tools":[{ADD}]'
    for one in (PLAIN, template("tools")):
        shown = text_of(one, chat(TALK, tools))
        for choice in ('"auto"', '"required"', '{"type":"function","function":{"name":"add"}}'):
            assert text_of(one, chat(TALK, f'{tools},"tool_choice":{choice}')) == shown
        hidden = text_of(one, chat(TALK, f'{tools},"tool_choice":"none"'))
        assert hidden == text_of(one, chat(TALK)) != shown
        for form in (
            '{"type":"json_object"}',
            '{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}',
        ):
            assert text_of(one, chat(TALK, f',"response_format":{form}')) == hidden


def test_developers_are_the_system_unless_the_template_knows_them():
    talk = '[{"role":"developer","content":"d"},{"role":"user","content":"q"}]'
    assert text_of(PLAIN, chat(talk)) == "[system|d][user|q]"
    knowing = compiled(
        "{% for m in messages %}{% if m.role == 'developer' %}!{% endif %}{{ m.role }}{% endfor %}"
    )
    assert text_of(knowing, chat(talk)) == "!developeruser"


@pytest.mark.parametrize("number", ["1e400", "-1E+999", "1" * 101])
def test_numbers_that_no_template_can_have_are_refused(number: str):
    tool = f'{{"type":"function","function":{{"name":"f","parameters":{{"maximum":{number}}}}}}}'
    parsed = chat('[{"role":"user","content":"q"}]', f',"tools":[{tool}]')
    with pytest.raises(TemplateError, match="number"):
        text_of(template("tools"), parsed)
    assert f'"maximum": {number}' in text_of(PLAIN, parsed)


def everywhere(text: str) -> str:
    """Return a conversation that has a text in every place where a text may be."""
    schema = {"type": "object", "properties": {text: {"enum": [text], "description": text}}}
    tool = {"name": "f", "description": text, "parameters": schema}
    call = {"name": "f", "arguments": json.dumps({text: text})}
    messages = [
        {"role": "system", "content": text},
        {"role": "user", "content": [{"type": "text", "text": text}]},
        {
            "role": "assistant",
            "content": text,
            "tool_calls": [{"id": text[:256], "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": text[:256], "content": text},
        {"role": "user", "content": text},
    ]
    tools = [{"type": "function", "function": tool}]
    return json.dumps({"model": text[:200], "messages": messages, "tools": tools})


@pytest.mark.parametrize("marker", [*MARKERS, "".join(MARKERS)])
@pytest.mark.parametrize("name", ["chatml", "tools", "headers"])
def test_no_text_of_a_request_is_a_control_id(name: str, marker: str):
    control = {token.id for token in tokenizer().control_tokens}
    found = []
    for text in ("harmless", marker):
        parsed = parse_request(CHAT_PATH, everywhere(text).encode())
        ids = prompt_ids(Source(template(name)), parsed, now_unix_s=ADMITTED_UNIX_S)
        found.append([i for i in ids if i in control])
        assert found[-1]
    assert found[0] == found[1]


@pytest.mark.parametrize("marker", MARKERS)
def test_no_prompt_or_input_is_a_control_id(marker: str):
    control = {token.id for token in tokenizer().control_tokens}
    source = Source(None)
    body = json.dumps({"model": "m", "prompt": marker}).encode()
    assert control.isdisjoint(
        prompt_ids(source, parse_request(COMPLETIONS_PATH, body), now_unix_s=0)
    )
    body = json.dumps({"model": "m", "input": [marker, "a"]}).encode()
    parsed = parse_request(EMBEDDINGS_PATH, body)
    parts = input_ids(source, parsed)
    assert parts == (tuple(tokenizer().encode(marker)), tuple(tokenizer().encode("a")))
    assert prompt_ids(source, parsed, now_unix_s=0) == parts[0] + parts[1]
    assert control.isdisjoint(parts[0])
