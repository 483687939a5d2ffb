"""Audits of constrained answers: the masks are made again, and an id outside one is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.audit.answered import Answered
from engine.audit.execute import run_choices
from engine.audit.masks import Masks
from engine.audit.replay import replay
from engine.audit.text import STOP, TextModel, answer_text
from engine.audit.unit_weights import PartReader
from engine.errors import SamplingError
from engine.generate import generate
from engine.grammar.grammar import Grammar
from engine.grammar.spec import JsonSchema, Tool, ToolCalls, ToolChoice
from engine.model import Model
from engine.sampling.parameters import SamplingParameters
from engine.sequence import FinishReason, Request
from engine.text.tool_calls import CallStart, ToolCallParser
from engine.vqf import VqfFile, open_vqf

SCHEMA = (
    '{"type":"object","properties":{"n":{"type":"integer","minimum":10,"maximum":99},'
    '"k":{"enum":["a","bc"]},"s":{"type":"string","maxLength":5}},'
    '"required":["n","k","s"],"additionalProperties":false}'
)
SAMPLING = SamplingParameters(seed=11, temperature_millionths=1_500_000)
PROMPT = (5, 17, 40, 8)
MAX_TOKENS = 160


def answered(model: Model, grammar: Grammar | None) -> tuple[Answered, bytes, FinishReason, str]:
    request = Request(PROMPT, MAX_TOKENS, SAMPLING, model.tokenizer_config.eos_ids, grammar=grammar)
    made = generate(model, request)
    assert made.trace_root is not None
    answer = Answered(PROMPT, made.token_ids, SAMPLING, grammar)
    return answer, made.trace_root, made.finish_reason, made.text


@pytest.fixture(scope="module")
def file(tiny_vqf: Path) -> Iterator[VqfFile]:
    with open_vqf(tiny_vqf) as opened:
        yield opened


def test_a_constrained_answer_follows_and_stops_when_it_is_complete(model: Model) -> None:
    grammar = model.grammars.compile(JsonSchema(SCHEMA))
    answer, trace_root, reason, text = answered(model, grammar)
    value = json.loads(text)
    assert list(value) == ["n", "k", "s"]
    assert 10 <= value["n"] <= 99
    assert reason is FinishReason.STOP
    assert answer.output_ids[-1] not in model.tokenizer_config.eos_ids
    replayed = replay(model.engine, answer)
    assert replayed.choices == answer.output_ids
    assert replayed.trace_root == trace_root


def test_a_compiler_is_made_once(model: Model) -> None:
    assert model.grammars is model.grammars


def test_an_answer_as_long_as_allowed_is_cut(model: Model) -> None:
    grammar = model.grammars.compile(JsonSchema(SCHEMA))
    made = generate(model, Request(PROMPT, 3, SAMPLING, grammar=grammar))
    assert (made.finish_reason, len(made.token_ids)) == (FinishReason.LENGTH, 3)


def test_the_same_ids_without_the_grammar_do_not_follow(model: Model) -> None:
    answer, *_ = answered(model, model.grammars.compile(JsonSchema(SCHEMA)))
    free = Answered(answer.prompt_ids, answer.output_ids, answer.sampling)
    assert replay(model.engine, free).choices != answer.output_ids


@pytest.mark.parametrize("index", [0, 3, -1])
def test_an_id_outside_its_mask_is_found(model: Model, index: int) -> None:
    answer, *_ = answered(model, model.grammars.compile(JsonSchema(SCHEMA)))
    index %= len(answer.output_ids)
    first = len(PROMPT) - 1
    mask = Masks(answer).at(range(first, first + len(answer.output_ids)))[index]
    assert mask is not None
    ids = list(answer.output_ids)
    ids[index] = int(np.flatnonzero(~mask)[7])
    forged = Answered(answer.prompt_ids, tuple(ids), SAMPLING, answer.grammar)
    replayed = replay(model.engine, forged)
    assert replayed.choices[:index] == tuple(ids[:index])
    assert replayed.choices[index] == answer.output_ids[index] != ids[index]


def test_single_choices_have_the_masks_of_their_places(model: Model, file: VqfFile) -> None:
    answer, *_ = answered(model, model.grammars.compile(JsonSchema(SCHEMA)))
    states: list[np.ndarray] = []
    replay(model.engine, answer, observe=lambda _f, residuals, _l: states.append(residuals[-1]))
    last = np.concatenate(states)
    first = len(PROMPT) - 1
    positions = [first + 5, first, len(last) - 1, first + 5]
    found = run_choices(PartReader(file).head(), last[positions], positions, answer, num_threads=1)
    assert found == [answer.output_ids[position - first] for position in positions]


def test_the_text_ends_where_the_grammar_does(model: Model, file: VqfFile) -> None:
    grammar = TextModel(file).grammars.compile(JsonSchema(SCHEMA))
    answer, _, _, text = answered(model, grammar)
    common = {"eos_ids": model.tokenizer_config.eos_ids, "stops": (), "max_tokens": MAX_TOKENS}
    found = answer_text(model.tokenizer, answer.output_ids, **common, grammar=grammar)
    assert found == (type(found))(text, len(answer.output_ids), STOP)
    more = (*answer.output_ids, 7)
    assert answer_text(model.tokenizer, more, **common, grammar=grammar) == found
    assert answer_text(model.tokenizer, more, **common).length == len(more)
    for wrong in (7, 10**9):
        with pytest.raises(SamplingError):
            answer_text(model.tokenizer, (wrong, *more), **common, grammar=grammar)


@pytest.mark.parametrize("choice", [ToolChoice.REQUIRED, "look"])
def test_a_forced_call_is_a_call(model: Model, choice: ToolChoice | str) -> None:
    tools = (Tool(name="look", description=None, parameters=SCHEMA),)
    spec = ToolCalls(tools=tools, choice=choice, parallel=False)
    answer, _, reason, text = answered(model, model.grammars.compile(spec))
    parser = ToolCallParser()
    assert CallStart(0, "look") in parser.push(text)
    assert (reason, parser.num_calls) == (FinishReason.STOP, 1)
    assert replay(model.engine, answer).choices == answer.output_ids


def test_free_text_with_tools_replays(model: Model) -> None:
    tools = (Tool(name="look", description=None, parameters=SCHEMA),)
    spec = ToolCalls(tools=tools, choice=ToolChoice.AUTO, parallel=True)
    answer, *_ = answered(model, model.grammars.compile(spec))
    assert replay(model.engine, answer).choices == answer.output_ids
