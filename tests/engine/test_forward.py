"""One step over several sequences: the bits of the definition, and what is refused."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ConfigError, EngineError, NonFiniteError, WeightsError
from engine.forward import Engine, Piece, StepResult
from engine.kv.cache import SequenceCache
from engine.reference.decoder import ReferenceModel
from tests.engine.kernels.models import MemoryWeights, random_weights, small_config
from tests.engine.support import (
    CONFIG,
    KINDS,
    MAX_BLOCKS,
    MAX_POSITIONS,
    Definition,
    as_piece,
    bits,
    kernel_threads,
    prompt,
)


def run_alone(engine: Engine, ids: tuple[int, ...], chunks: list[int]) -> list[StepResult]:
    """Run one sequence in chunks of these sizes and give its cache back."""
    cache = engine.new_cache()
    results, start = [], 0
    for size in chunks:
        piece = Piece(cache, np.array(ids[start : start + size], np.int32), 1)
        result = engine.step([piece], trace=True)
        results.append(replace(result, logits=result.logits.copy()))
        start += size
    cache.release()
    return results


def residuals_of(results: list[StepResult]) -> bytes:
    return bits(np.concatenate([r.residuals for r in results if r.residuals is not None], axis=1))


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_families_have_the_bits_of_the_definition(architecture: str, tied: bool):
    config = small_config(architecture, tied_embeddings=tied, context_length_tokens=128)
    weights = random_weights(config, ("Q4_1", "Q6_K", "Q8_0", "BF16"), seed=3)
    expected = ReferenceModel(config, weights).forward(range(1, 81))
    engine = Engine(MemoryWeights(config, weights), num_threads=2, max_rows=80, max_outputs=80)
    piece = as_piece(engine, tuple(range(1, 81)), 80)
    result = engine.step([piece], trace=True)
    assert result.errors == (None,)
    assert bits(result.logits) == bits(expected.logits)
    assert result.residuals is not None
    assert bits(result.residuals) == bits(expected.residuals)
    engine.close()


@pytest.mark.parametrize("num_threads", [1, 2, 3, 5])
@pytest.mark.parametrize("kinds", [("F16",), ("Q4_0",), ("Q8_0", "F32"), ("F32", "Q5_1", "BF16")])
def test_bits_do_not_depend_on_the_number_of_threads(num_threads: int, kinds: tuple[str, ...]):
    weights = random_weights(CONFIG, kinds, seed=2)
    ids = prompt(70)
    expected = ReferenceModel(CONFIG, weights).forward(ids)
    engine = Engine(MemoryWeights(CONFIG, weights), num_threads=num_threads, max_rows=40)
    sizes = [33, *[1] * 20, 13, *[1] * 4]
    results = run_alone(engine, ids, sizes)
    engine.close()
    assert residuals_of(results) == bits(expected.residuals)
    ends = np.cumsum(sizes) - 1
    assert [bits(r.logits[0]) for r in results] == [bits(expected.logits[n]) for n in ends]


@given(cuts=st.sets(st.integers(1, 129), min_size=2, max_size=12))
def test_bits_do_not_depend_on_chunks(
    shared_engine: Engine, definition: Definition, cuts: set[int]
):
    ids = prompt(130, 5)
    edges = sorted({0, 43, 86, 130} | cuts)  # no chunk is larger than the engine's step
    sizes = [b - a for a, b in pairwise(edges)]
    expected = definition.prefill(ids)
    results = run_alone(shared_engine, ids, sizes)
    assert residuals_of(results) == bits(expected.residuals)
    for end, result in zip(edges[1:], results, strict=True):
        assert bits(result.logits[0]) == bits(expected.logits[end - 1])


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 5)), min_size=1, max_size=4))
def test_bits_do_not_depend_on_neighbours(
    shared_engine: Engine, definition: Definition, others: list[tuple[int, int]]
):
    engine = shared_engine
    ids = prompt(30, 9)
    expected = definition.prefill(ids)
    batch = [as_piece(engine, prompt(length, key), min(length, 2)) for length, key in others]
    mine = engine.new_cache()
    for start in (0, 15):
        piece = Piece(mine, np.array(ids[start : start + 15], np.int32), 1)
        joined = [*batch[:1], piece, *batch[1:]]
        if sum(len(p.ids) for p in joined) > engine.max_rows or sum(
            p.num_logits for p in joined
        ) > (engine.max_outputs):
            joined = [piece]
        result = engine.step(joined, trace=True)
        at = joined.index(piece)
        row = sum(len(p.ids) for p in joined[:at])
        logit_row = sum(p.num_logits for p in joined[:at])
        assert result.residuals is not None
        assert bits(result.residuals[:, row : row + 15]) == bits(
            expected.residuals[:, start : start + 15]
        )
        assert bits(result.logits[logit_row]) == bits(expected.logits[start + 14])
        for p in batch:
            p.cache.release()
    mine.release()


def test_logits_of_several_last_positions(engine: Engine, definition: Definition):
    pieces = [as_piece(engine, prompt(9, 1), 4), as_piece(engine, prompt(5, 2), 0)]
    pieces.append(as_piece(engine, prompt(3, 3), 3))
    result = engine.step(pieces)
    first, last = (definition.prefill(prompt(n, key)).logits for n, key in ((9, 1), (3, 3)))
    assert bits(result.logits) == bits(np.concatenate([first[-4:], last]))
    assert result.residuals is None
    for piece in pieces:
        piece.cache.release()


@pytest.mark.parametrize("pattern", [0xFF, 0x7C])
def test_what_an_earlier_sequence_left_in_the_cache_has_no_influence(
    engine: Engine, definition: Definition, pattern: int
):
    numbers = [engine.blocks.take() for _ in range(MAX_BLOCKS)]
    for number in numbers:
        ctypes.memset(engine.blocks.address(number), pattern, engine.blocks.block_bytes)
        engine.blocks.release(number)
    ids = prompt(101, 4)
    results = run_alone(engine, ids, [30, 1, 40, 1, 1, 28])
    assert all(r.errors == (None,) for r in results)
    assert residuals_of(results) == bits(definition.prefill(ids).residuals)


Pieces = Callable[[Engine], list[Piece]]

REFUSED: dict[str, tuple[Pieces, str]] = {
    "nothing to do": (lambda e: [], "1 to 48 positions"),
    "a piece without ids": (
        lambda e: [as_piece(e, (1,)), as_piece(e, (), 0)],
        "1 to 48 positions",
    ),
    "too many rows": (
        lambda e: [as_piece(e, prompt(30)), as_piece(e, prompt(19))],
        "1 to 48 positions",
    ),
    "too many logits": (lambda e: [as_piece(e, prompt(9), 9)], "logits of at most 8"),
    "more logits than ids": (lambda e: [as_piece(e, (1, 2), 3)], "logits"),
    "a negative number of logits": (
        lambda e: [as_piece(e, (1, 2), -1), as_piece(e, (1, 2), 1)],
        "logits",
    ),
    "a negative id": (lambda e: [as_piece(e, (1,)), as_piece(e, (-1,))], "vocabulary"),
    "an id behind the vocabulary": (
        lambda e: [as_piece(e, (1,)), as_piece(e, (CONFIG.vocab_size,))],
        "vocabulary",
    ),
    "an id that only 32 bits would bring into the vocabulary": (
        lambda e: [Piece(e.new_cache(), np.array([2**32 + 5]), 1)],  # type: ignore[arg-type]
        "vocabulary",
    ),
    "a full cache": (
        lambda e: [as_piece(e, (1,)), Piece(e.new_cache(4), np.arange(5, dtype=np.int32), 1)],
        "5 positions do not fit into 4",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_step_changes_nothing(engine: Engine, definition: Definition, name: str):
    make, message = REFUSED[name]
    old = as_piece(engine, prompt(10))
    engine.step([old])
    new = make(engine)
    table = old.cache.table.copy()
    with pytest.raises(ConfigError, match=message):
        engine.step(new if not new else [Piece(old.cache, np.array([5], np.int32), 0), *new])
    assert [p.cache.num_positions for p in (old, *new)] == [10, *[0] * len(new)]
    assert [p.cache.num_blocks for p in (old, *new)] == [1, *[0] * len(new)]
    assert np.array_equal(old.cache.table, table)
    assert engine.blocks.num_free == MAX_BLOCKS - 1
    result = engine.step([Piece(old.cache, np.array([5], np.int32), 1)])
    assert bits(result.logits[0]) == bits(definition.prefill((*prompt(10), 5)).logits[-1])
    old.cache.release()


def test_a_sequence_takes_part_once(engine: Engine):
    piece = as_piece(engine, prompt(3))
    with pytest.raises(ConfigError, match="only once"):
        engine.step([piece, Piece(piece.cache, np.array([1], np.int32))])
    assert piece.cache.num_positions == piece.cache.num_blocks == 0


def test_a_cache_of_another_engine_is_refused(engine: Engine, small_weights: MemoryWeights):
    with_other = Engine(small_weights, num_threads=1)
    piece = as_piece(with_other, prompt(3))
    with pytest.raises(ConfigError, match="another engine"):
        engine.step([piece])
    with_other.close()


def test_a_cache_that_was_made_too_long_is_refused_when_it_is_too_full(engine: Engine):
    piece = Piece(SequenceCache(engine.blocks, 10**6), np.array([1], np.int32))
    piece.cache.reserve(MAX_POSITIONS)
    piece.cache.advance(MAX_POSITIONS)
    with pytest.raises(ConfigError, match="at most 192 positions"):
        engine.step([piece])
    piece.cache.release()


def test_an_exhausted_pool_advances_nobody(engine: Engine):
    held = engine.new_cache()
    held.reserve(64)
    pieces = [as_piece(engine, prompt(9, key), 0) for key in range(5)]
    for piece in pieces:
        engine.step([piece])
    assert engine.blocks.num_free == 0
    for piece in pieces:
        for _ in range(3):
            engine.step([Piece(piece.cache, np.array(prompt(18), np.int32))])
    # 63 positions each: one fits a position more, three do not fit two more
    step = [Piece(pieces[0].cache, np.array([1], np.int32))]
    step += [Piece(p.cache, np.array([1, 2], np.int32)) for p in pieces[1:4]]
    with pytest.raises(EngineError, match="3 key/value blocks are needed, 0 of 6 are free"):
        engine.step(step)
    assert [p.cache.num_positions for p in pieces] == [63] * 5
    assert [p.cache.num_blocks for p in pieces] == [1] * 5
    held.release()
    pieces[4].cache.release()
    with pytest.raises(EngineError, match="3 key/value blocks are needed, 2 of 6 are free"):
        engine.step(step)
    assert [p.cache.num_blocks for p in pieces[:4]] == [1] * 4
    engine.step(step[:3])
    assert [p.cache.num_positions for p in pieces[:4]] == [64, 65, 65, 63]
    for piece in pieces:
        piece.cache.release()


def test_a_value_that_is_not_finite_ends_its_own_sequence_only():
    config = small_config("llama", tied_embeddings=False)
    weights = random_weights(config, ("F32", "Q8_0"), seed=1)
    weights["embedding"].fields["w"][7, 3] = np.inf
    engine = Engine(MemoryWeights(config, weights), num_threads=2, max_rows=48, max_outputs=8)
    good, bad = as_piece(engine, (1, 2, 3, 4)), as_piece(engine, (5, 6, 7, 8, 7))
    other = as_piece(engine, (9, 10))
    result = engine.step([good, bad, other], trace=True)
    model = ReferenceModel(config, weights)
    with pytest.raises(NonFiniteError):
        model.forward((5, 6, 7))
    assert [type(e) for e in result.errors] == [type(None), NonFiniteError, type(None)]
    assert "positions 0 to 4 " in str(result.errors[1])
    assert result.residuals is not None
    for rows, logit_row, ids in ((slice(0, 4), 0, (1, 2, 3, 4)), (slice(9, 11), 2, (9, 10))):
        expected = model.forward(ids)
        assert bits(result.residuals[:, rows]) == bits(expected.residuals)
        assert bits(result.logits[logit_row]) == bits(expected.logits[-1])
    late = engine.step([Piece(good.cache, np.array([1, 7], np.int32))])
    assert "positions 4 to 5 " in str(late.errors[0])
    engine.close()


def test_two_engines_in_one_process(engine: Engine, definition: Definition):
    config = small_config("qwen3", context_length_tokens=128)
    weights = random_weights(config, ("Q6_K", "Q4_0"), seed=8)
    other = Engine(MemoryWeights(config, weights), num_threads=2, max_rows=48, max_outputs=8)
    here = definition.prefill(prompt(60))
    there = ReferenceModel(config, weights).forward(prompt(60))
    found: dict[str, list[bytes]] = {"here": [], "there": []}

    def work(name: str, which: Engine) -> None:
        for _ in range(20):
            found[name].append(residuals_of(run_alone(which, prompt(60), [32, 1, 27])))

    for _ in range(3):  # in turn
        assert residuals_of(run_alone(engine, prompt(60), [48, 12])) == bits(here.residuals)
        assert residuals_of(run_alone(other, prompt(60), [48, 12])) == bits(there.residuals)
    workers = [
        threading.Thread(target=work, args=arguments)
        for arguments in (("here", engine), ("there", other))
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == {"here": [bits(here.residuals)] * 20, "there": [bits(there.residuals)] * 20}
    other.close()


def test_close_ends_the_threads_and_may_be_called_again(small_weights: MemoryWeights):
    before = kernel_threads()
    engine = Engine(small_weights, num_threads=3)
    piece = as_piece(engine, prompt(4))
    engine.step([piece])
    assert kernel_threads() == before + 2
    engine.close()
    engine.close()
    assert kernel_threads() == before
    with pytest.raises(ConfigError, match="closed"):
        engine.step([Piece(piece.cache, np.array([1], np.int32))])
    assert piece.cache.num_positions == 4


def test_an_engine_that_nobody_closed_takes_its_threads_along(small_weights: MemoryWeights):
    before = kernel_threads()
    engine = Engine(small_weights, num_threads=3)
    engine.step([as_piece(engine, prompt(4))])
    circle: list[Any] = [engine]
    circle.append(circle)  # only the collector can free it
    del engine, circle
    assert kernel_threads() == before


def test_a_process_ends_with_an_engine_open():
    program = """
