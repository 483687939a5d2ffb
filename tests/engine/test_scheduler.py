"""Many sequences on one engine: each gets in its turn what it would get alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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

from engine import sequence as engine_sequence
from engine.errors import (
    ConfigError,
    ContextLengthError,
    EngineError,
    NonFiniteError,
    SamplingError,
)
from engine.forward import Engine, Piece, StepResult
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
    Answer,
    Definition,
    as_piece,
    prompt,
)

GREEDY = SamplingParameters(temperature_millionths=0)
PREFILL_TOKENS = 20
MAX_RUNNING = 3

SAMPLINGS = (
    GREEDY,
    SamplingParameters(seed=1),
    SamplingParameters(seed=2, temperature_millionths=700_000, top_p_millionths=900_000),
    SamplingParameters(
        seed=3,
        top_k=20,
        repetition_penalty_millionths=1_200_000,
        frequency_penalty_millionths=300_000,
        presence_penalty_millionths=-100_000,
        logprobs=2,
    ),
)
SHAPES = (
    (1, 1),
    (1, 25),
    (2, 9),
    (17, 6),
    (20, 1),
    (40, 30),
    (63, 2),
    (64, 3),
    (65, 12),
    (110, 20),
)
REQUESTS = [
    Request(
        prompt(length, key),
        max_tokens,
        SAMPLINGS[key % len(SAMPLINGS)],
        eos_ids=tuple(range(0, CONFIG.vocab_size, 8)) if key % 3 == 2 else (),
        trace=key % 4 != 1,
    )
    for key, (length, max_tokens) in enumerate(SHAPES)
]


class Observed:
    """An engine that counts rows, and calls `during` in the middle of each step."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.during: Callable[[], None] = lambda: None
        self.rows: list[list[int]] = []
        self.traces: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def step(self, pieces: Sequence[Piece], *, trace: bool) -> StepResult:
        result = self._engine.step(pieces, trace=trace)
        self.rows.append([len(piece.ids) for piece in pieces])
        self.traces.append(trace)
        self.during()
        return result


class Entry(NamedTuple):
    """A request under way, and all that it may ever give."""

    sequence: engine_sequence.Sequence
    answer: Answer


