from __future__ import annotations

import numpy as np
import pytest

from he_chain.backends.mock import MockEvaluator, MockHolder
from he_chain.errors import LevelError, PlanError, RangeError
from he_chain.parameters import Parameters
from he_chain.polynomial.slot_product import SlotProduct, rotate_babies

RING = Parameters(ring_degree=128, num_levels=2, scale_bits=40, first_bits=60, special_bits=60)
SLOTS = RING.num_slots


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    holder = MockHolder.create(RING)
    holder.write_evaluation_keys(folder, range(1, SLOTS))
    return holder, MockEvaluator.open(folder)


def apply(sides, product, values, matrix, level=1, mask=None):
    holder, evaluator = sides
    x = evaluator.load(holder.encrypt(values))
    rotated = rotate_babies(evaluator, x, product.used_babies)
    wide = product.apply(evaluator, rotated, matrix, level, 2.0**40, mask)
    result = evaluator.rescale(wide)
    assert (result.level, result.scale) == (level, 2.0**40)
    return holder.decrypt(evaluator.dump(result))


@pytest.mark.parametrize("seed", range(4))
def test_any_arrangement_of_rows_and_columns(sides, seed):
    rng = np.random.default_rng(seed)
    columns = np.full(SLOTS, -1)
    columns[rng.permutation(SLOTS)[:11]] = np.arange(11)
    rows = rng.integers(-1, 7, SLOTS)
    product = SlotProduct(columns, rows, range(8), range(0, SLOTS, 8))
    matrix, x = rng.standard_normal((7, 11)), rng.standard_normal(11)
    values = np.where(columns >= 0, x[columns], rng.standard_normal(SLOTS))
    found = apply(sides, product, values, matrix)
    wanted = np.where(rows >= 0, (matrix @ x)[rows], 0.0)
    assert np.abs(found - wanted).max() < 2.0**-20


def test_repeated_columns_are_read_once(sides):
    rng = np.random.default_rng(9)
    columns, rows = np.arange(SLOTS) % 8, np.arange(SLOTS) % 4
    product = SlotProduct(columns, rows, range(4), (0, 4))
    assert product.num_diagonals == 8
    assert product.rotations == {1, 2, 3, 4}
    matrix, x = rng.standard_normal((4, 8)), rng.standard_normal(8)
    found = apply(sides, product, x[columns], matrix)
    assert np.abs(found - (matrix @ x)[rows]).max() < 2.0**-20


def test_slots_of_a_group_share_the_columns(sides):
    """Sixteen columns in eight diagonals: two slots of a row do half each."""
    rng = np.random.default_rng(10)
    slot = np.arange(SLOTS)
    columns = np.where(slot < 16, slot, -1)
    rows = np.where(slot < 16, slot % 8, -1)
    groups = np.where(rows >= 0, rows, 8)
    around = list(range(-7, 9))
    product = SlotProduct(columns, rows, around, (0,), groups)
    matrix, x = rng.standard_normal((8, 16)), rng.standard_normal(16)
    values = np.zeros(SLOTS)
    values[:16] = x
    found = apply(sides, product, values, matrix)
    assert np.abs(found[:8] + found[8:16] - matrix @ x).max() < 2.0**-20


def test_a_mask_acts_on_the_result(sides):
    rng = np.random.default_rng(11)
    columns, rows = np.arange(SLOTS) % 8, np.arange(SLOTS) % 8
    product = SlotProduct(columns, rows, range(8), (0,))
    matrix, x = rng.standard_normal((8, 8)), rng.standard_normal(8)
    mask = (np.arange(SLOTS) >= 32) * 1.0
    found = apply(sides, product, x[columns], matrix, mask=mask)
    assert np.abs(found - (matrix @ x)[rows] * mask).max() < 2.0**-20


def test_a_sparse_matrix_skips_its_zero_diagonals(sides):
    columns, rows = np.arange(SLOTS) % 8, np.arange(SLOTS) % 8
    product = SlotProduct(columns, rows, range(4), (0, 4))
    before = sides[1].counts["ct_pt"]
    found = apply(sides, product, np.arange(SLOTS) % 8 * 1.0, np.eye(8))
    assert sides[1].counts["ct_pt"] == before + 1
    assert np.abs(found - rows).max() < 2.0**-18


def test_missing_entries_are_noticed():
    columns, rows = np.arange(SLOTS) % 8, np.arange(SLOTS) % 8
    with pytest.raises(PlanError, match="a product of 64 x 8 misses 64 entries"):
        SlotProduct(columns, rows, range(7), (0,))


def test_a_matrix_of_zeros_would_hide_nothing(sides):
    columns, rows = np.arange(SLOTS) % 8, np.arange(SLOTS) % 8
    product = SlotProduct(columns, rows, range(8), (0,))
    with pytest.raises(RangeError, match="zeros"):
        apply(sides, product, np.ones(SLOTS), np.zeros((8, 8)))


def test_an_input_at_the_level_of_the_result_is_refused(sides):
    columns, rows = np.arange(SLOTS) % 8, np.arange(SLOTS) % 8
    product = SlotProduct(columns, rows, range(8), (0,))
    with pytest.raises(LevelError, match="a matrix product at level 2"):
        apply(sides, product, np.ones(SLOTS), np.eye(8), level=2)
