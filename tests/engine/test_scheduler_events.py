"""Requests, steps and cancellations in any order: what always holds for the scheduler."""

from __future__ import annotations

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
from engine.errors import ConfigError, ContextLengthError
from engine.forward import Engine
from engine.sampling.parameters import SamplingParameters
from engine.scheduler import Scheduler
from engine.sequence import FinishReason, Request
from tests.engine.support import (
    CONFIG,
    MAX_BLOCKS,
    MAX_POSITIONS,
    Answer,
    Definition,
    Observed,
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
