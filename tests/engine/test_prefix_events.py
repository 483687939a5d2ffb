"""Sequences of several owners and cache keys in any order: counts and answers stay right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engine.forward import Engine
from engine.kv.prefix import CachedBlock
from engine.scheduler import Scheduler
from engine.sequence import FinishReason, Request, Sequence
from tests.engine.kernels.models import MemoryWeights
from tests.engine.prefix_runs import GREEDY
from tests.engine.support import CONFIG, Definition, Observed, prompt

MAX_BLOCKS = 7
KEYS = (None, b"1" * 32, b"2" * 32)
OWNERS = (b"a", b"b")

BLOCKS = {name: prompt(64, 90 + number) for number, name in enumerate("pqr")}
STARTS = ("", "p", "pq", "pqr", "pr", "q", "pp")
REQUESTS = [
    Request(
        sum((BLOCKS[name] for name in start), ()) + prompt(tail, 95),
        max_tokens,
        GREEDY,
        trace=(number % 4 != 1),
    )
    for number, (start, (tail, max_tokens)) in enumerate(product(STARTS, ((1, 2), (5, 59))))
]


class Machine(RuleBasedStateMachine):
    """Requests come, steps are taken, somebody cancels, keys are forgotten."""

    def __init__(self, engine: Engine, definition: Definition) -> None:
        super().__init__()
        self.engine = Observed(engine)
        self.pool = engine.blocks
        self.definition = definition
        self.scheduler = Scheduler(
            self.engine,  # type: ignore[arg-type]
            prefill_tokens=100,
            max_running=3,
        )
        self.sequences: list[Sequence] = []
        self.cannot_hit: list[Sequence] = []

    @property
    def live(self) -> list[Sequence]:
        return [s for s in self.sequences if not s.is_finished]

    @rule(
        index=st.integers(0, len(REQUESTS) - 1),
        key=st.sampled_from(KEYS),
        owner=st.sampled_from(OWNERS),
    )
    def submit(self, index: int, key: bytes | None, owner: bytes) -> None:
        sequence = self.scheduler.add(REQUESTS[index], owner=owner, cache_key=key)
        self.sequences.append(sequence)
        if key is None:
            self.cannot_hit.append(sequence)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        data.draw(st.sampled_from(self.live)).cancel()

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def cancel_during_a_step(self, data: Any) -> None:
        self.engine.during = data.draw(st.sampled_from(self.live)).cancel
        self.scheduler.step()
        self.engine.during = lambda: None

    @rule(key=st.sampled_from(KEYS[1:]))
    def forget(self, key: bytes) -> None:
        before = self.scheduler.prefixes.num_blocks
        dropped = self.scheduler.prefixes.forget(key)
        assert self.scheduler.prefixes.num_blocks == before - dropped
        assert self.scheduler.prefixes.forget(key) == 0

    @rule(number=st.integers(1, 60))
    def steps(self, number: int) -> None:
        for _ in range(number):
            idle = self.scheduler.is_idle
            self.engine.rows.clear()
            self.scheduler.step()
            assert idle or self.engine.rows or not self.live, "nothing moves"
            self.every_block_has_as_many_users_as_holders()
            self.trees_are_whole()

    def cached(self) -> Iterator[CachedBlock]:
        """Walk through all trees."""
        for tree in self.scheduler.prefixes._trees.values():
            pending = [*tree.root.children.values()]
            while pending:
                block = pending.pop()
                pending += block.children.values()
                yield block

    @invariant()
    def every_block_has_as_many_users_as_holders(self) -> None:
        holders = Counter(number for s in self.live for number in s.cache.blocks)
        allocated = self.pool.allocated_bytes // self.pool.block_bytes
        for number in range(allocated):
            assert self.pool.num_users(number) == holders[number]
        assert self.pool.num_used == len(holders)
        assert self.pool.num_used + self.pool.num_free == MAX_BLOCKS
        cached = {block.number for block in self.cached()}
        assert self.pool.num_idle == len(cached - holders.keys())
        assert allocated <= MAX_BLOCKS

    @invariant()
    def trees_are_whole(self) -> None:
        blocks = list(self.cached())
        assert len(blocks) == len({b.number for b in blocks}) == self.scheduler.prefixes.num_blocks
        for block in blocks:
            parent = block.parent
            assert parent is not None
            if parent.number >= 0:
                users = self.pool.num_users(parent.number)
                assert users >= self.pool.num_users(block.number)

    @invariant()
    def a_shared_block_is_full(self) -> None:
        for s in self.live:
            for index, number in enumerate(s.cache.blocks):
                if self.pool.num_users(number) > 1:
                    assert 64 * (index + 1) <= s.cache.num_positions
                assert s.cache.table[index] == self.pool.address(number)

    @invariant()
    def answers_are_those_of_a_run_alone(self) -> None:
        for s in self.sequences:
            answer = self.definition.answer(s.request)
            assert s.error is None
            assert s.output_ids == answer.ids[: len(s.output_ids)]
            assert s.cached_tokens % 64 == 0
            assert s.cached_tokens < s.num_prompt_tokens
            if s.trace is not None and s.is_finished:
                assert s.trace_root == answer.trace_root(s.trace.num_positions)
        assert not any(s.cached_tokens for s in self.cannot_hit)

    def teardown(self) -> None:
        steps = 0
        while not self.scheduler.is_idle:
            self.scheduler.step()
            steps += 1
            assert steps < 3000
        self.scheduler.step()
        for s in self.sequences:
            if s.finish_reason is not FinishReason.CANCELLED:
                assert s.output_ids == self.definition.answer(s.request).ids
        self.answers_are_those_of_a_run_alone()
        self.every_block_has_as_many_users_as_holders()
        assert (self.pool.num_used, self.pool.num_free) == (0, MAX_BLOCKS)
        for key in KEYS[1:]:
            self.scheduler.prefixes.forget(key)
        assert (self.pool.num_idle, self.scheduler.prefixes.num_keys) == (0, 0)


def run(weights: MemoryWeights, definition: Definition, examples: int, steps: int) -> None:
    """Run examples on one engine, whose blocks hold what the examples before left there."""
    engine = Engine(weights, num_threads=2, max_rows=120, max_outputs=8, max_blocks=MAX_BLOCKS)
    run_state_machine_as_test(
        lambda: Machine(engine, definition),
        settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None),
    )
    engine.close()


def test_the_requests_fit_and_share() -> None:
    assert all(len(r.prompt_ids) + r.max_tokens <= CONFIG.context_length_tokens for r in REQUESTS)
    assert max(r.num_positions for r in REQUESTS) > 3 * 64


def test_any_order_of_events(small_weights: MemoryWeights, definition: Definition) -> None:
    run(small_weights, definition, 12, 20)


@pytest.mark.slow
@pytest.mark.ci
def test_many_orders_of_many_events(small_weights: MemoryWeights, definition: Definition) -> None:
    run(small_weights, definition, 150, 50)
