from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from he_chain.backends.mock import MockEvaluator, MockHolder
from he_chain.backends.seal import SealEvaluator, SealHolder
from he_chain.errors import HeChainError, LevelError, PlanError, RangeError
from he_chain.planning.plan import RefreshPlan, plan_refresh
from he_chain.polynomial.design import LayerDesign, design_layer
from he_chain.polynomial.layer import PolynomialLayer
from he_chain.polynomial.ranges import observe
from he_chain.polynomial.steps import block_of
from he_chain.refresh import Refresher, RefreshHolder
from tests.he_chain.polynomial_model import (
    CHOSEN,
    SMALL_RING,
    Layer,
    bits_of,
    make_layer,
    mock_pair,
)

if TYPE_CHECKING:
    from pathlib import Path

    from he_chain.backends.base import Ciphertext, Values
    from he_chain.parameters import Parameters

BLIND_BITS = 30


class Chain:
    """A layer with a key holder behind a function call."""

    def __init__(
        self,
        layer: Layer,
        design: LayerDesign,
        plan: RefreshPlan,
        holder: MockHolder | SealHolder,
        evaluator: MockEvaluator | SealEvaluator,
    ) -> None:
        self.design, self.plan, self.holder, self.evaluator = design, plan, holder, evaluator
        self.seen: dict[str, list[tuple[Ciphertext, int]]] = {}
        answer = RefreshHolder(holder, plan.blind_bits).answer
        self.refresher = Refresher(evaluator, answer, plan.blind_bits)
        self.layer = PolynomialLayer(
            evaluator, design, layer.weights, plan.steps, self.refresher, self._watch
        )

    def run(self, x: Values) -> Values:
        spread = self.design.grid.spread(x * self.design.norm1.factor)
        fresh = self.evaluator.load(self.holder.encrypt(spread, self.plan.entry_level))
        after = self.refresher.refresh(
            self.layer.run(fresh),
            name="x2",
            bound=block_of(self.design).bounds["x2"],
            level=self.plan.output.to_level,
        )
        slots = self.holder.decrypt(self.evaluator.dump(after))
        return self.design.grid.gather(slots, x.size) / self.design.output_factor

    def _watch(self, name: str, value: Ciphertext) -> None:
        self.seen.setdefault(name, []).append((value, value.level))


@cache
def plan_of(layer: Layer, parameters: Parameters) -> tuple[LayerDesign, RefreshPlan]:
    design = design_layer(layer.config, parameters, layer.ranges)
    return design, plan_refresh(design, parameters, blind_bits=BLIND_BITS, backend="mock")


def mock_chain(layer: Layer, folder: Path, parameters: Parameters = SMALL_RING) -> Chain:
    design, plan = plan_of(layer, parameters)
    holder, evaluator = mock_pair(parameters, design.rotations, folder)
    return Chain(layer, design, plan, holder, evaluator)


def exact(layer: Layer, x: Values, squarings: int = 0) -> Values:
    return observe(layer.weights, layer.config, x, squarings)[1]


@pytest.mark.parametrize(
    ("squarings", "bias", "shape"),
    [
        (0, False, {}),
        (1, False, {}),
        (0, True, {}),
        # a feed-forward layer without a fold over positions, heads that fill their room
        (0, False, {"num_heads": 8, "num_kv_heads": 2, "head_dim": 8, "intermediate_size": 30}),
        # room for more heads than there are
        (0, False, {"num_heads": 3, "num_kv_heads": 1, "hidden_size": 48}),
    ],
)
def test_a_layer_agrees_with_the_exact_one(tmp_path, squarings, bias, shape):
    layer = make_layer(squarings=squarings, bias=bias, **shape)
    chain = mock_chain(layer, tmp_path)
    x = layer.inputs(2, seed=77)
    wanted = exact(layer, x, squarings)
    for position in range(2):
        assert bits_of(chain.run(x[position]), wanted[position]) > 12
    assert chain.layer.num_cached == 2


def test_levels_are_the_planned_ones_and_refreshes_too(tmp_path):
    layer = make_layer()
    chain = mock_chain(layer, tmp_path)
    chain.run(layer.inputs(1, seed=3)[0])
    outputs = {step.name: step.output for step in block_of(chain.design).steps}
    for step in chain.plan.steps:
        assert [level for _, level in chain.seen[outputs[step.name]]] == [step.level]
    done = [(e.name, e.at_level, e.to_level) for e in chain.refresher.entries]
    assert done == [(r.value, r.at_level, r.to_level) for r in chain.plan.refreshes]
    assert chain.layer.num_cached == 1


def test_values_stay_within_the_plan_s_bounds(tmp_path):
    layer = make_layer()
    chain = mock_chain(layer, tmp_path)
    bounds = block_of(chain.design).bounds
    for x in layer.inputs(2, seed=4):
        chain.run(x)
    for name, values in chain.seen.items():
        for value, _ in values:
            slots = chain.holder.decrypt(chain.evaluator.dump(value))
            assert np.abs(slots).max() <= bounds[name] * 1.001, name


