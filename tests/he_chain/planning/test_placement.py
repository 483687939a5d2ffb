from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from he_chain.errors import LevelError, PlanError, RangeError
from he_chain.parameters import Parameters
from he_chain.planning.costs import Costs, OperationCost
from he_chain.planning.placement import Levels, place
from he_chain.planning.plan_step import Block, Operand, Step, depth

CHAIN = Parameters(ring_degree=16384, num_levels=5, scale_bits=40, first_bits=60, special_bits=60)
FREE = Costs(
    *[OperationCost(0.0)] * 6, round_seconds=0.0, ciphertext_seconds=1.0, bytes_per_second=1e30
)
"""What is refreshed is all that counts."""


def chain_of(levels: list[int], bound: float = 1.0) -> Block:
    steps = [
        Step(f"s{i}", (Operand(f"v{i}", n),), f"v{i + 1}", bound) for i, n in enumerate(levels)
    ]
    return Block("chain", (("v0", 1.0),), tuple(steps), f"v{len(levels)}")


def count(steps) -> int:
    return sum(len(step.refreshes) for step in steps)


def replay(block: Block, steps, inputs: dict[str, int], parameters: Parameters) -> None:
    """Follow a placement the way that a layer runs it."""
    have = dict(inputs)
    assert all(level <= parameters.num_levels for level in have.values())
    for step, planned in zip(block.steps, steps, strict=True):
        assert planned.name == step.name
        for refreshed in planned.refreshes:
            assert have[refreshed.value] >= refreshed.at_level >= 0
            assert refreshed.to_level <= parameters.num_levels
            have[refreshed.value] = refreshed.to_level
        for operand in step.operands:
            assert have[operand.value] - operand.levels >= planned.level >= 0
        have[step.output] = planned.level


def test_without_need_nothing_is_refreshed():
    block = chain_of([1, 2, 2])
    steps, inputs = place(block, CHAIN, FREE, 0)
    assert count(steps) == 0
    assert inputs == {"v0": 5}
    assert [step.level for step in steps] == [4, 2, 0]


def test_levels_are_as_low_as_the_rest_allows():
    steps, inputs = place(chain_of([1, 1]), CHAIN, FREE, 0)
    assert inputs == {"v0": 2}
    assert [step.level for step in steps] == [1, 0]


def test_blinding_that_needs_a_level_keeps_one():
    block = chain_of([2, 3])
    assert count(place(block, CHAIN, FREE, 17)[0]) == 0
    steps, inputs = place(block, CHAIN, FREE, 30)
    assert count(steps) == 1
    assert steps[1].refreshes[0].at_level == 1
    replay(block, steps, inputs, CHAIN)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=9))
def test_as_few_refreshes_as_trying_all_places_finds(levels):
    block = chain_of(levels)
    steps, inputs = place(block, CHAIN, FREE, 0)
    replay(block, steps, inputs, CHAIN)

    def works(places: tuple[int, ...]) -> bool:
        have = CHAIN.num_levels
        for i, n in enumerate(levels):
            have = CHAIN.num_levels - n if i in places else have - n
            if have < 0:
                return False
        return True

    fewest = next(
        k for k in range(len(levels) + 1) if any(map(works, combinations(range(len(levels)), k)))
    )
    assert count(steps) == fewest


def test_a_residual_beside_a_branch():
    """x waits at its level for what comes back; only the branch is refreshed."""
    steps = (
        Step("down", (Operand("x", 4),), "a", 1.0),
        Step("on", (Operand("a", 3),), "b", 1.0),
        Step("add", (Operand("b", 1), Operand("x", 1)), "y", 1.0),
    )
    block = Block("residual", (("x", 1.0),), steps, "y")
    placed, inputs = place(block, CHAIN, FREE, 0)
    assert [r.value for step in placed for r in step.refreshes] == ["a"]
    replay(block, placed, inputs, CHAIN)


def test_small_values_are_refreshed_rather_than_large_ones():
    steps = (
        Step("grow", (Operand("x", 2),), "large", 1000.0),
        Step("shrink", (Operand("large", 1),), "small", 1.0),
        Step("on", (Operand("small", 2),), "y", 1.0),
        Step("more", (Operand("y", 2),), "z", 1.0),
    )
    placed, _ = place(Block("b", (("x", 1.0),), steps, "z"), CHAIN, FREE, 0)
    assert [r.value for step in placed for r in step.refreshes] in (["small"], ["y"])


@pytest.mark.parametrize(("bound", "refreshes"), [(1.0, 0), (2.0**20, 1)])
def test_a_large_value_is_kept_above_the_last_level(bound, refreshes):
    steps = (
        Step("down", (Operand("x", 4),), "a", 1.0),
        Step("grow", (Operand("a", 1),), "large", bound),
        Step("shrink", (Operand("large", 0),), "y", 1.0),
    )
    block = Block("b", (("x", 1.0),), steps, "y")
    placed, inputs = place(block, CHAIN, FREE, 0)
    replay(block, placed, inputs, CHAIN)
    assert count(placed) == refreshes
    assert placed[1].level >= Levels(CHAIN, 0).holding("large", bound)


def test_a_step_one_level_too_deep_is_named():
    assert depth(chain_of([1, 6])) == 7
    with pytest.raises(LevelError, match="s1 takes 6 levels of a chain of 5"):
        place(chain_of([1, 6]), CHAIN, FREE, 0)
    with pytest.raises(LevelError, match=r"s1 takes 1 levels of a chain of 5, .* from level 1 on"):
        # s0 fits by itself, but leaves its result where it could not be blinded
        place(chain_of([5, 1]), CHAIN, FREE, 30)


def test_a_result_that_could_not_be_refreshed_is_refused():
    with pytest.raises(LevelError, match="v1: no level is left"):
        place(chain_of([5]), CHAIN, FREE, 30)


def test_values_that_fit_no_level_are_refused():
    with pytest.raises(RangeError, match=r"v1.*do not fit any level"):
        place(chain_of([1], bound=2.0**240), CHAIN, FREE, 0)


def test_where_values_fit():
    """Level 0 has 60 bits: 2^18 at a scale of 2^40 with two bits to spare does not fit."""
    levels = Levels(CHAIN, 17)
    assert levels.holding("x", 2.0**17.9) == 0
    assert levels.holding("x", 2.0**18.1) == 1
    assert levels.refreshing("x", 1.0) == 0
    assert levels.refreshing("x", 2.0**18) == 1
    assert Levels(CHAIN, 18).refreshing("x", 1.0) == 1


@pytest.mark.parametrize(
    ("steps", "output", "message"),
    [
        ([("a", "nothing", "b")], "b", "a reads nothing, which nothing made"),
        ([("a", "x", "x")], "x", "a makes x, which there is already"),
        ([("a", "x", "b")], "c", "block gives c, which nothing made"),
    ],
)
def test_blocks_that_cannot_be(steps, output, message):
    made = tuple(Step(n, (Operand(i, 1),), o, 1.0) for n, i, o in steps)
    with pytest.raises(PlanError, match=message):
        Block("block", (("x", 1.0),), made, output)
