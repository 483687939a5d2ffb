"""The texts of the pages: two languages, nothing missing, nothing left over."""

from __future__ import annotations

import re

import pytest

from tests.appliance.pages.code_case import FOLDER, needs_node, run_cases

pytestmark = needs_node

SOURCES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.iterdir())}


@pytest.fixture(scope="module")
def strings():
    return run_cases({"op": "strings"})[0]["value"]


def test_every_text_is_there_in_both_languages(strings):
    assert len(strings) > 100
    for key, pair in strings.items():
        assert len(pair) == 2, key
        assert all(isinstance(text, str) and text.strip() == text != "" for text in pair), key
        parts = [sorted(re.findall(r"\{(\w+)\}", text)) for text in pair]
        assert parts[0] == parts[1], key
        assert not re.search(r"[㐀-鿿]", pair[0]), key


def test_every_text_is_used_and_every_used_one_exists(strings):
    code = "".join(text for name, text in SOURCES.items() if name != "strings.js")
    unused = [key for key in strings if not re.search(rf'"{key}"', code)]
    assert unused == []
    named = set(re.findall(r'\btext\("(\w+)"', code))
    named |= set(re.findall(r'data-(?:text|label|placeholder|title)="(\w+)"', code))
    named |= set(re.findall(r'\bbutton\("(\w+)"', code))
    assert named - strings.keys() == set()


def test_parts_are_put_in_as_they_are():
    case = {"op": "text", "key": "toolCall", "parts": {"name": "$& {name}"}}
    assert run_cases(case, case | {"language": 1}) == [
        {"value": "Call of $& {name}"}, {"value": "调用 $& {name}"},
    ]  # fmt: skip
