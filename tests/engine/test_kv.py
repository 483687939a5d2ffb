"""Cache blocks: nobody shares one, none gets lost, and a refusal takes none."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.errors import ConfigError, EngineError
from engine.kv.cache import BLOCK_POSITIONS, BlockPool, SequenceCache
from tests.engine.support import CONFIG

MAX_BLOCKS = 5


class Blocks(RuleBasedStateMachine):
    """Sequences that grow and end in any order, over a pool that is too small for all."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(CONFIG, max_blocks=MAX_BLOCKS)
        self.caches: list[SequenceCache] = []

    @rule(max_positions=st.integers(1, 300))
    def begin(self, max_positions: int) -> None:
        self.caches.append(SequenceCache(self.pool, max_positions))

    @rule(data=st.data(), num_positions=st.integers(0, 200))
    def grow(self, data: Any, num_positions: int) -> None:
        if not self.caches:
            return
        cache = data.draw(st.sampled_from(self.caches))
        needed = cache.num_positions + num_positions
        blocks, free, table = cache.num_blocks, self.pool.num_free, cache.table.copy()
        if needed > cache.max_positions:
            error: type[Exception] | None = ConfigError
        elif -(-needed // BLOCK_POSITIONS) - blocks > free:
            error = EngineError
        else:
            cache.reserve(num_positions)
            cache.advance(num_positions)
            assert cache.num_positions == needed
            assert cache.num_blocks == max(blocks, -(-needed // BLOCK_POSITIONS))
            return
        with pytest.raises(error):
            cache.reserve(num_positions)
        assert (cache.num_blocks, self.pool.num_free) == (blocks, free)
        assert np.array_equal(cache.table, table)

    @rule(data=st.data())
    def end(self, data: Any) -> None:
        if self.caches:
            data.draw(st.sampled_from(self.caches)).release()

    @invariant()
    def every_block_has_one_owner(self) -> None:
        addresses = [int(a) for cache in self.caches for a in cache.table[: cache.num_blocks]]
        ends = sorted(addresses)
        assert all(b - a >= self.pool.block_bytes for a, b in pairwise(ends))
        assert all(address % 64 == 0 and address for address in addresses)
        assert len(addresses) + self.pool.num_free == MAX_BLOCKS

    @invariant()
    def tables_end_where_blocks_end(self) -> None:
        for cache in self.caches:
            assert cache.num_blocks * BLOCK_POSITIONS >= cache.num_positions
            assert cache.num_blocks <= cache.num_blocks_at_most
            assert not cache.table[cache.num_blocks :].any()


TestBlocks = Blocks.TestCase
TestBlocks.settings = settings(max_examples=40, stateful_step_count=30)


def test_blocks_have_room_for_all_layers_of_64_positions():
    pool = BlockPool(CONFIG, max_blocks=1)
    numbers = CONFIG.num_layers * CONFIG.num_kv_heads * CONFIG.head_dim * 64 * 2
    assert pool.block_bytes == 2 * numbers
    assert BlockPool(CONFIG, max_blocks=1, number_bytes=4).block_bytes == 4 * numbers


def test_memory_is_taken_when_needed_and_used_again():
    pool = BlockPool(CONFIG, max_blocks=1 << 40)
    cache = SequenceCache(pool, 200)
    cache.reserve(65)
    first = set(cache.table[:2])
    cache.advance(65)
    cache.keep_trace_roots(np.zeros((CONFIG.num_layers + 1, 1, 32), np.uint8))
    cache.release()
    cache.release()
    assert (cache.num_positions, cache.num_blocks, cache.trace_roots) == (0, 0, [])
    other = SequenceCache(pool, 200)
    other.reserve(128)
    assert set(other.table[:2]) == first


@pytest.mark.parametrize("number", [0, -1])
def test_numbers_must_be_positive(number: int):
    with pytest.raises(ConfigError, match="at least one block"):
        BlockPool(CONFIG, max_blocks=number)
    with pytest.raises(ConfigError, match="at least one position"):
        SequenceCache(BlockPool(CONFIG, max_blocks=1), number)


def test_the_error_says_how_many_blocks_are_missing():
    pool = BlockPool(CONFIG, max_blocks=2)
    pool.take()
    with pytest.raises(EngineError, match="3 key/value blocks are needed, 1 of 2 are free"):
        pool.require(3)
    pool.take()
    with pytest.raises(EngineError, match="0 of 2 are free"):
        pool.take()


def test_a_kept_block_is_idle_until_its_room_is_needed():
    pool = BlockPool(CONFIG, max_blocks=2)
    evicted: list[int] = []
    for _ in range(2):
        number = pool.take()
        pool.keep(number, lambda number=number: evicted.append(number))
        pool.release(number)
    assert (pool.num_free, pool.num_used, pool.num_idle) == (2, 0, 2)
    pool.share(0)
    pool.share(0)
    assert (pool.num_users(0), pool.num_used, pool.num_idle) == (2, 1, 1)
    assert (pool.take(), evicted) == (1, [1])
    with pytest.raises(EngineError, match="0 of 2 are free"):
        pool.take()
    pool.release(0)
    pool.release(0)
    assert (pool.num_idle, pool.num_free) == (1, 1)
    pool.drop(0)
    assert (pool.num_idle, pool.num_free, evicted) == (0, 1, [1])
    assert pool.allocated_bytes == 2 * pool.block_bytes


def test_a_block_dropped_in_use_is_free_after_its_last_user():
    pool = BlockPool(CONFIG, max_blocks=1)
    number = pool.take()
    pool.keep(number, lambda: None)
    pool.drop(number)
    assert pool.num_free == 0
    pool.release(number)
    assert (pool.num_free, pool.num_idle) == (1, 0)


def test_shared_blocks_stand_behind_full_ones_only():
    pool = BlockPool(CONFIG, max_blocks=4)
    holder, other = SequenceCache(pool, 128), SequenceCache(pool, 100)
    holder.reserve(128)
    other.share(holder.blocks[0], None)
    assert (other.num_positions, other.blocks) == (64, holder.blocks[:1])
    with pytest.raises(ConfigError, match="do not fit"):
        other.share(holder.blocks[1], None)
    other.reserve(5)
    other.advance(5)
    with pytest.raises(ConfigError):
        other.share(holder.blocks[1], None)
    assert [pool.num_users(number) for number in holder.blocks] == [2, 1]
