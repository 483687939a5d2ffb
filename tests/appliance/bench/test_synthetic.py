"""Weights made in memory are a model that the engine accepts and that stays finite."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from appliance.bench.synthetic import KINDS, SyntheticWeights, config_8b
from engine.forward import Engine, Piece
from engine.vqf.families import required_extents
from engine.vqf.panels import packed_bytes, unpack, values

NARROW = replace(
    config_8b(2, context_tokens=64),
    hidden_size=64,
    num_heads=2,
    num_kv_heads=1,
    head_dim=32,
    intermediate_size=96,
    vocab_size=48,
    rope_inv_freq_bits=config_8b(1).rope_inv_freq_bits[:16],
)


def test_the_shape_is_that_of_llama_3_8b() -> None:
    numbers = {
        tensor.name: int(np.prod(tensor.shape))
        for extent in required_extents(config_8b(32))
        for tensor in extent.tensors
    }
    assert sum(numbers.values()) == 8_030_261_248
    assert numbers["layers.31.down"] == 4096 * 14336


@pytest.mark.parametrize("kind", KINDS)
def test_every_tensor_is_there_and_of_use(kind: str) -> None:
    weights = SyntheticWeights(NARROW, kind)
    for extent in required_extents(NARROW):
        for name, shape in extent.tensors:
            placed = weights.find(name)
            assert placed is not None
            assert placed.shape == shape
            assert placed.kind == (kind if len(shape) == 2 else "F32")
    assert weights.find("nonesuch") is None
    memory = weights._memory[weights.find("layers.1.down").base - 1]
    assert len(memory) == packed_bytes(kind, 64, 96)
    matrix = values(kind, unpack(kind, memory, 64, 96))
    assert 0.3 < matrix.std() * 96**0.5 < 3.0
    assert abs(matrix.mean()) < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_runs_it(kind: str) -> None:
    engine = Engine(SyntheticWeights(NARROW, kind), num_threads=1, max_rows=16)
    cache = engine.new_cache()
    result = engine.step([Piece(cache, np.arange(16, dtype=np.int32), 1)], trace=True)
    engine.close()
    assert result.errors == (None,)
    assert np.isfinite(result.logits).all()
    assert result.logits.std() > 0
