"""NUMERICS N12: a value that is not finite ends its own sequence, at its position, and no other.

Each model has one flaw that one token meets and no other: the first value of the residual stream is
64 in that token's embedding, 0 in all others, and no layer writes to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import ModelConfig
from engine.errors import NonFiniteError
from engine.forward import Piece, StepResult
from engine.reference.cache import empty_cache
from engine.reference.decoder import ReferenceModel
from engine.reference.weights import Weight, float_profile
from engine.sampling.parameters import SamplingParameters
from engine.scheduler import Scheduler
from engine.sequence import FinishReason, Request
from tests.engine.kernels.models import random_weights, small_config
from tests.engine.kernels.running import Outcome, assert_same_bits, define, engine_of

CONFIG = small_config(
    num_layers=2, hidden_size=64, intermediate_size=96, vocab_size=40, tied_embeddings=False
)
BAD_TOKEN = 7
GOOD_IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3] * 7
BAD_AT = 37
BAD_IDS = [*GOOD_IDS[1 : BAD_AT + 1], BAD_TOKEN, *GOOD_IDS[:20]]
Weights = dict[str, Weight]


def sound_weights(kinds: tuple[str, ...]) -> Weights:
    """Return a model with one value of the residual stream for the bad token alone."""
    weights = random_weights(CONFIG, kinds)
    table = random_weights(CONFIG, ["F32"])["embedding"].fields["w"].copy()
    table[:, 0] = 0
    table[BAD_TOKEN] = 0
    table[BAD_TOKEN, 0] = 64
    weights["embedding"] = Weight("F32", {"w": table})
    for layer in range(CONFIG.num_layers):
        for name in (f"layers.{layer}.o", f"layers.{layer}.down"):
            fields = {field: values.copy() for field, values in weights[name].fields.items()}
            for field in fields.keys() & {"w", "d", "m"}:
                fields[field][0] = 0
            weights[name] = Weight(weights[name].kind, fields)
    return weights


def column(weights: Weights, name: str, factor: float) -> None:
    """Let a matrix, as F32, multiply the bad token's value by a factor."""
    w = random_weights(CONFIG, ["F32"])[name].fields["w"].copy()
    w[:, 0] = factor
    weights[name] = Weight("F32", {"w": w})


def embedding(value: float) -> Callable[[Weights], None]:
    def plant(weights: Weights) -> None:
        weights["embedding"].fields["w"][BAD_TOKEN, 0] = value

    return plant


def norm(name: str) -> Callable[[Weights], None]:
    def plant(weights: Weights) -> None:
        w = weights[name].fields["w"].copy()
        w[0] = 3e38
        weights[name] = Weight("F32", {"w": w})

    return plant


def columns(**factors: float) -> Callable[[Weights], None]:
    def plant(weights: Weights) -> None:
        for name, factor in factors.items():
            column(weights, f"layers.1.{name}", factor)

    return plant


def residual(weights: Weights) -> None:
    columns(gate=1e5, up=1e5)(weights)
    w = np.full(weights["layers.1.down"].shape, 1e30, np.float32)
    w[0] = 0
    weights["layers.1.down"] = Weight("F32", {"w": w})


FLAWS: dict[str, Callable[[Weights], None]] = {
    "infinity in the embedding": embedding(np.inf),
    "NaN in the embedding": embedding(np.nan),
    "an activation overflows in a norm": norm("layers.0.attention_norm"),
    "an activation overflows in SwiGLU": columns(gate=1e30, up=1e30),
    "a query overflows": columns(q=3e38),
    "a key overflows binary16": columns(k=1e6),
    "a value overflows binary16": columns(v=1e6),
    "a score overflows": columns(q=1e36, k=1e4),
    "a residual overflows": residual,
}
KINDS = {"integers": ("Q8_0", "Q4_1"), "floats": ("F32", "BF16")}


class Flawed:
    """A model with a flaw."""

    def __init__(self, flaw: str, kinds: str) -> None:
        self.config: ModelConfig = CONFIG
        self.weights = sound_weights(KINDS[kinds])
        FLAWS[flaw](self.weights)

    @cached_property
    def good(self) -> Outcome:
        """Return what the definition says of the good sequence."""
        return define(self.config, self.weights, GOOD_IDS)


