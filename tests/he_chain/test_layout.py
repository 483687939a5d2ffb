"""Matrix products by diagonals: the arithmetic of slots, on numbers that are not encrypted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from he_chain.errors import PlanError, RangeError
from he_chain.layout import Product, choose_shape
from he_chain.parameters import Parameters
from he_chain.slot_sums import sum_blocks, sum_rotations

SLOTS = 256


@dataclass(frozen=True)
class Slots:
    """A ciphertext or plaintext that hides nothing."""

    values: np.ndarray
    level: int
    scale: float


class PlainSlots:
    """An `Evaluator` without encryption; only what products use."""

    def __init__(self, num_slots: int = SLOTS) -> None:
        self.parameters = Parameters(2 * num_slots, 2)
        self.primes = (2**60 - 93, 2**40 - 87, 2**40 - 15)
        self.counts: Counter[str] = Counter()
        self.rotated: set[int] = set()

    def encode(self, values, level, scale):
        self.counts["encodes"] += 1
        return Slots(np.broadcast_to(values, self.parameters.num_slots), level, scale)

    def add(self, x, y):
        assert (x.level, x.scale) == (y.level, y.scale)
        return replace(x, values=x.values + y.values)

    def mul_plain(self, x, y):
        assert x.level == y.level
        assert y.values.any()
        return Slots(x.values * y.values, x.level, x.scale * y.scale)

    def rescale(self, x):
        return Slots(x.values, x.level - 1, x.scale / self.primes[x.level])

    def rotate(self, x, steps):
        assert steps
        self.rotated.add(steps)
        return replace(x, values=np.roll(x.values, -steps))


def tiled(values, shape):
    return Slots(shape.spread(np.asarray(values)), 1, 2.0**40)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 150), st.integers(1, 150), st.integers(0, 2**32))
def test_a_product_is_that_of_numpy(rows, columns, seed):
    shape = choose_shape(rows, columns, SLOTS)
    random = np.random.default_rng(seed)
    matrix, x = random.standard_normal((rows, columns)), random.standard_normal(columns)
    ev = PlainSlots()
    results = Product(shape, matrix)(ev, tiled(x, shape))
    assert all((r.level, r.scale) == (0, 2.0**40) for r in results)
    y = np.concatenate([r.values[: shape.block_rows] for r in results])[:rows]
    np.testing.assert_allclose(y, matrix @ x, atol=1e-12)
    assert ev.rotated == shape.rotations
    assert shape.free_slots
    assert not any(np.any(r.values[list(shape.free_slots)]) for r in results)


def test_more_rows_than_slots_are_several_blocks_that_share_the_baby_steps():
    shape = choose_shape(1000, 48, SLOTS)
    assert shape.num_blocks > 4
    matrix, x = np.random.default_rng(1).standard_normal((1000, 48)), np.linspace(-1, 1, 48)
    ev = PlainSlots()
    product = Product(shape, matrix)
    encrypted = tiled(x, shape)
    babies = product.babies(ev, encrypted)
    results = product(ev, encrypted, babies)
    y = np.concatenate([r.values[: shape.block_rows] for r in results])[:1000]
    np.testing.assert_allclose(y, matrix @ x, atol=1e-12)


def test_two_products_of_one_input_share_its_rotations():
    ev = PlainSlots()
    shape = choose_shape(40, 36, SLOTS)
    random = np.random.default_rng(2)
    a, b, x = random.standard_normal((40, 36)), random.standard_normal((40, 36)), np.arange(36.0)
    first, second = Product(shape, a), Product(shape, b)
    babies = first.babies(ev, tiled(x, shape))
    np.testing.assert_allclose(first(ev, babies[0], babies)[0].values[:40], a @ x, atol=1e-10)
    np.testing.assert_allclose(second(ev, babies[0], babies)[0].values[:40], b @ x, atol=1e-10)
    with pytest.raises(PlanError, match="another product"):
        first(ev, babies[0], babies[1:])


def test_shapes_of_the_135m_model():
    expected = {
        (960, 576): (3, 192, 1),
        (576, 576): (6, 96, 1),
        (3072, 576): (1, 576, 1),
        (576, 1536): (4, 384, 1),
        (49_152, 576): (1, 576, 14),
    }
    for (rows, columns), wanted in expected.items():
        shape = choose_shape(rows, columns, 4096)
        assert (shape.copies, shape.diagonals, shape.num_blocks) == wanted


def test_zero_diagonals_are_not_encoded():
    ev = PlainSlots()
    shape = choose_shape(64, 64, SLOTS)
    y = Product(shape, 2 * np.eye(64))(ev, tiled(np.arange(64.0), shape))
    np.testing.assert_array_equal(y[0].values[:64], 2 * np.arange(64.0))
    assert ev.counts["encodes"] <= 2


def test_a_zero_matrix_is_refused():
    shape = choose_shape(4, 4, SLOTS)
    with pytest.raises(RangeError, match="all zero"):
        Product(shape, np.zeros((4, 4)))(PlainSlots(), tiled(np.ones(4), shape))


@pytest.mark.parametrize(("rows", "columns"), [(0, 4), (4, 0), (4, 300), (1, 257)])
def test_matrices_that_do_not_fit(rows, columns):
    with pytest.raises(PlanError):
        choose_shape(rows, columns, SLOTS)


def test_a_matrix_of_another_shape_is_refused():
    with pytest.raises(PlanError, match="not laid out"):
        Product(choose_shape(4, 5, SLOTS), np.ones((5, 4)))


@pytest.mark.parametrize("count", [4, 6])
def test_an_input_of_another_length_is_refused(count):
    with pytest.raises(PlanError, match="for 5 columns"):
        choose_shape(4, 5, SLOTS).spread(np.ones(count))


@given(st.integers(1, 40), st.integers(1, 6))
def test_sums_of_slots(count, stride):
    ev = PlainSlots()
    values = np.arange(float(SLOTS)) ** 2
    got = sum_blocks(ev, Slots(values, 0, 1.0), count, stride).values
    for t in range(SLOTS - count * stride):
        assert got[t] == sum(values[t + m * stride] for m in range(count))
    assert ev.rotated == sum_rotations(count, stride)
