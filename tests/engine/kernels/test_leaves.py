"""Leaf hashes made within a step, behind it and from the residuals are the same."""

from __future__ import annotations

import numpy as np
import pytest

from crypto.sm3_rows import PORTABLE, RowHasher
from engine.forward import Engine, Piece
from engine.trace import leaf_hashes
from tests.engine.kernels.models import MemoryWeights, random_weights, small_config

CONFIG = small_config("llama", context_length_tokens=256)
WEIGHTS = random_weights(CONFIG, ("Q8_0",), seed=1)


def engine_on(num_threads: int) -> Engine:
    weights = MemoryWeights(CONFIG, WEIGHTS)
    return Engine(weights, num_threads=num_threads, max_rows=160, max_outputs=1)


def pieces(engine: Engine, sizes: list[int]) -> list[Piece]:
    """Return pieces of sequences of their own."""
    rng = np.random.default_rng(sum(sizes))
    ids = [rng.integers(0, CONFIG.vocab_size, size).astype(np.int32) for size in sizes]
    return [Piece(engine.new_cache(160), part) for part in ids]


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_steps_of_any_size(num_threads: int) -> None:
    engine = engine_on(num_threads)
    lanes = engine.row_hasher.bulk.lanes
    edge = 4 * lanes
    for sizes in ([1], [2, 3], [edge - 1], [edge], [edge + 1], [100, 1, 1], [160]):
        batch = pieces(engine, sizes)
        result = engine.step(batch, trace=True, leaves=True)
        assert result.residuals is not None
        assert result.leaves is not None
        assert np.array_equal(result.leaves, leaf_hashes(result.residuals, PORTABLE)), sizes
        for piece in batch:
            piece.cache.release()
    engine.close()


def test_only_what_is_asked_for_is_kept() -> None:
    engine = engine_on(2)
    for size in (1, 160):
        for trace in (False, True):
            for leaves in (False, True):
                batch = pieces(engine, [size])
                result = engine.step(batch, trace=trace, leaves=leaves)
                assert (result.residuals is not None) == trace
                assert (result.leaves is not None) == leaves
                batch[0].cache.release()
    engine.close()


def test_without_compiled_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_on(2)
    results = []
    for hashes_in_step in (True, False):
        if not hashes_in_step:
            monkeypatch.setattr(engine, "_leaf_hasher", None)
            monkeypatch.setattr(engine, "row_hasher", RowHasher(PORTABLE.bulk, num_threads=2))
        batch = pieces(engine, [150])
        results.append(engine.step(batch, leaves=True).leaves)
        batch[0].cache.release()
    assert np.array_equal(*results)
    engine.close()
