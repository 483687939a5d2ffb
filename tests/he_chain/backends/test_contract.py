"""What base.py promises, for the imitation and for SEAL alike."""

from __future__ import annotations

import numpy as np
import pytest

from he_chain.errors import BackendError, LevelError, RangeError, ScaleError
from tests.he_chain.backends.conftest import make_pair

CLOSE = 2e-6
"""A rotation adds up to this in slot 0 (he_chain/noise.py)."""


def near(found, wanted) -> bool:
    return float(np.max(np.abs(found - wanted))) < CLOSE


def test_fresh_values_come_back(pair, values) -> None:
    x = pair.give(values)
    assert (x.level, x.scale) == (2, pair.scale)
    assert near(pair.take(x), values)


def test_a_fresh_ciphertext_may_be_at_any_level(pair, values) -> None:
    for level in range(3):
        x = pair.give(values, level)
        assert x.level == level
        assert near(pair.take(x), values)


def test_the_public_key_encrypts(pair, values) -> None:
    x = pair.evaluator.encrypt(values, 1)
    assert (x.level, x.scale) == (1, pair.scale)
    assert near(pair.take(x), values)


def test_sums(pair, values, others) -> None:
    ev = pair.evaluator
    x, y = pair.give(values), pair.give(others, 1)
    plain = ev.encode(others, 2, pair.scale)
    assert ev.add(x, y).level == 1
    assert near(pair.take(ev.add(x, y)), values + others)
    assert near(pair.take(ev.add(y, x)), values + others)
    assert near(pair.take(ev.sub(x, y)), values - others)
    assert near(pair.take(ev.sub(y, x)), others - values)
    assert near(pair.take(ev.add_plain(x, plain)), values + others)
    assert near(pair.take(ev.sub_plain(x, plain)), values - others)
    assert ev.sub_plain(x, plain).level == 2


def test_products_keep_the_exact_scale(pair, values, others) -> None:
    ev = pair.evaluator
    x, y = pair.give(values), pair.give(others, 1)
    prime = float(ev.primes[2])
    product = ev.mul_plain(x, ev.encode(others, 2, prime))
    assert product.scale == pair.scale * prime
    rescaled = ev.rescale(product)
    assert (rescaled.level, rescaled.scale) == (1, pair.scale)
    assert near(pair.take(rescaled), values * others)
    product = ev.mul(x, y)
    assert (product.level, product.scale) == (1, pair.scale**2)
    assert near(pair.take(product), values * others)
    rescaled = ev.rescale(product)
    assert (rescaled.level, rescaled.scale) == (0, pair.scale**2 / ev.primes[1])
    assert near(pair.take(rescaled), values * others)
    assert near(pair.take(ev.rescale(ev.mul(x, x))), values**2)


@pytest.mark.parametrize("steps", [1, 5, 64, -3, 4093, 0, 4096])
def test_rotations_move_to_the_left(pair, values, steps) -> None:
    x = pair.give(values)
    rotated = pair.evaluator.rotate(x, steps)
    assert (rotated.level, rotated.scale) == (x.level, x.scale)
    assert near(pair.take(rotated), np.roll(values, -steps))


def test_one_value_for_all_slots(pair, values) -> None:
    ev = pair.evaluator
    x = pair.give(values)
    assert near(pair.take(ev.add_plain(x, ev.encode(0.75, 2, pair.scale))), values + 0.75)
    tripled = ev.rescale(ev.mul_plain(x, ev.encode(3.0, 2, float(ev.primes[2]))))
    assert near(pair.take(tripled), 3 * values)


def test_lower_levels_have_the_same_values(pair, values) -> None:
    x = pair.give(values)
    for level in range(3):
        lower = pair.evaluator.to_level(x, level)
        assert (lower.level, lower.scale) == (level, x.scale)
        assert near(pair.take(lower), values)


def test_operands_are_not_changed(pair, values, others) -> None:
    """TenSEAL's issue 354: a product wrote over its operands."""
    ev = pair.evaluator
    x, y, low = pair.give(values), pair.give(others), pair.give(others, 1)
    plain = ev.encode(others, 2, pair.scale)
    copies = [ev.dump(c) for c in (x, y, low)]
    for run in (
        lambda: ev.add(x, y),
        lambda: ev.sub(x, low),
        lambda: ev.add(low, x),
        lambda: ev.add_plain(x, plain),
        lambda: ev.sub_plain(x, plain),
        lambda: ev.mul_plain(x, plain),
        lambda: ev.mul(x, y),
        lambda: ev.mul(x, low),
        lambda: ev.mul(x, x),
        lambda: ev.rescale(x),
        lambda: ev.to_level(x, 0),
        lambda: ev.rotate(x, 5),
        lambda: ev.rotate(x, 0),
    ):
        run()
        assert [ev.dump(c) for c in (x, y, low)] == copies
        assert (plain.level, plain.scale) == (2, pair.scale)
    assert near(pair.take(ev.add_plain(x, plain)), values + others)


