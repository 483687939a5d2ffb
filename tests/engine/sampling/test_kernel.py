"""The kernel gives what the definition gives, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EngineError, NonFiniteError, SamplingError
from engine.sampling.parameters import ONE, SamplingParameters
from engine.sampling.reference import ReferenceSampler
from engine.sampling.sampler import Sampler, Workspace
from tests.engine.sampling.support import F32s, logits, parameters, pinned_logits

POSITIONS = st.integers(0, 2**64 - 1)


def outcome(sampler: Sampler | ReferenceSampler, *arguments) -> object:
    """Return the choice, or the type of the error."""
    try:
        return sampler.sample(*arguments)
    except EngineError as error:
        return type(error)


def check(values: F32s, settings_: SamplingParameters, *arguments) -> None:
    size = len(values)
    expected = outcome(ReferenceSampler(settings_, size), values, *arguments)
    assert outcome(Sampler(settings_, size), values, *arguments) == expected


@settings(max_examples=400)
@given(st.data(), logits, POSITIONS)
def test_kernel_equals_reference(data, values: F32s, position: int) -> None:
    size = len(values)
    earlier = st.lists(st.integers(0, size - 1), max_size=12)
    mask = data.draw(st.one_of(st.none(), st.lists(st.booleans(), min_size=size, max_size=size)))
    check(
        values,
        data.draw(parameters(size)),
        data.draw(earlier),
        data.draw(earlier),
        position,
        None if mask is None else np.array(mask, dtype=np.bool_),
    )


@settings(max_examples=60)
@given(st.data(), st.integers(1, 3000), st.integers(0, 3), POSITIONS)
def test_kernel_equals_reference_on_larger_vocabularies(data, size, key, position) -> None:
    check(pinned_logits(size, key), data.draw(parameters(size)), [1 % size], [0, 0], position)


PLAIN = SamplingParameters(
    temperature_millionths=800_000, top_p_millionths=950_000, seed=11, logprobs=4
)
SHAPES = {
    "spread": lambda size: pinned_logits(size, 5),
    "peaked": lambda size: pinned_logits(size, 6) * np.float32(4),
    "equal": lambda size: np.full(size, -7.25, dtype=np.float32),
    "narrow": lambda size: pinned_logits(size, 7) * np.float32(1e-3),
    "two values": lambda size: np.where(pinned_logits(size, 8) > 0, 1, 1 + 2**-23).astype("f4"),
    "both zeros": lambda size: np.where(pinned_logits(size, 8) > 0, 0.0, -0.0).astype("f4"),
}


@pytest.mark.parametrize("size", [49_152, 151_936, 50_257])
@pytest.mark.parametrize("shape", SHAPES)
def test_kernel_equals_reference_on_real_sizes(size: int, shape: str) -> None:
    values = SHAPES[shape](size)
    for top_k, min_p in ((0, 0), (40, 0), (size - 1, 50_000), (0, 1)):
        chosen = SamplingParameters(
            temperature_millionths=800_000,
            top_p_millionths=950_000,
            top_k=top_k,
            min_p_millionths=min_p,
            seed=11,
            logprobs=4,
        )
        for position in range(2):
            check(values, chosen, [], [], position)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 1, 31, 32, 63, 64, 69])
def test_a_logit_that_is_not_finite_is_found_anywhere(bad: float, at: int) -> None:
    values = pinned_logits(70, 1)
    values[at] = bad
    with pytest.raises(NonFiniteError):
        Sampler(PLAIN, 70).sample(values, [], [], 0)


def test_a_mask_that_excludes_everything_is_an_error() -> None:
    with pytest.raises(SamplingError):
        Sampler(PLAIN, 9).sample(pinned_logits(9, 1), [], [], 0, np.zeros(9, dtype=np.bool_))


def test_samplers_share_a_workspace_without_a_trace() -> None:
    size, values = 300, pinned_logits(300, 2)
    penalised = SamplingParameters(
        repetition_penalty_millionths=2 * ONE, presence_penalty_millionths=ONE, top_k=5, seed=3
    )
    space = Workspace(size)
    shared = [Sampler(PLAIN, size, space), Sampler(penalised, size, space)]
    mask = pinned_logits(size, 3) > 0
    for position in range(20):
        for sampler in shared:
            alone = Sampler(sampler.parameters, size)
            arguments = (values, [1, 2, 3], [4, 4], position, mask if position % 3 == 0 else None)
            assert sampler.sample(*arguments) == alone.sample(*arguments)
    with pytest.raises(SamplingError):
        Sampler(PLAIN, size + 1, space)


def test_arguments_are_left_alone_and_need_not_be_writable_or_contiguous() -> None:
    wide = pinned_logits(200, 4)
    values = wide[::2]
    frozen = values.copy()
    frozen.flags.writeable = False
    mask = np.ones(100, dtype=np.bool_)
    mask.flags.writeable = False
    sampler = Sampler(PLAIN, 100)
    before = wide.tobytes()
    assert sampler.sample(values, [], [], 3, mask) == sampler.sample(frozen, (), (), 3)
    assert wide.tobytes() == before