class Machine(RuleBasedStateMachine):
    """Requests come, steps are taken, somebody cancels."""

    def __init__(self, engine: Engine, definition: Definition) -> None:
        super().__init__()
        self.engine = Observed(engine)
        self.definition = definition
        self.scheduler = Scheduler(
            self.engine,  # type: ignore[arg-type]
            prefill_tokens=PREFILL_TOKENS,
            max_running=MAX_RUNNING,
        )
        self.entries: list[Entry] = []
        self.reported: set[int] = set()

    @property
    def live(self) -> list[engine_sequence.Sequence]:
        return [e.sequence for e in self.entries if not e.sequence.is_finished]

    @rule(index=st.integers(0, len(REQUESTS) - 1))
    def submit(self, index: int) -> None:
        request = REQUESTS[index]
        self.entries.append(Entry(self.scheduler.add(request), self.definition.answer(request)))

    @rule(length=st.sampled_from([0, MAX_POSITIONS]))
    def submit_what_cannot_be(self, length: int) -> None:
        with pytest.raises(ContextLengthError if length else ConfigError):
            self.scheduler.add(Request(prompt(length), 1))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        data.draw(st.sampled_from(self.live)).cancel()

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def cancel_during_a_step(self, data: Any) -> None:
        sequence = data.draw(st.sampled_from(self.live))
        self.engine.during = sequence.cancel
        self.step()
        self.engine.during = lambda: None

    @rule(number=st.integers(1, 12))
    def several_steps(self, number: int) -> None:
        for _ in range(number):
            self.step()

    @rule()
    def step(self) -> None:
        live = self.live
        was_idle = self.scheduler.is_idle
        decoding = [s for s in live if s.output_ids and not s.is_cancelled]
        cancelled = [s for s in live if s.is_cancelled]
        lengths = {id(s): len(s.output_ids) for s in live}
        positions = {id(s): s.cache.num_positions for s in live}
        self.engine.rows.clear()
        progress = self.scheduler.step()
        assert len({id(p.sequence) for p in progress}) == len(progress)
        for sequence, choice in progress:
            assert id(sequence) not in self.reported, "a finished sequence came up again"
            assert len(sequence.output_ids) == lengths[id(sequence)] + (choice is not None)
            assert choice is None or choice.id == sequence.output_ids[-1]
            if sequence.is_finished:
                self.reported.add(id(sequence))
        took_part = {id(p.sequence): p for p in progress}
        for sequence in cancelled:
            assert sequence.finish_reason is FinishReason.CANCELLED
            assert took_part[id(sequence)].choice is None
        for sequence in decoding:  # no answer waits for a prompt
            assert took_part[id(sequence)].choice is not None or sequence.is_cancelled
        prefilling = [s for s in live if not lengths[id(s)] and id(s) in took_part]
        computed = sum(map(sum, self.engine.rows))
        assert computed <= PREFILL_TOKENS + len(decoding)
        if len(cancelled) < len(live):
            assert computed > 0, "nothing moves"
            spare = computed - len(decoding) < PREFILL_TOKENS
            partly = [s for s in prefilling if not s.is_finished and s.is_prefilling]
            assert not (spare and partly), "prompt tokens were left out though there was room"
        else:
            assert computed == 0
        assert was_idle == (not live)
        for s in live:
            if not s.is_finished:
                assert s.cache.num_positions >= positions[id(s)]

    @invariant()
    def every_block_is_accounted_for(self) -> None:
        held = sum(s.cache.num_blocks for s in self.live)
        assert held + self.engine.blocks.num_free == MAX_BLOCKS
        assert sum(s.cache.num_blocks > 0 for s in self.live) <= MAX_RUNNING
        assert not any(e.sequence.cache.num_blocks for e in self.entries if e.sequence.is_finished)

    @invariant()
    def who_came_first_began_first(self) -> None:
        began = [s.cache.num_positions > 0 for s in self.live]
        assert began == sorted(began, reverse=True)

    @invariant()
    def ids_are_those_of_a_run_alone(self) -> None:
        for sequence, answer in self.entries:
            assert sequence.output_ids == answer.ids[: len(sequence.output_ids)]
            assert sequence.error is None
            if sequence.finish_reason in {FinishReason.STOP, FinishReason.LENGTH}:
                assert sequence.output_ids == answer.ids

    def teardown(self) -> None:
        steps = 0
        while not self.scheduler.is_idle:
            self.step()
            steps += 1
            assert steps < 1000
        assert not self.live
        assert self.engine.blocks.num_free == MAX_BLOCKS
        self.ids_are_those_of_a_run_alone()
        for sequence, answer in self.entries:
            self.check_end(sequence, answer)

    @staticmethod
    def check_end(sequence: engine_sequence.Sequence, answer: Answer) -> None:
        request = sequence.request
        if sequence.finish_reason is not FinishReason.CANCELLED:
            stopped = answer.ids[-1] in request.eos_ids
            assert sequence.finish_reason is (FinishReason.STOP if stopped else FinishReason.LENGTH)
        if not request.trace:
            assert sequence.trace_root is None
            return
        assert sequence.trace is not None
        hashed = sequence.trace.num_positions
        if sequence.output_ids:  # all but the last output id have been computed
            assert hashed == len(request.prompt_ids) + len(sequence.output_ids) - 1
        else:
            assert hashed < len(request.prompt_ids)
        assert sequence.trace_root == answer.trace_root(hashed)


def test_any_order_of_events(shared_engine: Engine, definition: Definition):
    run_state_machine_as_test(
        lambda: Machine(shared_engine, definition),
        settings=settings(max_examples=40, stateful_step_count=30),
    )


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
    refused, small = running.add(Request(prompt(150), 40, GREEDY)), running.add(REQUESTS[0])
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