def test_scales_that_differ_by_rounding_are_equal(pair, values, others) -> None:
    ev = pair.evaluator
    x = pair.give(values)
    y = ev.mul_plain(pair.give(others), ev.encode(1.0, 2, float(ev.primes[2]) * (1 + 2**-50)))
    y = ev.rescale(y)
    assert y.scale != x.scale
    before = ev.dump(y)
    for first, second, wanted in ((x, y, values - others), (y, x, others - values)):
        difference = ev.sub(first, second)
        assert difference.scale == first.scale
        assert near(pair.take(difference), wanted)
    plain = ev.encode(others, 1, pair.scale)
    assert ev.add_plain(y, plain).scale == y.scale
    assert near(pair.take(ev.add_plain(y, plain)), 2 * others)
    assert ev.dump(y) == before


def test_scales_that_differ_are_refused(pair, values) -> None:
    ev = pair.evaluator
    x = pair.give(values)
    off = ev.mul_plain(x, ev.encode(1.0, 2, float(ev.primes[2]) * (1 + 2**-30)))
    off = ev.rescale(off)
    plain = ev.encode(1.0, 1, off.scale)
    low = ev.to_level(x, 1)
    for run in (
        lambda: ev.add(x, off),
        lambda: ev.sub(off, x),
        lambda: ev.add_plain(low, plain),
        lambda: ev.sub_plain(low, plain),
        lambda: ev.add(x, ev.mul(x, x)),
    ):
        with pytest.raises(ScaleError, match="not equal"):
            run()


def test_levels_that_are_not_there_are_refused(pair, values) -> None:
    ev = pair.evaluator
    x, low = pair.give(values), pair.give(values, 0)
    refusals = {
        "rescale": lambda: ev.rescale(low),
        "to_level": lambda: ev.to_level(low, 1),
        "to_level: level -1": lambda: ev.to_level(x, -1),
        "encode": lambda: ev.encode(1.0, 3, pair.scale),
        "mul: scale": lambda: ev.mul(low, x),
        "mul_plain: scale": lambda: ev.mul_plain(low, ev.encode(1.0, 0, pair.scale)),
        "mul_plain: the plain": lambda: ev.mul_plain(low, ev.encode(1.0, 1, pair.scale)),
        "add_plain": lambda: ev.add_plain(x, ev.encode(1.0, 1, pair.scale)),
        "to_level: scale": lambda: ev.to_level(ev.mul(x, x), 0),
        "encode: scale": lambda: ev.encode(0.0, 0, 2.0**60),
        "encrypt": lambda: pair.holder.encrypt(values, 3),
    }
    for operation, run in refusals.items():
        with pytest.raises(LevelError, match=f"^{operation}"):
            run()


def test_a_rotation_without_its_key_is_refused(pair, values) -> None:
    x = pair.give(values)
    assert pair.evaluator.rotations == {1, 5, 64, 4093}
    for steps in (2, -1, 3):
        with pytest.raises(BackendError, match=f"no key for {steps} steps"):
            pair.evaluator.rotate(x, steps)


@pytest.mark.parametrize("zero", [0.0, 1e-20, np.zeros(4096), np.full(4096, 1e-20)])
def test_a_product_with_zero_is_refused(pair, values, zero) -> None:
    ev = pair.evaluator
    with pytest.raises(RangeError, match="zero"):
        ev.mul_plain(pair.give(values), ev.encode(zero, 2, pair.scale))


def test_a_sum_that_would_hide_nothing_is_refused(pair, values) -> None:
    ev = pair.evaluator
    x = pair.give(values)
    prime = float(ev.primes[2])
    product = ev.rescale(ev.mul_plain(x, ev.encode(values, 2, prime)))
    again = ev.rescale(ev.mul_plain(x, ev.encode(values, 2, prime)))
    shifted = ev.add_plain(x, ev.encode(0.5, 2, pair.scale))
    for first, second in (
        (x, x),
        (x, ev.to_level(x, 1)),
        (shifted, x),
        (product, again),
        (ev.rotate(x, 1), ev.rotate(x, 1)),
        (ev.add(x, product), ev.add(product, x)),
        (x, ev.load(ev.dump(x))),
    ):
        with pytest.raises(RangeError, match="nothing"):
            ev.sub(first, second)
    assert near(pair.take(ev.sub(x, pair.give(values))), 0 * values)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300, 2.0**98.1, -(2.0**100)])
