"""The tokenizer made by rule: every id has a token, words are single tokens, nothing is lost."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.convert.tokenizer import check_text, check_vocabulary, load_tokenizer
from engine.errors import ConfigError
from engine.synth.shapes import SHAPES
from engine.synth.text import CONTROL_TOKENS, MIN_VOCABULARY, synthetic_text
from engine.text.alphabet import CHARACTERS
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer

TEXT = synthetic_text(22_000)
TOKENIZER = Tokenizer(TEXT.tokenizer_json, TEXT.config)


@pytest.mark.parametrize("vocab_size", [MIN_VOCABULARY, 300, 4000])
def test_a_token_for_every_row(vocab_size: int):
    text = check_text(synthetic_text(vocab_size))
    tokenizer = load_tokenizer(text.tokenizer_json)
    check_vocabulary(tokenizer, vocab_size)
    assert tokenizer.get_vocab_size() == vocab_size


def test_no_token_is_there_twice():
    # Those of a smaller vocabulary are the first of a larger one.
    vocab_size = max(shape.vocab_size for shape in SHAPES.values())
    model = json.loads(synthetic_text(vocab_size).tokenizer_json)["model"]
    assert [*model["vocab"].values()] == [*range(vocab_size)]
    before = {*CHARACTERS}
    for merge in model["merges"]:
        left, right = merge.split(" ")
        assert {left, right} <= before
        before.add(left + right)
    assert len(before) + len(CONTROL_TOKENS) == vocab_size


def test_too_few_rows():
    with pytest.raises(ConfigError, match=f"at least {MIN_VOCABULARY} tokens, not 258"):
        synthetic_text(MIN_VOCABULARY - 1)


@settings(deadline=None, max_examples=50)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_comes_back(text: str):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_words_are_tokens():
    assert len(TOKENIZER.encode(" babe babebi")) == 2
    assert len(TOKENIZER.encode("babe")) == 1


def test_control_tokens_come_from_the_template_alone():
    template = ChatTemplate(TEXT.template or b"", TOKENIZER)
    said = "".join(CONTROL_TOKENS)
    prompt = template.render([{"role": "user", "content": said}], now_unix_s=0)
    ids = TOKENIZER.encode_prompt(prompt)
    assert [i for i in ids if i < len(CONTROL_TOKENS)] == [1, 2, 1]
    assert said in TOKENIZER.decode(ids)
