"""Many sequences on one engine: each gets in its turn what it would get alone."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import (
    ConfigError,
    ContextLengthError,
    EngineError,
    NonFiniteError,
    SamplingError,
)
from engine.forward import Engine
from engine.reference.decoder import ReferenceModel
from engine.sampling.choice import Choice
from engine.sampling.parameters import SamplingParameters
from engine.sampling.sampler import Sampler
from engine.scheduler import Progress, Scheduler
from engine.sequence import FinishReason, Request
from tests.engine.kernels.models import MemoryWeights, random_weights, small_config
from tests.engine.support import (
    CONFIG,
    MAX_BLOCKS,
    MAX_POSITIONS,
    Definition,
    Observed,
    as_piece,
    prompt,
)

GREEDY = SamplingParameters(temperature_millionths=0)


def scheduler(engine: Engine | Observed, **limits: int) -> Scheduler:
    return Scheduler(engine, **{"prefill_tokens": 20, "max_running": 3, **limits})  # type: ignore[arg-type]


def drain(running: Scheduler) -> list[list[Progress]]:
    """Step until idle; return what each step reported."""
    steps = []
    while not running.is_idle:
        steps.append(running.step())
        assert len(steps) < 1000
    return steps


def test_an_idle_scheduler_does_nothing(engine: Engine):
    idle = scheduler(engine)
    assert idle.is_idle
    assert idle.step() == []


def test_a_long_prompt_does_not_hold_up_running_answers(engine: Engine, definition: Definition):
    observed = Observed(engine)
    running = scheduler(observed)
    first = running.add(Request(prompt(5, 1), 40, GREEDY))
    running.step()
    second = running.add(Request(prompt(150, 2), 3, GREEDY))
    for number in range(1, 8):
        progress = running.step()
        assert [p.sequence for p in progress] == [first, second]
        assert progress[0].choice is not None
        assert (progress[1].choice, second.cache.num_positions) == (None, 20 * number)
    assert running.step()[1].choice is not None
    assert observed.rows == [[5], *[[1, 20]] * 7, [1, 10]]
    drain(running)
    for sequence in (first, second):
        answer = definition.answer(sequence.request)
        assert sequence.output_ids == answer.ids
        assert sequence.trace_root == answer.trace_root(sequence.request.num_positions)


def test_first_come_first_served(engine: Engine):
    running = scheduler(engine, max_running=1)
    added = [running.add(Request(prompt(30 - 5 * n, n), 1 + n % 3, GREEDY)) for n in range(5)]
    seen: list[object] = []
    for progress in drain(running):
        assert len(progress) == 1
        if progress[0].sequence not in seen:
            seen.append(progress[0].sequence)
    assert seen == added


def test_prompts_share_a_step(engine: Engine):
    observed = Observed(engine)
    running = scheduler(observed)
    for key, length in enumerate((8, 7, 12)):
        running.add(Request(prompt(length, key), 1, GREEDY))
    drain(running)
    assert observed.rows == [[8, 7, 5], [7]]


def test_who_waits_for_the_cache_starts_when_it_is_free(engine: Engine, definition: Definition):
    running = scheduler(engine)
    first = running.add(Request(prompt(150, 1), 20, GREEDY))  # 3 blocks of the 6
    steps = [running.step() for _ in range(8)]
    assert (first.cache.num_blocks, len(first.output_ids)) == (3, 1)
    requests = [Request(prompt(130, 2), 4, GREEDY), Request(prompt(140, 3), 4, GREEDY)]
    requests.append(Request(prompt(3, 4), 4, GREEDY))  # 3, 3 and 1
    sequences = [first, *(running.add(request) for request in requests)]
    steps += drain(running)
    seen = [
        [n for n, step in enumerate(steps) if s in [p.sequence for p in step]] for s in sequences
    ]
    begun, ended = [numbers[0] for numbers in seen], [numbers[-1] for numbers in seen]
    assert begun[1] == 8, "there was room beside the first"
    assert begun[2] == min(ended[:2]) + 1, "the next one starts in the step after one has ended"
    assert begun[2] <= begun[3], "nobody overtakes"
    for sequence in sequences:
        assert sequence.output_ids == definition.answer(sequence.request).ids


def test_what_can_never_fit_is_refused_with_the_numbers(small_weights: MemoryWeights):
    engine = Engine(small_weights, num_threads=1, max_blocks=2)
    refusing = Scheduler(engine)
    with pytest.raises(ContextLengthError) as error:
        refusing.add(Request(prompt(100), 29, GREEDY))
    assert (error.value.prompt_tokens, error.value.max_tokens) == (100, 29)
    assert error.value.limit_tokens == 128
    assert refusing.is_idle
    refusing.add(Request(prompt(100), 28, GREEDY))
    engine.close()


def test_a_cache_in_other_hands_is_an_error_and_no_endless_wait(engine: Engine):
    held = as_piece(engine, prompt(20), 0)
    engine.step([held])
    running = scheduler(engine)
    waiting = [running.add(Request(prompt(150, n), 40, GREEDY)) for n in range(2)]
    drain(running)
    assert [s.finish_reason for s in waiting] == [FinishReason.LENGTH] * 2
    others = engine.new_cache()
    others.reserve(MAX_POSITIONS)
    refused, small = (
        running.add(Request(prompt(150), 40, GREEDY)),
        running.add(Request(prompt(1), 1)),
    )
    assert [p.sequence for p in running.step()] == [refused]
    assert refused.finish_reason is FinishReason.ERROR
    assert "taken by others" in str(refused.error)
    drain(running)
    assert small.finish_reason is FinishReason.LENGTH
    held.cache.release()
    others.release()


def test_one_that_cannot_go_on_does_not_touch_the_others():
    config = small_config(tied_embeddings=False, vocab_size=64)
    weights = random_weights(config, ("F32", "Q8_0"), seed=1)
    weights["embedding"].fields["w"][7, 3] = float("inf")
    definition = Definition(ReferenceModel(config, weights))
    engine = Engine(MemoryWeights(config, weights), num_threads=2, max_rows=64, max_outputs=8)
    running = Scheduler(engine, prefill_tokens=8, max_running=4)
    avoid = ((7, -100_000_000),)
    force = ((7, 100_000_000),)

    def sampling(bias: tuple[tuple[int, int], ...]) -> SamplingParameters:
        return SamplingParameters(temperature_millionths=0, logit_bias_millionths=bias)

    good = [
        running.add(Request(ids, 12, sampling(avoid))) for ids in ((1, 2, 3), (4, 5, 6, 8, 9) * 4)
    ]
    bad_prompt = running.add(Request((9,) * 12 + (7, 9), 5, sampling(avoid)))
    bad_output = running.add(Request((10, 11), 5, sampling(force)))
    drain(running)
    for sequence in (bad_prompt, bad_output):
        assert sequence.finish_reason is FinishReason.ERROR
        assert isinstance(sequence.error, NonFiniteError)
        assert sequence.cache.num_blocks == 0
    assert (bad_prompt.output_ids, bad_output.output_ids) == ([], [7])
    assert bad_output.trace is not None
    assert bad_output.trace.num_positions == 2  # nothing of the failed step is hashed
    for sequence in good:
        answer = definition.answer(sequence.request)
        assert sequence.output_ids == answer.ids
        assert sequence.trace_root == answer.trace_root(sequence.request.num_positions)
    assert engine.blocks.num_free == engine.blocks.max_blocks
    engine.close()


class Refusing(Sampler):
    """A sampler whose grammar excludes every token."""

    def sample(self, *_arguments: Any, **_settings: Any) -> Choice:
        raise SamplingError("nothing left")


def test_a_token_that_cannot_be_chosen_is_the_sequences_own_error(
    engine: Engine, definition: Definition
):
    running = scheduler(engine)
    good, bad = (running.add(Request(prompt(9, n), 4, GREEDY)) for n in range(2))
    running.step()
    bad.sampler = Refusing(GREEDY, CONFIG.vocab_size)
    progress = running.step()
    assert progress == [Progress(good, good.choices[-1]), Progress(bad, None)]
    assert bad.finish_reason is FinishReason.ERROR
    assert str(bad.error) == "nothing left"
    assert bad.trace_root == definition.answer(bad.request).trace_root(9)
    drain(running)
    assert good.output_ids == definition.answer(good.request).ids


@pytest.mark.parametrize("started", [False, True])
def test_cancel_takes_effect_before_the_next_step(engine: Engine, started: bool):
    observed = Observed(engine)
    running = scheduler(observed)
    sequence = running.add(Request(prompt(100), 5, GREEDY))
    if started:
        running.step()
        running.step()
        assert sequence.cache.num_positions == 40
    sequence.cancel()
    assert running.step() == [Progress(sequence, None)]
    assert sequence.finish_reason is FinishReason.CANCELLED
    assert observed.rows == ([[20], [20]] if started else [])
    assert running.is_idle
    assert engine.blocks.num_free == MAX_BLOCKS


def test_what_a_step_computed_for_a_cancelled_sequence_is_dropped(
    engine: Engine, definition: Definition
):
    observed = Observed(engine)
    running = scheduler(observed)
    mine, other = (running.add(Request(prompt(9, n), 8, GREEDY)) for n in range(2))
    running.step()
    running.step()
    observed.during = mine.cancel
    assert running.step() == [Progress(mine, None), Progress(other, other.choices[-1])]
    assert mine.finish_reason is FinishReason.CANCELLED
    assert len(mine.output_ids) == 2
    assert mine.trace_root == definition.answer(mine.request).trace_root(10)
    drain(running)
    assert other.output_ids == definition.answer(other.request).ids


def test_nobody_pays_for_a_trace_that_nobody_wants(engine: Engine):
    observed = Observed(engine)
    running = scheduler(observed)
    running.add(Request(prompt(5, 1), 3, GREEDY, trace=False))
    drain(running)
    running.add(Request(prompt(5, 2), 3, GREEDY, trace=False))
    running.add(Request(prompt(5, 3), 1, GREEDY, trace=True))
    drain(running)
    assert observed.traces == [False, False, False, True, False, False]


def test_a_stop_between_steps_is_noticed(engine: Engine):
    running = scheduler(engine)
    sequence, other = (running.add(Request(prompt(4, n), 9, GREEDY)) for n in range(2))
    running.step()
    sequence.stop()
    assert [p.sequence for p in running.step()] == [other]
    other.stop()
    assert running.is_idle
    assert running.step() == []


def test_a_step_that_fails_can_be_taken_again(engine: Engine, definition: Definition):
    observed = Observed(engine)
    running = scheduler(observed)
    sequence = running.add(Request(prompt(30), 6, GREEDY))
    running.step()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observed, "step", lambda *_pieces, **_settings: engine.step([]))
        with pytest.raises(ConfigError):
            running.step()
    assert (sequence.cache.num_positions, sequence.finish_reason) == (20, None)
    drain(running)
    assert sequence.output_ids == definition.answer(sequence.request).ids


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request((), 1), "at least one token"),
        (Request((1,), 0), "max_tokens"),
        (Request((CONFIG.vocab_size,), 1), "vocabulary"),
        (
            Request((1,), 1, SamplingParameters(logit_bias_millionths=((CONFIG.vocab_size, 1),))),
            "logit_bias",
        ),
    ],
)
def test_a_request_that_makes_no_sense_is_never_queued(
    engine: Engine, request_: Request, message: str
):
    refusing = scheduler(engine)
    with pytest.raises(EngineError, match=message):
        refusing.add(request_)
    assert refusing.is_idle


@pytest.mark.parametrize(
    "limits",
    [
        {"prefill_tokens": 0},
        {"max_running": 0},
        {"max_running": -1},
        {"max_running": 9},  # more than the engine has logits for
        {"prefill_tokens": 47},  # with two decoding beside it more than the engine's rows
        {"prefill_tokens": 46, "max_running": 4},
    ],
)
def test_limits_must_fit_the_engine(engine: Engine, limits: dict[str, int]):
    with pytest.raises(ConfigError, match="do not fit"):
        scheduler(engine, **limits)


def test_the_largest_step_fits_exactly(engine: Engine):
    observed = Observed(engine)
    full = scheduler(observed, prefill_tokens=46)
    for key in range(2):
        full.add(Request(prompt(3, key), 9, GREEDY))
    full.step()
    full.add(Request(prompt(100, 3), 2, GREEDY))
    drain(full)
    assert max(map(sum, observed.rows)) == engine.max_rows


@pytest.mark.parametrize(("max_rows", "max_outputs"), [(1, 1), (4, 8), (40, 2), (512, 64)])
def test_default_limits_fit_any_engine(
    small_weights: MemoryWeights, definition: Definition, max_rows: int, max_outputs: int
):
    engine = Engine(small_weights, num_threads=1, max_rows=max_rows, max_outputs=max_outputs)
    running = Scheduler(engine)
    sequences = [running.add(Request(prompt(10, n), 3, GREEDY)) for n in range(3)]
    drain(running)
    for sequence in sequences:
        assert sequence.output_ids == definition.answer(sequence.request).ids
    engine.close()