def test_values_that_cannot_be_are_refused(pair, bad) -> None:
    values = np.zeros(4096)
    values[77] = bad
    for run in (
        lambda: pair.holder.encrypt(values),
        lambda: pair.evaluator.encrypt(values),
        lambda: pair.evaluator.encode(values, 2, pair.scale),
        lambda: pair.evaluator.encode(bad, 2, pair.scale),
    ):
        with pytest.raises(RangeError):
            run()


@pytest.mark.parametrize(("level", "bits"), [(0, 18), (1, 58), (2, 98)])
def test_the_largest_value_of_a_level(pair, level, bits) -> None:
    fits = np.full(4096, 2.0**bits)
    found = pair.holder.decrypt(pair.holder.encrypt(fits, level))
    assert np.allclose(found, fits, rtol=1e-8)
    with pytest.raises(RangeError, match=f"does not fit level {level}"):
        pair.holder.encrypt(fits * 1.001, level)


@pytest.mark.parametrize("scale", [0.0, -1.0, 0.5, np.nan, np.inf])
def test_a_scale_that_is_none_is_refused(pair, scale) -> None:
    with pytest.raises(ScaleError, match="no scale"):
        pair.evaluator.encode(1.0, 2, scale)


@pytest.mark.parametrize("shape", [(0,), (4095,), (4097,), (8192,), (1, 4096)])
def test_other_numbers_of_values_are_refused(pair, shape) -> None:
    with pytest.raises(RangeError, match="slots"):
        pair.holder.encrypt(np.ones(shape))
    with pytest.raises(RangeError, match="slots"):
        pair.evaluator.encode(np.ones(shape), 2, pair.scale)


def test_beyond_half_the_modulus_values_wrap_around(pair) -> None:
    """Silently, as SEAL's issue 566 has it: whoever decrypts must know the range."""
    ev = pair.evaluator
    x = pair.give(np.full(4096, 2.0**18), 0)
    doubled = ev.add(x, x)
    within = ev.sub(doubled, x)
    more = ev.add(doubled, x)
    assert np.allclose(pair.take(within), 2.0**18)
    assert np.allclose(pair.take(more), 3 * 2.0**18 - ev.primes[0] / pair.scale)


def test_another_key_gives_garbage_and_no_error(pair, values, tmp_path) -> None:
    """Nobody can tell here; who decrypts must compare something that it knows."""
    stranger = make_pair(pair.name, pair.parameters, tmp_path / "evaluator")
    x = pair.give(values)
    garbage = [
        stranger.take(x),
        pair.take(stranger.evaluator.rotate(x, 1)),
        pair.take(stranger.evaluator.mul(x, x)),
        pair.take(pair.evaluator.add(x, stranger.give(values))),
    ]
    for found in garbage:
        assert np.median(np.abs(found)) > 1e6


def test_operations_are_counted(pair, values) -> None:
    ev = pair.evaluator
    ev.counts.clear()
    pair.holder.counts.clear()
    x = pair.give(values)
    plain = ev.encode(values, 2, pair.scale)
    ev.rescale(ev.mul_plain(ev.rotate(ev.rotate(x, 1), 0), plain))
    pair.take(ev.add(ev.mul(x, x), ev.mul(x, x)))
    assert ev.counts == {"encodes": 1, "rotations": 1, "ct_pt": 1, "ct_ct": 2, "rescales": 1}
    assert pair.holder.counts == {"encrypts": 1, "decrypts": 1}


def test_objects_of_another_backend_are_refused(pair, values, tmp_path) -> None:
    name = {"mock": "seal", "seal": "mock"}[pair.name]
    foreign = make_pair(name, pair.parameters, tmp_path / "evaluator")
    x, y = pair.give(values), foreign.give(values)
    plain = foreign.evaluator.encode(1.0, 2, pair.scale)
    ev = pair.evaluator
    for run in (
        lambda: ev.add(x, y),
        lambda: ev.add(y, x),
        lambda: ev.mul(x, y),
        lambda: ev.rotate(y, 1),
        lambda: ev.dump(y),
        lambda: ev.add_plain(x, plain),
        lambda: ev.mul_plain(x, plain),
    ):
        with pytest.raises(BackendError, match="is no"):
            run()


def test_smaller_rings(other_pair) -> None:
    values = np.random.default_rng(3).uniform(-1, 1, 2048)
    ev = other_pair.evaluator
    x = other_pair.give(values)
    squared = ev.rescale(ev.mul(x, x))
    assert squared.level == 0
    assert np.max(np.abs(other_pair.take(squared) - values**2)) < 1e-4
    assert np.max(np.abs(other_pair.take(ev.rotate(x, 5)) - np.roll(values, -5))) < 1e-2
