"""A replay is the generation, however it is cut, and refuses what it cannot compute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.audit.answered import Answered
from engine.audit.replay import replay
from engine.errors import ConfigError, NonFiniteError
from engine.forward import Engine
from engine.sampling.parameters import SamplingParameters
from engine.sequence import Request
from tests.engine.kernels.models import MemoryWeights
from tests.engine.support import Definition, bits, prompt

SAMPLINGS = (
    SamplingParameters(temperature_millionths=0),
    SamplingParameters(
        seed=3, temperature_millionths=1_300_000, frequency_penalty_millionths=900_000
    ),
)


def answer(definition: Definition, sampling: SamplingParameters, length: int = 70):
    """Return what the definition generates, as it is claimed, and its residuals."""
    request = Request(prompt(length), 30, sampling)
    made = definition.answer(request)
    return Answered(request.prompt_ids, tuple(made.ids), sampling), made


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_definitions_answer(
    engine: Engine, definition: Definition, sampling: SamplingParameters
) -> None:
    answered, made = answer(definition, sampling)
    columns: list[np.ndarray] = []
    done: list[tuple[int, int]] = []
    found = replay(
        engine,
        answered,
        observe=lambda first, states, leaves: columns.append(states),
        progress=lambda *numbers: done.append(numbers),
    )
    assert found.choices == answered.output_ids
    assert found.trace_root == made.trace_root(len(answered.ids))
    assert bits(np.concatenate(columns, axis=1)) == bits(made.residuals)
    assert done[-1] == (99, 99)
    # 48 rows and 8 logits at once are what the engine of these tests takes.
    assert max(states.shape[1] for states in columns) <= 48
    assert len(done) > 4


@pytest.mark.parametrize("index", [0, 13, 29])
def test_a_foreign_token_is_found_at_its_place(
    engine: Engine, definition: Definition, index: int
) -> None:
    answered, _ = answer(definition, SAMPLINGS[0])
    ids = list(answered.output_ids)
    ids[index] = (ids[index] + 1) % 96
    found = replay(engine, replace(answered, output_ids=tuple(ids)))
    assert found.choices[:index] == tuple(ids[:index])
    assert found.choices[index] == answered.output_ids[index]


def test_one_token_of_one(engine: Engine, definition: Definition) -> None:
    made = definition.answer(Request(prompt(1), 1, SAMPLINGS[1]))
    found = replay(engine, Answered(prompt(1), tuple(made.ids), SAMPLINGS[1]))
    assert found.choices == tuple(made.ids)
    assert found.trace_root == made.trace_root(1)


@pytest.mark.parametrize(
    "answered",
    [
        Answered((), (1,), SAMPLINGS[0]),
        Answered((1,), (), SAMPLINGS[0]),
        Answered((96,), (1,), SAMPLINGS[0]),
        Answered(prompt(190), prompt(5), SAMPLINGS[0]),
    ],
)
def test_what_cannot_be_replayed(engine: Engine, answered: Answered) -> None:
    with pytest.raises(ConfigError):
        replay(engine, answered)


def test_a_value_that_is_not_finite(small_weights: MemoryWeights) -> None:
    engine = Engine(small_weights, num_threads=1, max_positions=64)
    tensor = small_weights.find("final_norm")
    assert tensor is not None
    memory = small_weights._memory[tensor.base - 1].view(np.float32)
    kept = memory[3]
    memory[3] = np.float32("inf")
    try:
        with pytest.raises(NonFiniteError):
            replay(engine, Answered((1, 2), (3, 4), SAMPLINGS[0]))
        assert engine.blocks.num_free == engine.blocks.max_blocks
    finally:
        memory[3] = kept
        engine.close()
