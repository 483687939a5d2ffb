"""Slots of the encrypted cache, and numbers that tell whether it is the right one."""

from __future__ import annotations

import numpy as np
import pytest

from he_chain.canary import TOLERANCE, canary, check_canary
from he_chain.errors import PlanError, RangeError
from he_chain.packing import Packing
from tests.he_chain.models import model_config

CONFIG = model_config()
PACKING = Packing(CONFIG, 256)
RUN = bytes(16)


def test_attention_slot_by_slot():
    """Products of slots, summed over a head's dimensions and then over positions."""
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal((n, 16)) for n in (4, 6, 6))
    k, v = k.reshape(3, 32), v.reshape(3, 32)
    keys = sum(PACKING.placed(k[p], p, p + 1.0) for p in range(3))
    values = sum(PACKING.placed(v[p], p, 7.0) for p in range(3))
    product = PACKING.queries(q.ravel()) * keys
    summed = sum(np.roll(product, -i) for i in range(16))
    assert summed[PACKING.cache_canary] == 6.0
    scores = PACKING.scores(summed, 3)
    wanted = np.array([[q[h] @ k[p].reshape(2, 16)[h // 2] for p in range(3)] for h in range(4)])
    np.testing.assert_allclose(scores, wanted, atol=1e-12)
    mixed = PACKING.shares(scores) * values
    o = sum(np.roll(mixed, -64 * p) for p in range(3))[:64]
    wanted = [scores[h] @ v.reshape(3, 2, 16)[:, h // 2] for h in range(4)]
    np.testing.assert_allclose(o.reshape(4, 16), wanted, atol=1e-12)


def test_positions_and_blocks():
    assert PACKING.block_positions == 3
    assert [PACKING.block(p) for p in (0, 2, 3, 8)] == [0, 0, 1, 2]
    assert [PACKING.num_blocks(n) for n in (0, 1, 3, 4)] == [0, 1, 1, 2]
    fourth = PACKING.placed(np.ones(32), 3, 0.0)
    assert np.flatnonzero(fourth).tolist() == list(range(64))


def test_the_135m_model_fits():
    config = model_config(
        num_layers=30,
        hidden_size=576,
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        intermediate_size=1536,
        vocab_size=49_152,
    )
    packing = Packing(config, 4096)
    assert packing.block_positions == 7
    assert packing.cache_canary == 4032
    assert packing.residual_canary not in range(576)
    assert len(packing.rotations) < 110


def test_free_slots_are_free_of_rows():
    for shape in (PACKING.qkv, PACKING.glu, PACKING.head, PACKING.output, PACKING.down):
        assert PACKING.product_canary(shape) >= min(shape.rows, shape.block_rows)


@pytest.mark.parametrize("slots", [64, 72])
def test_a_ring_that_is_too_small(slots):
    with pytest.raises(PlanError):
        Packing(CONFIG, slots)


def test_a_canary_belongs_to_its_place():
    places = [(kind, p, layer) for kind in ("qkv", "norm") for p in range(9) for layer in range(9)]
    numbers = {canary(RUN, *place) for place in places}
    assert len(numbers) > 150
    assert all(1 <= number < 257 for number in numbers)
    assert canary(RUN, "qkv", 1, 2) == canary(RUN, "qkv", 1, 2)
    assert canary(bytes(15) + b"1", "qkv", 1, 2) != canary(RUN, "qkv", 1, 2)


@pytest.mark.parametrize("wrong", [2 * TOLERANCE, -1.0, 2.0**20, float("nan"), float("inf")])
def test_a_moved_canary_is_refused(wrong):
    check_canary(5.0 + TOLERANCE / 2, 5.0, "x")
    with pytest.raises(RangeError, match="canary of x"):
        check_canary(5.0 + wrong, 5.0, "x")