from engine.forward import Engine
from tests.engine.kernels.models import MemoryWeights, random_weights
from tests.engine.support import CONFIG, as_piece, prompt
engine = Engine(MemoryWeights(CONFIG, random_weights(CONFIG, ("Q8_0",))), num_threads=3)
engine.step([as_piece(engine, prompt(4))])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], timeout=120, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *((name, 0) for name in ("num_threads", "max_rows", "max_outputs", "max_positions")),
        *((name, -1) for name in ("num_threads", "max_positions", "max_blocks")),
        ("max_blocks", 0),
        ("num_threads", 257),
        ("num_threads", 10**12),
    ],
)
def test_settings_out_of_range(small_weights: MemoryWeights, setting: str, value: int):
    before = kernel_threads()
    with pytest.raises(ConfigError, match="threads" if setting == "num_threads" else setting):
        Engine(small_weights, **{"num_threads": 2, setting: value})
    assert kernel_threads() == before


def test_a_missing_tensor_is_named():
    weights = random_weights(CONFIG, KINDS)
    del weights["layers.1.up"]
    before = kernel_threads()
    with pytest.raises(WeightsError, match=r"layers\.1\.up"):
        Engine(MemoryWeights(CONFIG, weights), num_threads=2)
    assert kernel_threads() == before


def test_a_sequence_is_never_longer_than_context_setting_or_cache(small_weights: MemoryWeights):
    def limit(**settings: int) -> int:
        engine = Engine(small_weights, num_threads=1, **settings)
        return engine.max_positions

    assert limit() == CONFIG.context_length_tokens
    assert limit(max_positions=100) == 100
    assert limit(max_positions=10**6) == CONFIG.context_length_tokens
    assert limit(max_blocks=2) == 128


def test_a_new_cache_keeps_to_the_longest_sequence(engine: Engine):
    assert engine.new_cache().max_positions == MAX_POSITIONS
    with pytest.raises(ConfigError, match="193 positions are more than the engine's 192"):
        engine.new_cache(MAX_POSITIONS + 1)
    for wrong in (0, -1):
        with pytest.raises(ConfigError, match="at least one position"):
            engine.new_cache(wrong)
