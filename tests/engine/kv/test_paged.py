"""Sequences of which most cached positions are in a file: the same bits as in memory."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ConfigError, SpillIntegrityError
from engine.forward import Engine, Piece
from engine.kv.budget import KvBudget, share_out
from engine.kv.synthetic import append_synthetic
from engine.scheduler import Scheduler
from engine.sequence import FinishReason, Request
from tests.engine.kernels.models import MemoryWeights, random_weights
from tests.engine.support import CONFIG, KINDS, prompt
from tests.engine.test_scheduler import GREEDY

LAYER_BYTES = CONFIG.num_kv_heads * 64 * CONFIG.head_dim * 4
MAX_BLOCKS = 24
KEY = b"k" * 32


def paged(weights: MemoryWeights, folder: Path, budget_bytes: int, **limits: int) -> Engine:
    sizes = {"max_rows": 40, "max_outputs": 2, "max_positions": 640, "max_blocks": MAX_BLOCKS}
    return Engine(
        weights, num_threads=2, kv_budget=KvBudget(folder, budget_bytes), **(sizes | limits)
    )


@pytest.fixture(scope="module")
def deep() -> MemoryWeights:
    """A model of more layers: with few of them a file saves nothing."""
    config = replace(CONFIG, num_layers=6, context_length_tokens=1024)
    return MemoryWeights(config, random_weights(config, KINDS))


@pytest.fixture(scope="module")
def in_memory(deep: MemoryWeights):
    engine = Engine(
        deep, num_threads=2, max_rows=40, max_outputs=2, max_positions=640, max_blocks=MAX_BLOCKS
    )
    yield engine
    engine.close()


def least_bytes(weights: MemoryWeights) -> int:
    return 5 * weights.config.num_layers * LAYER_BYTES + 2 * (MAX_BLOCKS - 5) * LAYER_BYTES


def run(engine: Engine, requests, key=None):
    """Run requests together; return what each gives."""
    scheduler = Scheduler(engine, prefill_tokens=37, max_running=2)
    sequences = [scheduler.add(request, cache_key=key) for request in requests]
    most = 0
    while not scheduler.is_idle:
        scheduler.step()
        most = max(most, engine.blocks.num_spilled)
    for sequence in sequences:
        assert sequence.finish_reason in (FinishReason.LENGTH, FinishReason.STOP), sequence.error
    return [(s.output_ids, s.trace_root) for s in sequences], most


@pytest.mark.parametrize("key", [None, KEY], ids=["without-prefixes", "with-prefixes"])
def test_the_bits_are_those_of_memory(deep, in_memory, tmp_path: Path, key):
    requests = [
        Request(prompt(400, 1), 40, GREEDY),
        Request(prompt(400, 1)[:350] + prompt(9, 3), 60, GREEDY),
        Request(prompt(5, 2), 150, GREEDY),
        Request(prompt(400, 1), 40, GREEDY),
    ]
    wanted, none = run(in_memory, requests, key)
    assert none == 0
    engine = paged(deep, tmp_path, least_bytes(deep))
    try:
        found, most = run(engine, requests, key)
        assert found == wanted
        assert most >= 3
        assert engine.blocks.allocated_bytes <= 5 * engine.blocks.block_bytes
        found, _ = run(engine, requests, key)  # on the blocks that are left
        assert found == wanted
        assert list(tmp_path.iterdir()) == []
        if key is None:
            assert engine.blocks.num_used == engine.blocks.num_spilled == 0
    finally:
        engine.close()


def test_what_fits_stays_in_memory(deep, tmp_path: Path):
    engine = paged(deep, tmp_path, MAX_BLOCKS * deep.config.num_layers * LAYER_BYTES)
    assert engine.blocks.memory_blocks == MAX_BLOCKS
    engine.close()


def test_a_budget_that_is_too_small_is_refused_with_the_least_one(deep, tmp_path: Path):
    with pytest.raises(ConfigError, match=str(least_bytes(deep))):
        paged(deep, tmp_path, least_bytes(deep) - 1)


def num_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("is_closed", [False, True])
def test_the_file_of_an_engine_that_is_dropped_is_closed(deep, tmp_path: Path, is_closed: bool):
    """Without a name it takes room on the disk until then."""
    gc.collect()
    before = num_descriptors()
    engine = paged(deep, tmp_path, least_bytes(deep))
    assert num_descriptors() > before
    if is_closed:
        engine.close()
    del engine
    gc.collect()
    assert num_descriptors() == before


def test_a_flipped_bit_of_the_file_ends_the_step(deep, tmp_path: Path, monkeypatch):
    engine = paged(deep, tmp_path, least_bytes(deep))
    cache = engine.new_cache()
    ids = np.array(prompt(560, 4), np.int32)
    try:
        for start in range(0, 520, 40):
            engine.step([Piece(cache, ids[start : start + 40])])
        assert engine.blocks.num_spilled
        engine.step([Piece(cache, ids[520:521], 1)])
        tags = engine._pager._file._tags  # type: ignore[union-attr]
        tags[3, 0, 0] ^= 1
        positions = cache.num_positions
        with pytest.raises(SpillIntegrityError):
            engine.step([Piece(cache, ids[521:522], 1)])
        assert cache.num_positions == positions
        tags[3, 0, 0] ^= 1
        good = engine.step([Piece(cache, ids[521:522], 1)]).logits.tobytes()
    finally:
        cache.release()
        engine.close()
    assert good


@given(
    st.integers(1, 60), st.integers(1, 400), st.integers(1, 500), st.integers(1, 9),
    st.floats(0, 1.2),
)  # fmt: skip
def test_shares_fit_their_budget(
    num_layers: int, max_blocks: int, max_rows: int, max_outputs: int, part: float
):
    layer = 4096
    budget = int(part * max_blocks * num_layers * layer)
    try:
        shares = share_out(
            budget,
            num_layers=num_layers,
            layer_bytes=layer,
            max_blocks=max_blocks,
            max_rows=max_rows,
            max_outputs=max_outputs,
        )
    except ConfigError:
        assert budget < max_blocks * num_layers * layer
        return
    taken = shares.memory_blocks * num_layers * layer + shares.reader_bytes
    assert taken <= budget
    in_file = max_blocks - shares.memory_blocks
    assert shares.reader_bytes == 2 * in_file * layer
    assert in_file == 0 or shares.memory_blocks >= 2 * max_outputs + -(-max_rows // 64)


def test_positions_that_nobody_computed_are_the_same_in_a_file(deep, in_memory, tmp_path: Path):
    engine = paged(deep, tmp_path, least_bytes(deep))
    found = []
    for each in (in_memory, engine):
        cache = each.new_cache()
        append_synthetic(cache, 8, seed=3)
        assert cache.num_positions == 512
        steps = [each.step([Piece(cache, np.array([n], np.int32), 1)]) for n in (5, 6)]
        found.append([step.logits.tobytes() for step in steps[-1:]])
        with pytest.raises(ConfigError):
            append_synthetic(cache, 1)
        cache.release()
    engine.close()
    assert found[0] == found[1]
