"""Fairness between owners: whose sequence begins, and who gets how much of a step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ConfigError, EngineError
from engine.forward import Engine
from engine.scheduler import PATIENCE, Scheduler
from engine.sequence import FinishReason, Request
from engine.turns import Turns, fair_shares
from tests.engine.kernels.models import MemoryWeights
from tests.engine.prefix_runs import GREEDY, drain, recorded
from tests.engine.support import Definition, prompt

A, B, C = b"a", b"b", b"c"


@pytest.mark.parametrize(
    ("wanted", "budget", "shares"),
    [
        ([], 10, []),
        ([500], 256, [256]),
        ([500, 30], 256, [226, 30]),
        ([500, 500], 256, [128, 128]),
        ([500, 10, 70], 256, [176, 10, 70]),
        ([5, 5, 5], 2, [1, 1, 0]),
        ([5, 0, 5], 4, [2, 0, 2]),
        ([4, 4, 4], 5, [2, 2, 1]),
        ([3, 4], 100, [3, 4]),
    ],
)
def test_shares(wanted: list[int], budget: int, shares: list[int]):
    assert fair_shares(wanted, budget) == shares


@given(st.lists(st.integers(0, 50), max_size=9), st.integers(0, 120))
def test_shares_are_used_up_and_nobody_envies_another(wanted: list[int], budget: int):
    shares = fair_shares(wanted, budget)
    assert sum(shares) == min(budget, sum(wanted))
    for share, want in zip(shares, wanted, strict=True):
        assert 0 <= share <= want
        assert share == want or share >= max(shares) - 1


def test_twenty_long_prompts_do_not_hold_up_a_short_one(engine: Engine, definition: Definition):
    recording, scheduler = recorded(engine, prefill_tokens=20, max_running_per_owner=2)
    for key in range(20):
        scheduler.add(Request(prompt(120, key % 2), 2, GREEDY), owner=A)
    scheduler.step()
    assert (scheduler.num_running, scheduler.num_waiting) == (2, 18)
    short = scheduler.add(Request(prompt(9, 5), 3, GREEDY), owner=B)
    assert len(scheduler.step()) == 2
    assert recording.rows == [[20], [11, 9]]
    assert len(short.output_ids) == 1
    scheduler.step()
    scheduler.step()
    assert short.output_ids == definition.answer(short.request).ids
    scheduler.cancel_all()


def test_owners_begin_in_turn(engine: Engine):
    _, scheduler = recorded(engine, max_running=1)
    names = {}
    for owner, name in ((A, "a1"), (A, "a2"), (A, "a3"), (B, "b1"), (B, "b2"), (C, "c1")):
        names[scheduler.add(Request((1, 2), 1, GREEDY), owner=owner)] = name
    order = []
    while not scheduler.is_idle:
        order += [names[progress.sequence] for progress in scheduler.step()]
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_an_answer_waits_for_no_more_than_one_piece(engine: Engine):
    recording, scheduler = recorded(engine, prefill_tokens=20, max_running=3)
    answer = scheduler.add(Request(prompt(5), 30, GREEDY), owner=A)
    scheduler.step()
    for owner in (B, C):
        scheduler.add(Request(prompt(100), 2, GREEDY), owner=owner)
    for number in range(2, 12):
        scheduler.step()
        assert len(answer.output_ids) == number
    assert recording.rows[1:] == [[1, 10, 10]] * 10
    scheduler.cancel_all()


def test_those_who_got_nothing_are_first_in_the_next_step(engine: Engine):
    _, scheduler = recorded(engine, prefill_tokens=1)
    several = [scheduler.add(Request(prompt(9), 1, GREEDY), owner=owner) for owner in (A, B, C)]
    for steps in range(1, 10):
        scheduler.step()
        positions = [s.cache.num_positions for s in several]
        assert sum(positions) == steps
        assert max(positions) - min(positions) <= 1
    scheduler.cancel_all()


def test_small_ones_pass_a_large_one_but_not_for_ever(small_weights: MemoryWeights):
    engine = Engine(small_weights, num_threads=1, max_rows=160, max_outputs=8, max_blocks=3)
    _, scheduler = recorded(engine, max_running=2)
    scheduler.add(Request(prompt(100), 20, GREEDY), owner=C)  # two of three blocks
    scheduler.step()
    large = scheduler.add(Request(prompt(150), 2, GREEDY), owner=A)  # three
    small = [
        scheduler.add(Request((1 + n,), 1, GREEDY), owner=(B, C)[n % 2])
        for n in range(PATIENCE + 30)
    ]
    steps = 0
    while large.cache.num_positions == 0:
        scheduler.step()
        steps += 1
        assert steps < 100
    assert sum(s.is_finished for s in small) == PATIENCE
    drain(scheduler)
    assert large.finish_reason is FinishReason.LENGTH
    assert all(s.finish_reason is FinishReason.LENGTH for s in small)
    engine.close()


def test_patience_starts_anew_with_the_next_sequence(small_weights: MemoryWeights):
    engine = Engine(small_weights, num_threads=1, max_rows=160, max_outputs=8, max_blocks=3)
    _, scheduler = recorded(engine)
    queue = Turns(patience=2)
    large = [scheduler.add(Request(prompt(150), 2, GREEDY), owner=A) for _ in range(2)]
    small = [scheduler.add(Request((1,), 1, GREEDY), owner=B) for _ in range(9)]
    for sequence in (*large, *small):
        queue.add(sequence)
    # The second time the other owner's turn comes first, and that passes nobody over.
    for first, expected in zip(large, (2, 3), strict=True):
        begun = 0
        while queue.take(lambda _: True, lambda s: s not in large):
            begun += 1
        assert begun == expected
        assert queue.take(lambda _: True, lambda _: True) is first
    scheduler.cancel_all()
    engine.close()


def test_a_large_one_blocks_its_own_owner_in_order(small_weights: MemoryWeights):
    engine = Engine(small_weights, num_threads=1, max_rows=160, max_outputs=8, max_blocks=3)
    _, scheduler = recorded(engine, max_running=3)
    scheduler.add(Request(prompt(100), 20, GREEDY), owner=A)
    scheduler.step()
    large = scheduler.add(Request(prompt(150), 2, GREEDY), owner=A)
    behind = scheduler.add(Request((1,), 1, GREEDY), owner=A)
    while not behind.is_finished:
        assert behind.cache.num_positions == 0 or large.cache.num_positions or large.is_finished
        scheduler.step()
    assert large.is_finished
    engine.close()


def test_an_owner_at_its_limit_is_not_passed_over(engine: Engine):
    _, scheduler = recorded(engine, max_running=2, max_running_per_owner=1)
    for _ in range(2):
        scheduler.add(Request(prompt(4), 60, GREEDY), owner=A)
    others = [scheduler.add(Request((1,), 1, GREEDY), owner=B) for _ in range(3 * PATIENCE)]
    for _ in others:
        scheduler.step()
    assert all(s.is_finished for s in others)
    assert (scheduler.num_running, scheduler.num_waiting) == (1, 1)
    scheduler.cancel_all()


def test_cancelled_ones_leave_their_place_in_the_queue(engine: Engine):
    _, scheduler = recorded(engine, max_running=1)
    scheduler.add(Request(prompt(4), 9, GREEDY), owner=A)
    scheduler.step()
    waiting = [scheduler.add(Request((1,), 1, GREEDY), owner=owner) for owner in (A, B, B)]
    waiting[1].cancel()
    assert waiting[1] in [p.sequence for p in scheduler.step()]
    assert scheduler.num_waiting == 2
    drain(scheduler)
    reasons = [s.finish_reason for s in waiting]
    assert reasons == [FinishReason.LENGTH, FinishReason.CANCELLED, FinishReason.LENGTH]


def test_cancel_all_ends_everything_at_once(engine: Engine):
    _, scheduler = recorded(engine, max_running=2)
    added = [scheduler.add(Request(prompt(40, n), 4, GREEDY), owner=bytes([n])) for n in range(4)]
    scheduler.step()
    added[3].stop()
    error = EngineError("the engine is stopping")
    assert scheduler.cancel_all(FinishReason.ERROR, error) == added[:3]
    assert [s.finish_reason for s in added[:3]] == [FinishReason.ERROR] * 3
    assert all(s.error is error for s in added[:3])
    assert (scheduler.is_idle, scheduler.num_running, scheduler.num_waiting) == (True, 0, 0)
    assert scheduler.step() == []
    assert scheduler.cancel_all() == []


def test_the_limit_of_an_owner_is_positive(engine: Engine):
    with pytest.raises(ConfigError, match="max_running_per_owner"):
        Scheduler(engine, max_running_per_owner=0)
