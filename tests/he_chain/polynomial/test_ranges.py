from __future__ import annotations

import numpy as np
import pytest

from he_chain.errors import PlanError, RangeError
from he_chain.plaintext import PlainModel
from he_chain.polynomial.ranges import merge, observe
from tests.he_chain.models import model_config, write_model
from tests.he_chain.polynomial_model import make_layer


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    with PlainModel(write_model(tmp_path_factory.mktemp("model"), num_layers=2)) as found:
        yield found


def test_the_output_and_the_ranges_are_those_of_the_exact_forward(model):
    seen: dict[str, list[np.ndarray]] = {}

    def watch(layer: int, tensor: str, values: np.ndarray) -> None:
        if layer == 1:
            seen.setdefault(tensor, []).append(values)

    ids = [5, 17, 99, 3, 250]
    states = model.exact_forward(ids, watch=watch).residuals
    ranges, output = observe(model.layer(1), model.config, states[1], 0)
    assert np.abs(output - states[2]).max() < 1e-12
    for tensor, found in (("gate", ranges.gate), ("up", ranges.up), ("v", ranges.value)):
        assert found == pytest.approx(np.abs(seen[tensor][0]).max())
    assert ranges.score == pytest.approx(max(np.abs(s).max() for s in seen["scores"]))
    squares = (seen["xo"][0] ** 2).mean(axis=1)
    assert ranges.square2 == pytest.approx((squares.min(), squares.max()))
    assert 1 <= ranges.ratios[0][1] <= np.exp(2 * ranges.centred)


def test_positions_that_do_not_count():
    layer = make_layer()
    x = layer.inputs(5, seed=2)
    x[0] *= 100
    every, output = observe(layer.weights, layer.config, x, 1)
    later, same = observe(layer.weights, layer.config, x, 1, first=1)
    assert np.array_equal(output, same)
    assert every.square1[1] > 100 * later.square1[1]
    assert len(later.ratios) == 2


def test_merged_ranges_cover_both_and_widened_ones_more():
    layer = make_layer()
    a, b = (observe(layer.weights, layer.config, layer.inputs(6, s), 0)[0] for s in (1, 2))
    both = merge([a, b])
    assert both.square1 == (min(a.square1[0], b.square1[0]), max(a.square1[1], b.square1[1]))
    assert both.gate == max(a.gate, b.gate)
    wide = both.widened(0.5)
    assert wide.square2[0] < both.square2[0] < both.square2[1] < wide.square2[1]
    assert wide.up == 1.5 * both.up
    assert wide.ratios[0][0] < 1 < both.ratios[0][1] < wide.ratios[0][1]
    with pytest.raises(RangeError, match="margin"):
        both.widened(-0.1)


def test_one_position_has_no_spread_of_scores():
    layer = make_layer()
    found, _ = observe(layer.weights, layer.config, layer.inputs(1, 3), 0)
    assert found.centred == 0
    assert found.widened(0.1).centred > 0.2


def test_normed_queries_are_refused():
    layer = make_layer()
    with pytest.raises(PlanError, match="norms of queries"):
        observe(layer.weights, model_config("qwen3"), layer.inputs(1, 3), 0)
