from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UnsupportedError
from engine.text.provenance import Mask, MaskedText, is_masked
from tests.engine.text.support import MARKERS, texts

MASK = Mask(MARKERS)
short = st.one_of(st.text("<|im_>\n ab", max_size=4), st.sampled_from(["<|", "\n", " ", "é"]))


def hide(text: str) -> MaskedText:
    return MASK.hide(text)


def mixed(text: str, cut: int) -> tuple[MaskedText, str]:
    """Return a text whose second part a template wrote, and the real text."""
    tail = "<|im_end|>"
    return hide(text[:cut]) + tail, text[:cut] + tail


@given(texts)
def test_a_mask_is_one_to_one(text: str) -> None:
    hidden = hide(text)
    assert MASK.reveal(hidden) == text
    assert len(hidden) == len(text)
    assert not any(marker in str.__str__(hidden) for marker in MARKERS)


METHODS = [
    ("strip", 0),
    ("lstrip", 0),
    ("rstrip", 0),
    ("split", 0),
    ("rsplit", 0),
    ("splitlines", 0),
    ("lower", 0),
    ("upper", 0),
    ("title", 0),
    ("capitalize", 0),
    ("isdigit", 0),
    ("isalpha", 0),
    ("isalnum", 0),
    ("isupper", 0),
    ("islower", 0),
    ("strip", 1),
    ("lstrip", 1),
    ("rstrip", 1),
    ("split", 1),
    ("rsplit", 1),
    ("partition", 1),
    ("rpartition", 1),
    ("startswith", 1),
    ("endswith", 1),
    ("find", 1),
    ("rfind", 1),
    ("index", 1),
    ("count", 1),
    ("removeprefix", 1),
    ("removesuffix", 1),
    ("replace", 2),
]


def plain(value: object) -> object:
    if isinstance(value, str):
        return MASK.reveal(value)
    return type(value)(map(plain, value)) if isinstance(value, list | tuple) else value


def attempt(function, *arguments) -> object:
    try:
        return plain(function(*arguments))
    except ValueError:
        return ValueError


@pytest.mark.parametrize(("name", "arity"), METHODS)
@given(data=st.data(), text=texts, cut=st.integers(0, 60))
def test_methods_do_what_they_do_with_the_real_text(name, arity, data, text, cut) -> None:
    masked, real = mixed(text, cut)
    arguments = [data.draw(short) for _ in range(arity)]
    if name == "replace" and not arguments[0]:
        arguments[0] = "<"
    expected = attempt(getattr(real, name), *arguments)
    assert attempt(getattr(masked, name), *arguments) == expected
    disguised = [hide(argument) for argument in arguments]
    assert attempt(getattr(masked, name), *disguised) == expected


@given(texts, texts, st.integers(-9, 9), st.integers(-9, 9))
def test_operators_do_what_they_do_with_the_real_text(a: str, b: str, i: int, j: int) -> None:
    x, y = hide(a), hide(b)
    assert [x == y, x == b, a == y, x != b, x < b, a <= y, x > y, x >= b] == [
        a == b, a == b, a == b, a != b, a < b, a <= b, a > b, a >= b,
    ]  # fmt: skip
    assert ((y in x), (b in x), (y in hide(a + b))) == (b in a, b in a, True)
    for got, real in [
        (x + y, a + b), (x + b, a + b), (a + y, a + b), (x * 2, a * 2), (2 * x, a * 2),
        (x[i:j], a[i:j]), (x[::-1], a[::-1]), (f"{x}", a), (x.join([b, y]), b + a + b),
        (repr([x]), repr([a])), (sorted([x, y])[0], sorted([a, b])[0]),
    ]:  # fmt: skip
        assert MASK.reveal(got) == real
    assert {x: 1} == {a: 1}
    assert {a: 1}[x] == {x: 1}[str(a)] == 1
    assert list(map(MASK.reveal, x)) == list(a)


@given(texts, st.sampled_from(["lower", "upper", "title", "capitalize", "strip"]))
def test_masks_stay_on(text: str, method: str) -> None:
    changed = getattr(hide(text), method)()
    assert not any(marker in str.__str__(changed) for marker in MARKERS)
    for visible in str.__str__(changed):
        assert not any(visible in marker for marker in MARKERS) or visible.isspace()


def test_a_change_of_case_makes_no_character_of_a_control_token() -> None:
    mask = Mask(["<kiss>"])
    for text in ("KISS", "ſ", "\u212a", "ß", "ﬆ", "İ"):
        assert is_masked(mask.hide(text))
        assert mask.reveal(mask.hide(text)) == text


def test_no_script_with_case_is_overlooked() -> None:
    assert all(
        chr(code).lower() == chr(code).upper() for code in range(0x20000, sys.maxunicode + 1)
    )


def test_whitespace_has_no_mask() -> None:
    assert str.__str__(Mask(["a b\n"]).hide(" \n\t")) == " \n\t"


def test_results_of_other_code_are_recognised() -> None:
    joined = "".join([hide("<|im_end|>"), "x"])
    assert not isinstance(joined, MaskedText)
    assert isinstance(MASK.recognise(joined), MaskedText)
    assert MASK.recognise("x") == "x"
    assert not isinstance(MASK.recognise("é"), MaskedText)
    assert json.loads(MASK.reveal(json.dumps([hide("<")], ensure_ascii=False))) == ["<"]


def test_too_many_characters_are_refused() -> None:
    Mask([chr(0x4E00 + i) for i in range(2048)])
    with pytest.raises(UnsupportedError):
        Mask([chr(0x4E00 + i) for i in range(2049)])
