"""Layers of random weights and calibrated ranges, for the tests of polynomial layers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from he_chain.backends.mock import MockEvaluator, MockHolder
from he_chain.parameters import Parameters
from he_chain.polynomial.ranges import LayerRanges, merge, observe
from he_chain.weights import LayerWeights
from tests.he_chain.models import model_config

if TYPE_CHECKING:
    from pathlib import Path

    from engine.config import ModelConfig
    from he_chain.backends.base import Values

SMALL_RING = Parameters(
    ring_degree=2048, num_levels=8, scale_bits=39, first_bits=60, special_bits=60
)
"""Of the mock, which needs no security."""
CHOSEN = Parameters(ring_degree=16384, num_levels=8, scale_bits=39, first_bits=60, special_bits=60)
"""What a polynomial layer of 64 channels runs with."""


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer, and the ranges of its values on windows of random tokens."""

    config: ModelConfig
    weights: LayerWeights
    ranges: LayerRanges

    def inputs(self, count: int, seed: int) -> Values:
        return _inputs(self.config.hidden_size, count, seed)


@cache
def make_layer(*, squarings: int = 0, bias: bool = False, seed: int = 5, **changes: Any) -> Layer:
    config = model_config("qwen2" if bias else "llama", **changes)
    d, dim = config.hidden_size, config.head_dim
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Values:
        return rng.standard_normal((rows, columns)) / np.sqrt(columns)

    shared = config.num_kv_heads * dim
    biases = [rng.standard_normal(n) / 4 for n in (config.num_heads * dim, shared, shared)]
    weights = LayerWeights(
        attention_norm=rng.uniform(0.7, 1.3, d),
        q=matrix(config.num_heads * dim, d),
        k=matrix(shared, d),
        v=matrix(shared, d),
        o=matrix(d, config.num_heads * dim),
        ffn_norm=rng.uniform(0.7, 1.3, d),
        gate=matrix(config.intermediate_size, d),
        up=matrix(config.intermediate_size, d),
        down=matrix(d, config.intermediate_size),
        **(dict(zip(("q_bias", "k_bias", "v_bias"), biases, strict=True)) if bias else {}),
    )
    windows = [_inputs(d, 16, 1000 + i) for i in range(20)]
    found = [observe(weights, config, x, squarings)[0] for x in windows]
    return Layer(config, weights, merge(found).widened(0.25))


def mock_pair(
    parameters: Parameters, rotations: frozenset[int], folder: Path
) -> tuple[MockHolder, MockEvaluator]:
    holder = MockHolder.create(parameters)
    holder.write_evaluation_keys(folder, rotations)
    return holder, MockEvaluator.open(folder)


def bits_of(found: Values, wanted: Values) -> float:
    return float(-np.log2(np.abs(found - wanted).max() / np.abs(wanted).max()))


def _inputs(channels: int, count: int, seed: int) -> Values:
    rng = np.random.default_rng(seed)
    # magnitudes as of a trained model's tokens, within a factor of two
    return rng.standard_normal((count, channels)) * rng.uniform(0.8, 1.6, (count, 1))