def test_public_tokens_are_attended_to(tmp_path):
    layer = make_layer()
    chain = mock_chain(layer, tmp_path)
    x = layer.inputs(3, seed=9)
    wanted = exact(layer, x)
    chain.layer.add_public(x[0])
    assert bits_of(chain.run(x[1]), wanted[1]) > 12
    with pytest.raises(PlanError, match="public tokens come before"):
        chain.layer.add_public(x[0])


def test_another_public_token_gives_another_result(tmp_path):
    layer = make_layer()
    chain = mock_chain(layer, tmp_path)
    x = layer.inputs(3, seed=9)
    chain.layer.add_public(x[2])
    assert bits_of(chain.run(x[1]), exact(layer, x)[1]) < 8


def test_a_cache_can_be_put_back(tmp_path):
    layer = make_layer()
    chain = mock_chain(layer, tmp_path)
    x = layer.inputs(2, seed=14)
    chain.run(x[0])
    kept = {name: chain.evaluator.dump(value) for name, value in chain.layer.cache.items()}
    other = Chain(layer, chain.design, chain.plan, chain.holder, chain.evaluator)
    other.layer.restore({name: chain.evaluator.load(data) for name, data in kept.items()}, 1)
    assert bits_of(other.run(x[1]), exact(layer, x)[1]) > 12
    with pytest.raises(PlanError, match="a cache of"):
        other.layer.restore({}, 1)
    with pytest.raises(PlanError, match="for 17 positions"):
        other.layer.restore(chain.layer.cache, 17)


def test_a_full_cache_is_refused(tmp_path):
    layer = make_layer()
    chain = mock_chain(layer, tmp_path)
    for x in layer.inputs(chain.design.grid.positions, seed=1):
        chain.layer.add_public(x)
    with pytest.raises(PlanError, match="the cache has room for 16 positions"):
        chain.run(layer.inputs(1, seed=2)[0])


@pytest.mark.parametrize("factor", [6.0, 1e3])
def test_a_range_outlier_does_not_pass(tmp_path, factor):
    """Mean squares out of range: the polynomial leaves its values, and the holder sees them."""
    layer = make_layer()
    chain = mock_chain(layer, tmp_path)
    x = layer.inputs(1, seed=6) * factor
    with pytest.raises(RangeError):
        chain.run(x[0])


def test_a_mild_outlier_fails_the_precision_gate(tmp_path):
    layer = make_layer()
    chain = mock_chain(layer, tmp_path)
    x = layer.inputs(1, seed=6)
    x *= np.sqrt(1.2 * layer.ranges.square1[1] / (x * x).mean())
    try:
        bits = bits_of(chain.run(x[0]), exact(layer, x)[0])
    except HeChainError:
        bits = -np.inf
    assert bits < 12


def test_stale_keys_give_another_result(tmp_path):
    layer = make_layer()
    x = layer.inputs(3, seed=8)
    chain = mock_chain(layer, tmp_path)
    chain.run(x[2])  # not the token that position 0 has
    assert bits_of(chain.run(x[1]), exact(layer, x)[1]) < 8


def test_a_plan_one_level_short_is_refused(tmp_path):
    layer = make_layer()
    design = design_layer(layer.config, SMALL_RING, layer.ranges)
    # the longest step by itself, without the level at which its result can be refreshed
    longest = max(step.levels for step in block_of(design).steps)
    short = replace(SMALL_RING, num_levels=longest)
    with pytest.raises(PlanError, match=r"takes \d levels of a chain"):
        plan_refresh(design, short, blind_bits=BLIND_BITS, backend="mock")
    plan_refresh(
        design, replace(short, num_levels=longest + 1), blind_bits=BLIND_BITS, backend="mock"
    )


def test_a_step_below_its_level_is_refused(tmp_path):
    layer = make_layer()
    chain = mock_chain(layer, tmp_path)
    x = chain.design.grid.spread(layer.inputs(1, seed=2)[0] * chain.design.norm1.factor)
    low = chain.evaluator.load(chain.holder.encrypt(x, chain.plan.entry_level - 1))
    with pytest.raises(LevelError, match="below"):
        chain.layer.run(low)


@pytest.mark.slow
@pytest.mark.ci
def test_a_real_layer_of_64_channels_on_ciphertexts(tmp_path):
    """At most 8 refreshed ciphertexts, at least 12 bits, 128 bits of security."""
    layer = make_layer()
    design = design_layer(layer.config, CHOSEN, layer.ranges)
    plan = plan_refresh(design, CHOSEN, blind_bits=BLIND_BITS, max_memory_bytes=1_500_000_000)
    assert len(plan.refreshes) <= 8
    holder = SealHolder.create(CHOSEN)
    holder.write_evaluation_keys(tmp_path, design.rotations)
    chain = Chain(layer, design, plan, holder, SealEvaluator.open(tmp_path))
    x = layer.inputs(2, seed=21)
    wanted = exact(layer, x)
    for position in range(2):
        assert bits_of(chain.run(x[position]), wanted[position]) > 12
    entries = chain.refresher.entries
    assert len(entries) == 2 * len(plan.refreshes)
    assert sum(e.bytes_up for e in entries) == pytest.approx(2 * plan.bytes_up, rel=0.05)
    assert sum(e.bytes_down for e in entries) == pytest.approx(2 * plan.bytes_down, rel=0.05)
