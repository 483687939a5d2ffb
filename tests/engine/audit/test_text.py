"""The text of ids is the text that generation gave, wherever the answer ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.audit.text import LENGTH, STOP, TextModel, answer_text
from engine.errors import TemplateError
from engine.generate import generate
from engine.model import Model
from engine.sampling.parameters import SamplingParameters
from engine.sequence import Request
from engine.vqf import open_vqf

MESSAGES = [{"role": "user", "content": "Why?"}]


@pytest.fixture(scope="module")
def text_model(tiny_vqf: Path) -> Iterator[TextModel]:
    """Tokenizer and template alone."""
    with open_vqf(tiny_vqf) as file:
        yield TextModel(file)


def test_prompt_ids_are_the_models(model: Model, text_model: TextModel) -> None:
    wanted = model.chat_ids(MESSAGES, now_unix_s=5)
    assert text_model.chat_ids(MESSAGES, now_unix_s=5) == wanted
    text_model.template, kept = None, text_model.template
    with pytest.raises(TemplateError):
        text_model.chat_ids(MESSAGES, now_unix_s=5)
    text_model.template = kept


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("num_stops", [0, 1, 3])
def test_text_and_reason_are_those_of_the_generation(
    model: Model, text_model: TextModel, seed: int, num_stops: int
) -> None:
    prompt = tuple(model.chat_ids(MESSAGES, now_unix_s=5))
    sampling = SamplingParameters(seed=seed, temperature_millionths=1_200_000)
    free = generate(model, Request(prompt, 16, sampling))
    # Ends of all kinds: a string of the answer, one that never comes, an id of the answer.
    stops = [free.text[5:7], "never", free.text[-1:]][:num_stops]
    eos_ids = (free.token_ids[9],) if seed % 2 else ()
    made = generate(model, Request(prompt, 16, sampling, eos_ids), stops=stops)
    found = answer_text(
        text_model.tokenizer, made.token_ids, eos_ids=eos_ids, stops=stops, max_tokens=16
    )
    assert found.text == made.text
    assert found.finish_reason == made.finish_reason.value
    assert found.length == len(made.token_ids)


def test_an_answer_that_goes_on_has_no_reason(model: Model, text_model: TextModel) -> None:
    prompt = tuple(model.chat_ids(MESSAGES, now_unix_s=5))
    made = generate(model, Request(prompt, 8, SamplingParameters(seed=1)))
    tokenizer, ids = text_model.tokenizer, made.token_ids
    part = answer_text(tokenizer, ids[:5], eos_ids=(), stops=(), max_tokens=8)
    assert (part.finish_reason, part.length) == (None, 5)
    more = answer_text(tokenizer, ids, eos_ids=(), stops=(), max_tokens=6)
    assert (more.finish_reason, more.length) == (LENGTH, 6)
    ended = answer_text(tokenizer, ids, eos_ids=(ids[2],), stops=(), max_tokens=8)
    assert ended.finish_reason == STOP
    assert ended.length == ids.index(ids[2]) + 1
