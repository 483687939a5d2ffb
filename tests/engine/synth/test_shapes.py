"""Shapes: numbers that add up to the parameters that the models are published with."""

from __future__ import annotations

import math

import pytest

from engine.errors import ConfigError, UnsupportedError
from engine.synth.shapes import SHAPES, shape_named
from engine.vqf.families import required_extents

PARAMETERS = {
    "qwen3-8b": 8_190_735_360,
    "qwen3-4b": 4_022_468_096,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-0.6b": 596_049_920,
    "qwen2.5-7b": 7_615_616_512,
    "llama3-8b": 8_030_261_248,
    "smollm2-135m": 134_515_008,
}
"""As the model cards give them, rounded there to three digits or fewer."""


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_number_of_parameters(name: str):
    extents = required_extents(SHAPES[name].config())
    assert PARAMETERS[name] == sum(math.prod(t.shape) for e in extents for t in e.tensors)


def test_every_shape_is_counted():
    assert PARAMETERS.keys() == SHAPES.keys()


def test_another_depth_and_context():
    config = SHAPES["qwen3-8b"].config(num_layers=2, context_tokens=262_144)
    assert (config.num_layers, config.context_length_tokens) == (2, 262_144)
    assert config.hidden_size == 4096


@pytest.mark.parametrize(
    "settings", [{"num_layers": 0}, {"num_layers": 1025}, {"context_tokens": 1 << 21}]
)
def test_numbers_out_of_range(settings: dict[str, int]):
    with pytest.raises(ConfigError, match="must be in 1"):
        SHAPES["qwen3-8b"].config(**settings)


@pytest.mark.parametrize("name", ["qwen3-30b-a3b", "qwen3.8-27b"])
def test_shapes_whose_architecture_is_missing(name: str):
    with pytest.raises(UnsupportedError, match=f"{name} .* joins with its architecture"):
        shape_named(name)


def test_an_unknown_shape():
    with pytest.raises(ConfigError, match="no shape 'qwen9', only qwen3-8b, "):
        shape_named("qwen9")
