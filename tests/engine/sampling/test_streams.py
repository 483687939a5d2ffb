"""Streams of ids that must never change: a change is a new profile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.sampling.parameters import SamplingParameters
from engine.sampling.reference import ReferenceSampler
from engine.sampling.sampler import Sampler
from tests.engine.sampling.support import pinned_logits

VECTORS = Path(__file__).parents[2] / "data" / "sampling" / "streams.json"
TESTS = json.loads(VECTORS.read_text(encoding="utf-8"))["tests"]


def parameters_of(vector) -> SamplingParameters:
    values = dict(vector["parameters"])
    if "logit_bias_millionths" in values:
        values["logit_bias_millionths"] = tuple(map(tuple, values["logit_bias_millionths"]))
    return SamplingParameters(**values)


def stream(kind: type[Sampler] | type[ReferenceSampler], vector) -> list[int]:
    """Sample one id after another; each step has logits of its own."""
    size = vector["vocab_size"]
    sampler = kind(parameters_of(vector), size)
    output: list[int] = []
    for step in range(vector["steps"]):
        logits = pinned_logits(size, vector["first_key"] + step)
        position = len(vector["prompt_ids"]) + step
        output.append(sampler.sample(logits, vector["prompt_ids"], output, position).id)
    return output


@pytest.mark.parametrize("kind", [ReferenceSampler, Sampler])
@pytest.mark.parametrize("vector", TESTS, ids=lambda vector: vector["comment"])
def test_stream(vector, kind) -> None:
    assert stream(kind, vector) == vector["ids"]


def test_logprobs_are_pinned_by_their_bits() -> None:
    vector = json.loads(VECTORS.read_text(encoding="utf-8"))["logprobs"]
    logits = pinned_logits(vector["vocab_size"], vector["key"])
    parameters = SamplingParameters(seed=vector["seed"], logprobs=vector["logprobs"])
    for kind in (ReferenceSampler, Sampler):
        choice = kind(parameters, vector["vocab_size"]).sample(logits, [], [], 0)
        assert choice.logprob is not None
        assert [choice.id, choice.logprob.hex()] == vector["chosen"]
        assert [[i, p.hex()] for i, p in choice.top] == vector["top"]