@pytest.fixture(scope="module", params=[(f, k) for f in FLAWS for k in KINDS], ids=" / ".join)
def flawed(request: pytest.FixtureRequest) -> Flawed:
    return Flawed(*request.param)


def check_step(result: StepResult, rows: list[tuple[int, int]], good: Outcome) -> None:
    """Compare the good sequence's rows; `rows` are (row of the step, position)."""
    assert result.residuals is not None
    for row, position in rows:
        assert_same_bits(
            np.ascontiguousarray(result.residuals[:, row]), good.residuals[:, position].copy()
        )
        assert_same_bits(result.logits[row], good.logits[position])


def test_the_definition_refuses_that_token_alone(flawed: Flawed) -> None:
    model = ReferenceModel(flawed.config, flawed.weights)
    cache = model.forward(BAD_IDS[:BAD_AT]).cache
    with pytest.raises(NonFiniteError):
        model.forward([BAD_TOKEN], cache)
    model.forward(BAD_IDS[BAD_AT + 1 :], cache)


def test_prefill(flawed: Flawed) -> None:
    good = flawed.good
    with engine_of(flawed.config, flawed.weights, 3) as engine:
        first, bad, last = (engine.new_cache() for _ in range(3))
        before = np.array(GOOD_IDS[:30], np.int32)
        with_it = np.array(BAD_IDS, np.int32)
        pieces = [
            Piece(first, before, 30),
            Piece(bad, with_it, len(with_it)),
            Piece(last, before, 30),
        ]
        result = engine.step(pieces, trace=True)
        assert [error is None for error in result.errors] == [True, False, True]
        assert f"positions 0 to {len(BAD_IDS) - 1} " in str(result.errors[1])
        check_step(result, [(n, n) for n in range(30)], good)
        check_step(result, [(30 + len(BAD_IDS) + n, n) for n in range(30)], good)
        bad.release()
        # The others go on, one of them over the blocks that the bad one has left.
        rest = np.array(GOOD_IDS[30:], np.int32)
        result = engine.step([Piece(last, rest, 40), Piece(first, rest, 40)], trace=True)
        assert not any(result.errors)
        check_step(result, [(n, 30 + n) for n in range(40)], good)
        check_step(result, [(40 + n, 30 + n) for n in range(40)], good)


@pytest.mark.parametrize("num_threads", [1, 3])
def test_decode(flawed: Flawed, num_threads: int) -> None:
    good = flawed.good
    with engine_of(flawed.config, flawed.weights, num_threads) as engine:
        cache, bad = engine.new_cache(), engine.new_cache()
        start = BAD_AT - 3
        prompt = np.array(BAD_IDS[:start], np.int32)
        assert engine.step([Piece(bad, prompt)]).errors == (None,)
        for n in range(3):
            pieces = [
                Piece(bad, np.array([BAD_IDS[start + n]], np.int32), 1),
                Piece(cache, np.array([GOOD_IDS[n]], np.int32), 1),
            ]
            result = engine.step(pieces, trace=True)
            assert not any(result.errors)
            check_step(result, [(1, n)], good)
        pieces = [
            Piece(bad, np.array([BAD_TOKEN], np.int32), 1),
            Piece(cache, np.array([GOOD_IDS[3]], np.int32), 1),
        ]
        result = engine.step(pieces, trace=True)
        assert isinstance(result.errors[0], NonFiniteError)
        assert f"positions {BAD_AT} to {BAD_AT} " in str(result.errors[0])
        assert result.errors[1] is None
        check_step(result, [(1, 3)], good)
        # Alone in a step, too.
        alone = engine.new_cache()
        result = engine.step([Piece(alone, np.array([BAD_TOKEN], np.int32), 1)])
        assert isinstance(result.errors[0], NonFiniteError)
        assert "positions 0 to 0 " in str(result.errors[0])


