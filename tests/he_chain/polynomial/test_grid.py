from __future__ import annotations

import numpy as np
import pytest

from he_chain.backends.mock import MockEvaluator, MockHolder
from he_chain.errors import PlanError
from he_chain.parameters import Parameters
from he_chain.polynomial.grid import Grid, make_grid, sum_up

RING = Parameters(ring_degree=1024, num_levels=1, scale_bits=40, first_bits=60, special_bits=60)
GRID = Grid(repeats=2, head_dim=8, positions=8, heads=4)


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    steps = {
        *GRID.channel_rotations(),
        *GRID.time_rotations(),
        *GRID.repeat_rotations(),
        *GRID.spread_rotations(),
    }
    holder = MockHolder.create(RING)
    holder.write_evaluation_keys(folder, steps)
    return holder, MockEvaluator.open(folder)


def summed(sides, values, rotations):
    holder, evaluator = sides
    x = evaluator.load(holder.encrypt(values))
    return holder.decrypt(evaluator.dump(sum_up(evaluator, x, rotations)))


def cube(values):
    return values.reshape(2, 8, 8, 4)


def test_sizes():
    assert (GRID.num_slots, GRID.period, GRID.block) == (512, 256, 32)


def test_the_index_counts_slots():
    r, j, t, h = GRID.index()
    assert np.array_equal(((r * 8 + j) * 8 + t) * 4 + h, np.arange(512))


def test_channels_repeat_over_positions():
    x = np.random.default_rng(0).standard_normal(30)
    slots = cube(GRID.spread(x))
    for c in range(30):
        assert (slots[:, c % 8, :, c // 8] == x[c]).all()
    assert (slots[:, 6:, :, 3] == 0).all()
    assert np.array_equal(GRID.gather(GRID.spread(x), 30), x)


def test_the_sum_over_channels_stands_in_every_slot(sides):
    x = np.random.default_rng(1).standard_normal(30)
    found = summed(sides, GRID.spread(x), GRID.channel_rotations())
    assert np.abs(found - x.sum()).max() < 2.0**-20


def test_the_sum_over_dimensions_of_what_differs_by_position(sides):
    values = np.random.default_rng(2).standard_normal((1, 8, 8, 4)).repeat(2, axis=0)
    found = cube(summed(sides, values.ravel(), GRID.dim_rotations()))
    assert np.abs(found - values.sum(axis=1, keepdims=True)).max() < 2.0**-20


def test_the_sum_over_positions_of_what_is_constant_over_dimensions(sides):
    values = np.random.default_rng(3).standard_normal((1, 1, 8, 4))
    every = np.broadcast_to(values, (2, 8, 8, 4))
    found = cube(summed(sides, every.ravel(), GRID.time_rotations()))
    assert np.abs(found - values.sum(axis=2, keepdims=True)).max() < 2.0**-20


def test_the_sum_over_positions_of_anything_stands_at_the_first(sides):
    values = np.random.default_rng(4).standard_normal((2, 8, 8, 4))
    found = cube(summed(sides, values.ravel(), GRID.time_rotations()))
    assert np.abs(found[:, :, 0] - values.sum(axis=2)).max() < 2.0**-20
    assert np.abs(found[:, :, 1] - values.sum(axis=2)).max() > 0.1


def test_copies_of_the_first_position(sides):
    values = np.zeros((2, 8, 8, 4))
    values[:, :, 0] = np.random.default_rng(5).standard_normal((2, 8, 4))
    found = cube(summed(sides, values.ravel(), GRID.spread_rotations()))
    assert np.abs(found - values[:, :, :1]).max() < 2.0**-20


def test_the_sum_over_repetitions(sides):
    values = np.random.default_rng(6).standard_normal((2, 8, 8, 4))
    found = cube(summed(sides, values.ravel(), GRID.repeat_rotations()))
    assert np.abs(found - values.sum(axis=0, keepdims=True)).max() < 2.0**-20


@pytest.mark.parametrize(("count", "times"), [(1, 1), (32, 1), (33, 2), (65, 4), (256, 8)])
def test_hidden_values_stand_once_in_the_lower_half(count, times):
    where = GRID.hidden(count)
    assert sorted(where[where >= 0]) == list(range(count))
    _, _, t, h = GRID.index()
    assert h[where >= 0].max() < 2
    assert t[where >= 0].max() < times == GRID.hidden_times(count)


def test_no_room_for_hidden_values():
    with pytest.raises(PlanError, match=r"257 values .*, there is room for 256"):
        GRID.hidden(257)


@pytest.mark.parametrize(
    ("slots", "head_dim", "heads", "channels", "wanted"),
    [
        (8192, 16, 4, 64, Grid(8, 16, 16, 4)),
        (8192, 8, 8, 64, Grid(8, 8, 16, 8)),
        (8192, 64, 9, 576, Grid(1, 64, 8, 16)),
        (8192, 128, 16, 2048, Grid(1, 128, 4, 16)),
        (1024, 16, 3, 48, Grid(1, 16, 16, 4)),
    ],
)
def test_grids_of_models(slots, head_dim, heads, channels, wanted):
    assert make_grid(slots, head_dim=head_dim, heads=heads, channels=channels) == wanted


def test_models_without_a_grid():
    with pytest.raises(PlanError, match="heads of 96 dimensions"):
        make_grid(8192, head_dim=96, heads=4, channels=384)
    with pytest.raises(PlanError, match="8192 slots do not hold 128 heads of 128"):
        make_grid(8192, head_dim=128, heads=128, channels=16384)
