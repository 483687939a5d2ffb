"""One sequence: what is refused, what it takes from a step, and why it ends."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from crypto.sm3_rows import PORTABLE
from engine.errors import ConfigError, ContextLengthError, NonFiniteError
from engine.kv.cache import BlockPool, SequenceCache
from engine.reference.arrays import F32
from engine.reference.trace import layer_roots, trace_root
from engine.sampling.parameters import SamplingParameters
from engine.sampling.sampler import Sampler
from engine.sequence import FinishReason, Request, Sequence
from engine.trace import Trace, leaf_hashes
from tests.engine.support import CONFIG

GREEDY = SamplingParameters(temperature_millionths=0)
VOCAB = CONFIG.vocab_size


def sequence(**settings: Any) -> Sequence:
    """Return a sequence of three prompt ids and at most four output ids, half computed."""
    settings = {"prompt_ids": (5, 6, 7), "max_tokens": 4, "sampling": GREEDY, **settings}
    request = Request(**settings)
    pool = BlockPool(CONFIG, max_blocks=3)
    cache = SequenceCache(pool, request.num_positions)
    trace = Trace(CONFIG.num_layers) if request.trace else None
    return Sequence(request, cache, Sampler(request.sampling, VOCAB), trace)


def logits_for(token_id: int) -> F32:
    """Return logits of which one is the largest."""
    logits = np.zeros(VOCAB, np.float32)
    logits[token_id] = 3
    return logits


def residuals(positions: int, value: float = 1) -> F32:
    return np.full((CONFIG.num_layers + 1, positions, CONFIG.hidden_size), value, np.float32)


def leaves(positions: int, value: float = 1) -> NDArray[np.uint8]:
    return leaf_hashes(residuals(positions, value), PORTABLE)


def compute(s: Sequence, positions: int) -> None:
    """Fill positions of the cache, as a step does."""
    s.cache.reserve(positions)
    s.cache.advance(positions)


def test_a_request_must_fit_the_context():
    request = Request((1,) * 10, 6)
    request.check(16, VOCAB)
    with pytest.raises(ContextLengthError, match=r"10 tokens and 6 were asked for.* holds 15") as e:
        request.check(15, VOCAB)
    assert (e.value.prompt_tokens, e.value.max_tokens, e.value.limit_tokens) == (10, 6, 15)


@pytest.mark.parametrize(
    ("prompt_ids", "max_tokens", "message"),
    [
        ((), 1, "at least one token"),
        ((1,), 0, "max_tokens must be at least 1"),
        ((1,), -3, "max_tokens must be at least 1"),
        ((1, VOCAB), 1, "outside the vocabulary"),
        ((-1, 1), 1, "outside the vocabulary"),
    ],
)
def test_a_request_that_makes_no_sense(prompt_ids: tuple[int, ...], max_tokens: int, message: str):
    with pytest.raises(ConfigError, match=message):
        Request(prompt_ids, max_tokens).check(100, VOCAB)


def test_the_last_output_token_is_never_computed():
    assert Request((1, 2, 3), 4).num_positions == 6
    assert Request((1,), 1).num_positions == 1


def test_the_prompt_comes_in_pieces_and_then_the_newest_token():
    s = sequence()
    assert s.num_prompt_tokens == 3
    assert s.next_ids(2).tolist() == [5, 6]
    compute(s, 2)
    assert s.accept(None, leaves(2)) is None
    assert s.is_prefilling
    assert s.next_ids(2).tolist() == [7]
    compute(s, 1)
    choice = s.accept(logits_for(40), leaves(1))
    assert choice is not None
    assert choice.id == 40
    assert not s.is_prefilling
    assert s.next_ids(2).tolist() == [40]
    assert s.next_ids(2).dtype == np.int32
    assert s.output_ids == [40]
    assert s.finish_reason is None
    assert s.trace_root == trace_root(residuals(3))


def test_an_end_token_ends_it_also_as_the_last_token_asked_for():
    s = sequence(max_tokens=1, eos_ids=(9, 40))
    compute(s, 3)
    s.accept(logits_for(40), None)
    assert s.finish_reason is FinishReason.STOP
    assert s.output_ids == [40]
    assert s.cache.num_blocks == 0


def test_the_last_token_asked_for_ends_it():
    s = sequence(max_tokens=2, eos_ids=(9,))
    compute(s, 3)
    s.accept(logits_for(40), None)
    assert not s.is_finished
    compute(s, 1)
    s.accept(logits_for(41), None)
    assert s.finish_reason is FinishReason.LENGTH
    assert s.output_ids == [40, 41]
    assert s.cache.num_blocks == 0


def test_a_stop_string_counts_before_the_length():
    s = sequence(max_tokens=1)
    compute(s, 3)
    s.accept(logits_for(40), None)
    assert s.finish_reason is FinishReason.LENGTH
    s.stop()
    assert s.finish_reason is FinishReason.STOP


def test_a_stop_string_ends_a_sequence_that_would_go_on():
    s = sequence()
    compute(s, 3)
    s.accept(logits_for(40), None)
    s.stop()
    assert s.finish_reason is FinishReason.STOP
    assert s.cache.num_blocks == 0


@pytest.mark.parametrize("reason", [FinishReason.CANCELLED, FinishReason.ERROR])
def test_other_reasons_stay(reason: FinishReason):
    s = sequence()
    s.finish(reason, NonFiniteError("x") if reason is FinishReason.ERROR else None)
    s.stop()
    s.finish(FinishReason.LENGTH, NonFiniteError("y"))
    assert s.finish_reason is reason
    assert str(s.error) == ("x" if reason is FinishReason.ERROR else "None")


def test_a_logit_that_is_not_finite_leaves_nothing_of_the_step():
    s = sequence()
    compute(s, 2)
    s.accept(None, leaves(2))
    before = s.trace_root
    compute(s, 1)
    logits = logits_for(40)
    logits[3] = np.nan
    with pytest.raises(NonFiniteError):
        s.accept(logits, leaves(1, 2))
    assert s.trace_root == before
    assert s.output_ids == []


def test_without_a_trace_nothing_is_kept():
    s = sequence(trace=False)
    compute(s, 3)
    s.accept(logits_for(40), leaves(3))
    assert s.trace is None
    assert s.trace_root is None
    assert s.cache.trace_roots == []


def test_a_full_block_carries_its_trace_roots():
    s = sequence(prompt_ids=(1,) * 130, max_tokens=3)
    for positions in (60, 68, 2):
        compute(s, positions)
        s.accept(logits_for(40) if positions == 2 else None, leaves(positions, positions))
    assert len(s.cache.trace_roots) == 2
    whole = np.concatenate([residuals(n, n) for n in (60, 68, 2)], axis=1)
    for block, roots in enumerate(s.cache.trace_roots):
        expected = layer_roots(whole[:, 64 * block : 64 * block + 64])
        assert [r.tobytes() for r in roots] == expected
    s.finish(FinishReason.STOP)
    assert s.trace_root == trace_root(whole)


def test_log_probabilities_stay_with_the_choices():
    s = sequence(sampling=SamplingParameters(temperature_millionths=0, logprobs=2))
    compute(s, 3)
    s.accept(logits_for(40), None)
    assert [c.id for c in s.choices] == [40]
    assert [i for i, _ in s.choices[0].top] == [40, 0]
    assert s.choices[0].logprob == s.choices[0].top[0][1]


def test_a_draw_depends_on_seed_and_position_alone():
    rng = np.random.default_rng(1)
    logits = [rng.standard_normal(VOCAB).astype(np.float32) for _ in range(4)]

    def drawn(seed: int, prompt_ids: tuple[int, ...]) -> list[int]:
        s = sequence(sampling=SamplingParameters(seed=seed), prompt_ids=prompt_ids, trace=False)
        compute(s, 3)
        for step in logits:
            s.accept(step, None)
        return s.output_ids

    assert drawn(1, (5, 6, 7)) == drawn(1, (8, 9, 10))
    assert drawn(1, (5, 6, 7)) != drawn(2, (5, 6, 7))


def test_cancel_from_another_thread_is_seen():
    s = sequence()
    assert not s.is_cancelled
    thread = threading.Thread(target=s.cancel)
    thread.start()
    thread.join()
    assert s.is_cancelled
    assert not s.is_finished
