from __future__ import annotations

import numpy as np
import pytest

from he_chain.backends.mock import MockEvaluator, MockHolder
from he_chain.errors import LevelError
from he_chain.parameters import Parameters
from he_chain.records.record import MAX_LEVELS
from he_chain.records.watched import Watched

RING = Parameters(64, 3)


@pytest.fixture
def sides(tmp_path):
    holder = MockHolder.create(RING)
    holder.write_evaluation_keys(tmp_path, [1])
    return holder, Watched(MockEvaluator.open(tmp_path))


def test_operations_are_timed_and_their_levels_are_kept(sides):
    holder, ev = sides
    values = np.linspace(-1, 1, RING.num_slots)
    x = ev.load(holder.encrypt(values))
    y = ev.rescale(ev.mul(x, x))
    y = ev.rescale(ev.mul_plain(y, ev.encode(2.0, y.level, float(ev.primes[y.level]))))
    y = ev.add_plain(ev.rotate(y, 1), ev.encode(1.0, y.level, y.scale))
    y = ev.to_level(ev.sub_plain(ev.sub(ev.add(y, y), y), ev.encode(1.0, 1, y.scale)), 0)
    seconds, levels = ev.take()
    assert np.allclose(holder.decrypt(ev.dump(y)), 2 * np.roll(values, -1) ** 2, atol=1e-4)
    assert set(seconds) == {"other", "ct_ct", "ct_pt", "rescales", "encodes", "rotations"}
    assert min(seconds.values()) > 0
    assert levels == ((3, 2), (2, 2), (1, 6), (0, 1))
    assert ev.counts["ct_ct"] == 1
    assert set(ev.take()[0]) == {"other"}
    assert ev.take() == ({}, ())


def test_what_is_refused_is_refused_and_leaves_no_level(sides):
    holder, ev = sides
    low = ev.load(holder.encrypt(np.ones(RING.num_slots), 0))
    ev.take()
    with pytest.raises(LevelError):
        ev.rescale(low)
    seconds, levels = ev.take()
    assert "rescales" in seconds
    assert levels == ()


def test_a_trace_stays_as_long_as_a_record_can_hold(sides):
    holder, ev = sides
    high, low = (ev.load(holder.encrypt(np.ones(RING.num_slots), level)) for level in (3, 2))
    for _ in range(MAX_LEVELS):
        ev.add(high, high)
        ev.add(low, low)
    assert len(ev.take()[1]) == MAX_LEVELS
