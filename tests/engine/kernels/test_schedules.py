"""How a run is cut up changes no bit: chunks, decode steps, company in a step, reused blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.forward import Engine, Piece
from tests.engine.kernels.models import random_ids, random_weights, small_config
from tests.engine.kernels.running import (
    Outcome,
    Step,
    assert_same,
    assert_same_bits,
    beginning,
    define,
    engine_of,
    run,
    run_steps,
)

LENGTH = 140


class Model(NamedTuple):
    """An engine, and what the definition says of some sequences."""

    engine: Engine
    sequences: list[list[int]]
    expected: list[Outcome]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    config = small_config(
        "qwen3",
        num_heads=6,
        hidden_size=64,
        intermediate_size=96,
        vocab_size=37,
    )
    weights = random_weights(config, ["Q4_1", "Q8_0", "BF16", "Q5_0"])
    sequences = [random_ids(config, LENGTH, seed) for seed in range(5)]
    expected = [define(config, weights, ids) for ids in sequences]
    with engine_of(config, weights) as engine:
        yield Model(engine, sequences, expected)


def chunks_of(total: int) -> st.SearchStrategy[list[int]]:
    """Return ways to cut `total` positions into pieces, most of them few, some of them many."""
    cuts = st.one_of(
        st.sets(st.integers(1, total - 1), max_size=6),
        st.sets(st.sampled_from([15, 16, 17, 63, 64, 65, 127, 128, 129])),
        st.sets(st.integers(1, total - 1), min_size=40),
    )
    return cuts.map(lambda chosen: np.diff([0, *sorted(chosen), total]).tolist())


@settings(max_examples=40)
@given(chunks=chunks_of(LENGTH))
def test_any_chunks(model: Model, chunks: list[int]) -> None:
    assert_same(run(model.engine, model.sequences[0], chunks), model.expected[0])


def test_token_by_token(model: Model) -> None:
    assert_same(run(model.engine, model.sequences[1], [1] * LENGTH), model.expected[1])


@st.composite
def schedules(draw: st.DrawFn) -> tuple[list[int], list[list[tuple[int, int]]]]:
    """Return lengths of five sequences, and steps that run them together in any order."""
    lengths = [draw(st.integers(1, LENGTH)) for _ in range(5)]
    left = dict(enumerate(lengths))
    steps = []
    while left:
        step: list[tuple[int, int]] = []
        room = 160
        for number in draw(st.permutations(sorted(left))):
            if room and (not step or draw(st.booleans())):
                most = min(left[number], room)
                count = draw(st.one_of(st.just(1), st.integers(1, most), st.just(most)))
                step.append((number, count))
                room -= count
                left[number] -= count
                if not left[number]:
                    del left[number]
        steps.append(step)
    return lengths, steps


@settings(max_examples=25)
@given(schedule=schedules())
def test_any_company(model: Model, schedule: tuple[list[int], list[Step]]) -> None:
    lengths, steps = schedule
    sequences = [ids[:n] for ids, n in zip(model.sequences, lengths, strict=True)]
    found = run_steps(model.engine, sequences, steps)
    for outcome, expected, length in zip(found, model.expected, lengths, strict=True):
        assert_same(outcome, beginning(expected, length))


def test_decode_steps_of_five_sequences_at_different_positions(model: Model) -> None:
    starts = [3, 60, 64, 17, 100]
    prefill = [[(number, start)] for number, start in enumerate(starts)]
    orders = [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]] * 3
    decode = [[(number, 1) for number in order] for order in orders]
    lengths = [start + len(orders) for start in starts]
    sequences = [ids[:n] for ids, n in zip(model.sequences, lengths, strict=True)]
    found = run_steps(model.engine, sequences, [*prefill, *decode])
    for outcome, expected, length in zip(found, model.expected, lengths, strict=True):
        assert_same(outcome, beginning(expected, length))


def test_the_same_sequence_twice_in_one_step(model: Model) -> None:
    ids = model.sequences[2][:70]
    for outcome in run_steps(model.engine, [ids, ids], [[(0, 69), (1, 69)], [(1, 1), (0, 1)]]):
        assert_same(outcome, beginning(model.expected[2], 70))


def test_what_blocks_held_before_is_never_read(model: Model) -> None:
    # A longer sequence before a shorter one leaves old keys right behind the new ones.
    for number, length in ((0, 140), (1, 1), (2, 17), (3, 65), (4, 2)):
        found = run(model.engine, model.sequences[number][:length])
        assert_same(found, beginning(model.expected[number], length))
    for number, length in ((0, 140), (1, 1), (2, 17), (3, 65), (4, 2)):
        fill_with_nan(model.engine)
        found = run(model.engine, model.sequences[number][:length], [1, length - 1][:length])
        assert_same(found, beginning(model.expected[number], length))


def fill_with_nan(engine: Engine) -> None:
    """Let the blocks that the next sequence will get hold NaN in every position."""
    cache = engine.new_cache()
    cache.reserve(LENGTH)
    for address in cache.table[: -(-LENGTH // 64)].tolist():
        ctypes.memset(address, 0xFF, engine.blocks.block_bytes)
    cache.release()


@pytest.mark.parametrize("wanted", [0, 1, 3, 20])
def test_logits_of_the_last_positions_only(model: Model, wanted: int) -> None:
    cache = model.engine.new_cache()
    other = model.engine.new_cache()
    pieces = [
        Piece(other, np.array(model.sequences[1][:30], np.int32), 2),
        Piece(cache, np.array(model.sequences[0][:20], np.int32), wanted),
    ]
    result = model.engine.step(pieces)
    assert result.residuals is None
    assert result.errors == (None, None)
    assert_same_bits(result.logits[:2], model.expected[1].logits[28:30])
    assert_same_bits(result.logits[2:], model.expected[0].logits[20 - wanted : 20])
    cache.release()
    other.release()
