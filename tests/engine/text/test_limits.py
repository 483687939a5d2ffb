"""Templates that try to take memory, time or Python: each ends in a TemplateError, soon."""

from __future__ import annotations

import json
import time

import pytest

from engine.errors import TemplateError
from engine.text.budget import MAX_CHARACTERS, MAX_OPERATIONS
from engine.text.template import ChatTemplate
from tests.engine.text.support import DATA, compiled, render, tokenizer

LONG = "x" * 100_000
# Generous for a busy machine: what has no bound would run for hours, or fill the memory.
PATIENCE_S = 60

DATA_FILE = json.loads((DATA / "hostile_templates.json").read_text(encoding="utf-8"))
CURIOUS = {entry["comment"]: entry["template"] for entry in DATA_FILE["curious"]}
GREEDY = {entry["comment"]: entry["template"] for entry in DATA_FILE["greedy"]}
FOR_LONG = "{% for i in range(99999) %}"
SEARCH = "{% if 'zz' in messages[0].content %}{% endif %}"
GREEDY |= {
    "deep loops": "{% set m = range(999) | list %}" + "{% for i in m %}" * 7 + "{% endfor %}" * 7,
    "write much": FOR_LONG + "z" * 60_000 + "{% endfor %}",
    "search much": FOR_LONG + SEARCH * 99 + "{% endfor %}",
    "long body": FOR_LONG + "{{ none }}" * 5000 + "{% endfor %}",
}

BROKEN = {
    "not closed": "{{ ",
    "no such tag": "{% frobnicate %}",
    "loop without list": "{% for %}{% endfor %}",
    "parentheses": "{{ " + "(" * 20_000 + " }}",
    "negations": "{{ " + "not " * 15_000 + "1 }}",
    "sum": "{{ " + "a+" * 30_000 + "1 }}",
    "brackets": "{{ " + "[" * 5_000 + "]" * 5_000 + " }}",
    "nested loops": "{% for i in [1] %}" * 200 + "{% endfor %}" * 200,
    "nested conditions": "{% if a %}" * 900 + "{% endif %}" * 900,
    "too long": "a" * (64 * 1024 + 1),
}


@pytest.mark.parametrize("source", GREEDY.values(), ids=GREEDY)
def test_greedy_templates_end_soon(source: str) -> None:
    start = time.monotonic()
    with pytest.raises(TemplateError):
        render(source, LONG)
    assert time.monotonic() - start < PATIENCE_S


@pytest.mark.parametrize("source", CURIOUS.values(), ids=CURIOUS)
def test_curious_templates_are_refused(source: str) -> None:
    with pytest.raises(TemplateError):
        render(source)


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN)
def test_broken_templates_are_refused_when_they_are_compiled(source: str) -> None:
    start = time.monotonic()
    with pytest.raises(TemplateError):
        compiled(source)
    assert time.monotonic() - start < PATIENCE_S


def test_a_template_in_another_encoding_is_refused() -> None:
    with pytest.raises(TemplateError):
        ChatTemplate(b"\xff", tokenizer())


@pytest.mark.parametrize("source", ["{{ ''['__class__'] }}", "{{ raise_exception.__globals__ }}"])
def test_what_is_private_is_undefined(source: str) -> None:
    assert render(source).text == ""


def test_the_limits_leave_room_for_long_conversations() -> None:
    source = "{% for m in messages %}{{ '<|im_start|>' + m.content + '<|im_end|>' }}{% endfor %}"
    messages = [{"role": "user", "content": "word " * 400} for _ in range(1000)]
    prompt = compiled(source).render(messages, now_unix_s=0)
    assert len(prompt.markers) == 2000
    assert len(prompt.text) > 2_000_000
    assert MAX_CHARACTERS > 2 * 10**6 <= MAX_OPERATIONS


def test_one_rendering_does_not_use_up_another() -> None:
    chat = compiled("{% for i in range(90000) %}{% endfor %}a")
    for _ in range(8):
        assert chat.render([], now_unix_s=0).text == "a"