@settings(max_examples=40)
@given(
    names=st.sets(st.sampled_from(["q", "k", "v", "gate", "up"]), min_size=1, max_size=2),
    exponent=st.floats(3, 127),
    layer=st.integers(0, 1),
    kinds=st.sampled_from(sorted(KINDS)),
    single_cache=st.booleans(),
)
def test_the_engine_refuses_where_the_definition_does(
    names: set[str], exponent: float, layer: int, kinds: str, single_cache: bool
) -> None:
    weights = sound_weights(KINDS[kinds])
    for name in names:
        column(weights, f"layers.{layer}.{name}", 2.0**exponent)
    if single_cache:
        weights = float_profile(weights)
    cache_type = np.float32 if single_cache else np.float16
    model = ReferenceModel(CONFIG, weights, cache_type=cache_type)
    ids = [3, 4, BAD_TOKEN, 5, BAD_TOKEN, BAD_TOKEN, 6, 1]
    state = empty_cache(CONFIG, cache_type)
    with engine_of(CONFIG, weights, single_cache=single_cache) as engine:
        cache = engine.new_cache()
        for token in ids:
            result = engine.step([Piece(cache, np.array([token], np.int32), 1)], trace=True)
            try:
                expected = model.forward([token], state)
            except NonFiniteError:
                assert result.errors[0] is not None
                return
            assert result.errors[0] is None
            assert result.residuals is not None
            assert_same_bits(result.residuals, expected.residuals)
            assert_same_bits(result.logits, expected.logits)
            state = expected.cache


def run_requests(weights: Weights, *prompts: list[int]) -> list[tuple[FinishReason | None, object]]:
    """Answer requests together; return how each ended, and its error or its ids and root."""
    greedy = SamplingParameters(temperature_millionths=0)
    with engine_of(CONFIG, weights) as engine:
        scheduler = Scheduler(engine, prefill_tokens=16, max_running=4)
        sequences = [scheduler.add(Request(tuple(ids), 3, greedy)) for ids in prompts]
        while not scheduler.is_idle:
            scheduler.step()
        assert engine.blocks.num_free == engine.blocks.max_blocks
    return [
        (
            s.finish_reason,
            s.error or (s.output_ids, s.trace_root, s.trace and s.trace.num_positions),
        )
        for s in sequences
    ]


def sound_logits(weights: Weights) -> None:
    """Keep greedy answers away from the bad token."""
    fields = weights["head"].fields
    for field in fields.keys() & {"w", "d", "m"}:
        fields[field][BAD_TOKEN] = 0


def test_the_scheduler(flawed: Flawed) -> None:
    sound_logits(flawed.weights)
    good = GOOD_IDS[:40]
    alone = run_requests(flawed.weights, good)
    together = run_requests(flawed.weights, good, BAD_IDS, good)
    assert together[0] == together[2] == alone[0]
    assert alone[0][0] is FinishReason.LENGTH
    reason, error = together[1]
    assert reason is FinishReason.ERROR
    # Chunks of at most sixteen share a step with others: the one with the token is named.
    assert isinstance(error, NonFiniteError)
    first, last = (int(word) for word in str(error).split() if word.isdigit())
    assert first <= BAD_AT <= last < first + 16


def test_logits_that_overflow() -> None:
    weights = sound_weights(KINDS["integers"])
    good = GOOD_IDS[:20]
    column(weights, "head", 3e38)
    sound_logits(weights)
    alone = run_requests(weights, good)
    # The bad token's logits are wanted at the end of a prompt only.
    ends_with_it = [*good, BAD_TOKEN]
    together = run_requests(weights, good, ends_with_it, [BAD_TOKEN, *good])
    assert together[0] == alone[0]
    assert together[1][0] is FinishReason.ERROR
    assert isinstance(together[1][1], NonFiniteError)
    assert together[2][0] is FinishReason.LENGTH


def test_a_weight_that_is_not_finite_ends_every_sequence() -> None:
    for name in ("layers.0.attention_norm", "layers.1.ffn_norm", "layers.1.down"):
        weights = random_weights(CONFIG, ["F32"])
        w = weights[name].fields["w"].copy()
        w.flat[3] = np.nan
        weights[name] = Weight("F32", {"w": w})
        with engine_of(CONFIG, weights) as engine:
            pieces = [Piece(engine.new_cache(), np.array([n, n], np.int32), 1) for n in (1, 2)]
            assert all(isinstance(e, NonFiniteError) for e in engine.step(pieces).errors)
