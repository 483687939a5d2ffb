"""The prefix cache changes nothing but the work: the same ids, logits and trace roots."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError, NonFiniteError, SamplingError
from engine.forward import Engine
from engine.sampling.choice import Choice
from engine.sampling.sampler import Sampler
from engine.sequence import FinishReason, Request
from simd import target
from simd.errors import UnsupportedCpuError
from simd.target import PATH_SETTING, PATHS
from tests.engine.kernels.models import MemoryWeights, random_weights, small_config
from tests.engine.prefix_runs import (
    GREEDY,
    KEY,
    OTHER_KEY,
    branching,
    cold,
    conversation,
    drain,
    recorded,
)
from tests.engine.support import CONFIG, Definition, prompt

CHECKOUT = Path(__file__).parents[2]
MAX_BLOCKS = 9


@pytest.fixture
def engine(small_weights: MemoryWeights) -> Iterator[Engine]:
    """An engine for a test that leaves no block in use."""
    engine = Engine(
        small_weights, num_threads=2, max_rows=160, max_outputs=8, max_blocks=MAX_BLOCKS
    )
    yield engine
    assert engine.blocks.num_free == MAX_BLOCKS
    engine.close()


@pytest.mark.parametrize("trace", [True, False])
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_a_hit_gives_what_a_cold_run_gives(
    engine: Engine, definition: Definition, blocks: int, trace: bool
):
    recording, scheduler = recorded(engine)
    scheduler.add(Request(branching(blocks, 5, 1), 2, GREEDY, trace=trace), cache_key=KEY)
    drain(scheduler)
    recording.rows.clear()
    request = Request(branching(blocks, 9, 2), 12, GREEDY, trace=trace)
    hit = scheduler.add(request, cache_key=KEY)
    drain(scheduler)
    assert hit.cached_tokens == 64 * blocks
    assert sum(map(sum, recording.rows)) == 9 + 11
    assert recording.outcome(hit) == cold(engine, request)
    answer = definition.answer(request)
    assert hit.output_ids == answer.ids
    assert hit.trace_root == (answer.trace_root(request.num_positions) if trace else None)


@pytest.mark.parametrize(("length", "cached"), [(63, 0), (64, 0), (65, 64), (128, 64), (129, 128)])
def test_the_last_prompt_position_is_always_computed(engine: Engine, length: int, cached: int):
    recording, scheduler = recorded(engine)
    request = Request(prompt(length, 3), 3, GREEDY)
    scheduler.add(request, cache_key=KEY)
    drain(scheduler)
    again = scheduler.add(request, cache_key=KEY)
    drain(scheduler)
    assert again.cached_tokens == cached
    assert recording.outcome(again) == cold(engine, request)


def test_a_conversation_finds_its_answers_too(engine: Engine):
    assert conversation(engine, KEY) == conversation(engine, None)


def test_a_hit_on_a_sequence_that_still_runs(engine: Engine):
    recording, scheduler = recorded(engine)
    first, second = Request(branching(2, 5, 1), 60, GREEDY), Request(branching(2, 9, 2), 20, GREEDY)
    running = scheduler.add(first, cache_key=KEY)
    while running.is_prefilling:
        scheduler.step()
    late = scheduler.add(second, cache_key=KEY)
    scheduler.step()
    assert late.cached_tokens == 128
    assert running.cache.blocks[:2] == late.cache.blocks[:2]
    assert [engine.blocks.num_users(n) for n in late.cache.blocks[:2]] == [2, 2]
    assert not set(running.cache.blocks[2:]) & set(late.cache.blocks[2:]), "partial blocks are own"
    drain(scheduler)
    assert recording.outcome(running) == cold(engine, first)
    assert recording.outcome(late) == cold(engine, second)


def test_a_prompt_finds_what_another_left_while_it_waited_for_its_turn(engine: Engine):
    recording, scheduler = recorded(engine)
    requests = [Request(branching(2, 30, n), 5, GREEDY) for n in range(3)]
    together = [scheduler.add(request, cache_key=KEY) for request in requests]
    drain(scheduler)
    assert together[0].cached_tokens == 0
    assert together[2].cached_tokens == 128
    for sequence, request in zip(together, requests, strict=True):
        assert recording.outcome(sequence) == cold(engine, request)


def test_blocks_computed_twice_are_kept_once(engine: Engine):
    recording, scheduler = recorded(engine, prefill_tokens=140)
    request = Request(branching(1, 6), 3, GREEDY)
    twins = [scheduler.add(request, cache_key=KEY) for _ in range(2)]
    scheduler.step()
    assert [s.cached_tokens for s in twins] == [0, 0]
    assert twins[0].cache.blocks[0] == twins[1].cache.blocks[0]
    assert (scheduler.prefixes.num_blocks, engine.blocks.num_used) == (1, 3)
    drain(scheduler)
    assert recording.outcome(twins[0]) == recording.outcome(twins[1]) == cold(engine, request)


def test_after_eviction_it_is_computed_and_kept_again(engine: Engine):
    recording, scheduler = recorded(engine, max_running=1)
    wanted = Request(branching(3, 5), 4, GREEDY)
    expected = cold(engine, wanted)
    cached = []
    for evicting in (False, False, True, False):
        if evicting:
            for key in range(70, 74):
                scheduler.add(Request(prompt(200, key), 3, GREEDY), cache_key=OTHER_KEY)
            drain(scheduler)
            assert engine.blocks.num_idle <= MAX_BLOCKS
        sequence = scheduler.add(wanted, cache_key=KEY)
        drain(scheduler)
        cached.append(sequence.cached_tokens)
        assert recording.outcome(sequence) == expected
    assert cached == [0, 192, 0, 192]


def test_the_longest_unused_goes_first_and_its_end_before_its_beginning(engine: Engine):
    _, scheduler = recorded(engine, max_running=1)
    old, new = (Request(prompt(200, key), 3, GREEDY) for key in (80, 81))
    for request in (old, new):
        scheduler.add(request, cache_key=KEY)
        drain(scheduler)
    assert scheduler.prefixes.num_blocks == 6
    holder = engine.new_cache()
    holder.reserve(3 * 64)  # all that are free
    for request, cached in ((new, 192), (old, 128)):
        again = scheduler.add(Request(request.prompt_ids[:195], 2, GREEDY), cache_key=KEY)
        drain(scheduler)
        assert again.cached_tokens == cached
    holder.release()


def test_a_block_without_roots_serves_only_those_without_a_trace(engine: Engine):
    recording, scheduler = recorded(engine)
    cached = []
    for trace in (False, False, True, True, False):
        request = Request(branching(2, 4), 3, GREEDY, trace=trace)
        sequence = scheduler.add(request, cache_key=KEY)
        drain(scheduler)
        cached.append(sequence.cached_tokens)
        assert recording.outcome(sequence) == cold(engine, request)
    assert cached == [0, 128, 0, 128, 128]
    assert scheduler.prefixes.num_blocks == 2


@pytest.mark.parametrize("others", [OTHER_KEY, None])
def test_nobody_finds_blocks_of_another_key(engine: Engine, others: bytes | None):
    recording, scheduler = recorded(engine)
    request = Request(branching(2, 7), 3, GREEDY)
    scheduler.add(request, cache_key=KEY)
    drain(scheduler)
    recording.rows.clear()
    stranger = scheduler.add(request, cache_key=others, owner=b"stranger")
    drain(scheduler)
    assert stranger.cached_tokens == 0
    assert recording.rows == [[40], [40], [40], [15], [1], [1]], "the same work as a cold run"
    again = scheduler.add(request, cache_key=KEY)
    drain(scheduler)
    assert again.cached_tokens == 128


def test_without_a_key_nothing_is_left(engine: Engine):
    _, scheduler = recorded(engine)
    scheduler.add(Request(branching(2, 7), 3, GREEDY))
    drain(scheduler)
    assert (scheduler.prefixes.num_blocks, scheduler.prefixes.num_keys) == (0, 0)


def test_forget_drops_all_of_a_key_and_nothing_else(engine: Engine):
    recording, scheduler = recorded(engine)
    request = Request(branching(2, 7), 40, GREEDY)
    for key in (KEY, OTHER_KEY):
        scheduler.add(request, cache_key=key)
        drain(scheduler)
    running = scheduler.add(request, cache_key=KEY)
    scheduler.step()
    assert running.cached_tokens == 128
    assert scheduler.prefixes.forget(KEY) == 2
    assert scheduler.prefixes.forget(KEY) == 0
    assert (scheduler.prefixes.num_blocks, scheduler.prefixes.num_keys) == (2, 1)
    fresh = scheduler.add(request, cache_key=KEY)
    drain(scheduler)
    assert fresh.cached_tokens == 0
    assert recording.outcome(running) == recording.outcome(fresh) == cold(engine, request)
    kept = scheduler.add(request, cache_key=OTHER_KEY)
    drain(scheduler)
    assert kept.cached_tokens == 128


def test_what_was_forgotten_while_it_ran_adds_nothing_later(engine: Engine):
    _, scheduler = recorded(engine)
    running = scheduler.add(Request(branching(2, 60), 20, GREEDY), cache_key=KEY)
    scheduler.step()
    scheduler.step()
    assert scheduler.prefixes.forget(KEY) == 1
    drain(scheduler)
    assert running.finish_reason is FinishReason.LENGTH
    assert (scheduler.prefixes.num_blocks, scheduler.prefixes.num_keys) == (0, 0)
    assert engine.blocks.num_used == 0


def test_a_cancelled_sequence_leaves_its_full_blocks(engine: Engine):
    recording, scheduler = recorded(engine)
    request = Request(branching(3, 7), 3, GREEDY)
    cancelled = scheduler.add(request, cache_key=KEY)
    for _ in range(3):
        scheduler.step()
    recording.during = cancelled.cancel
    scheduler.step()
    recording.during = lambda: None
    assert cancelled.finish_reason is FinishReason.CANCELLED
    again = scheduler.add(request, cache_key=KEY)
    drain(scheduler)
    assert again.cached_tokens == 64, "120 positions were computed before the step that was dropped"
    assert recording.outcome(again) == cold(engine, request)


@pytest.mark.parametrize(("prefill_tokens", "left"), [(64, 1), (128, 0)])
def test_a_step_that_failed_leaves_nothing(prefill_tokens: int, left: int):
    config = small_config(tied_embeddings=False, vocab_size=64)
    weights = random_weights(config, ("F32", "Q8_0"), seed=1)
    weights["embedding"].fields["w"][7, 3] = float("inf")
    engine = Engine(MemoryWeights(config, weights), num_threads=2, max_rows=160, max_outputs=4)
    _, scheduler = recorded(engine, prefill_tokens=prefill_tokens)
    good = tuple(8 + n % 50 for n in range(64))
    bad = scheduler.add(Request((*good, *good[:40], 7, *good), 5, GREEDY), cache_key=KEY)
    drain(scheduler)
    assert isinstance(bad.error, NonFiniteError)
    assert scheduler.prefixes.num_blocks == left
    assert engine.blocks.num_used == 0
    engine.close()


class Refusing(Sampler):
    """A sampler that finds no token."""

    def sample(self, *_arguments: Any, **_settings: Any) -> Choice:
        raise SamplingError("nothing left")


def test_a_step_after_which_no_token_can_be_chosen_leaves_nothing(engine: Engine):
    _, scheduler = recorded(engine, prefill_tokens=140)
    bad = scheduler.add(Request(branching(2, 7), 3, GREEDY), cache_key=KEY)
    bad.sampler = Refusing(GREEDY, CONFIG.vocab_size)
    drain(scheduler)
    assert bad.finish_reason is FinishReason.ERROR
    assert (scheduler.prefixes.num_blocks, scheduler.prefixes.num_keys) == (0, 0)


def test_blocks_in_use_are_counted_once_at_admission(small_weights: MemoryWeights):
    engine = Engine(small_weights, num_threads=1, max_rows=160, max_outputs=8, max_blocks=4)
    request = Request(branching(2, 7), 20, GREEDY)  # three blocks each
    for key, together in ((None, 1), (KEY, 2)):
        _, scheduler = recorded(engine)
        scheduler.add(request, cache_key=key)
        for _ in range(5):
            scheduler.step()
        scheduler.add(request, cache_key=key)
        scheduler.step()
        assert scheduler.num_running == together
        drain(scheduler)
        assert engine.blocks.num_used == 0
    engine.close()


@pytest.mark.parametrize("key", [b"", b"k" * 31, b"k" * 33])
def test_a_cache_key_has_32_bytes(engine: Engine, key: bytes):
    _, scheduler = recorded(engine)
    with pytest.raises(ConfigError, match="32 bytes"):
        scheduler.add(Request((1,), 1), cache_key=key)
    assert (scheduler.is_idle, scheduler.prefixes.num_keys) == (True, 0)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("path", PATHS)
def test_every_kernel_path(engine: Engine, path: str):
    try:
        target.choose(platform.machine(), target.cpu_flags(), path)
    except UnsupportedCpuError as error:
        pytest.skip(f"kernel path {path} is not tested on this machine: {error}")
    result = subprocess.run(
        [sys.executable, "-m", "tests.engine.prefix_runs"],
        check=False,
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env={**os.environ, PATH_SETTING: path},
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["path"] == path
    expected = [list(outcome) for outcome in conversation(engine, None)]
    assert found["outcomes"] == [expected, expected]
