from __future__ import annotations

import numpy as np
import pytest

from he_chain.backends.mock import MockEvaluator, MockHolder
from he_chain.errors import PlanError, ProtocolError, RangeError
from he_chain.parameters import Parameters
from he_chain.refresh import MAX_BITS, Blinding, Refresher, RefreshHolder, uniform

CHAIN = Parameters(ring_degree=1024, num_levels=3, scale_bits=40, first_bits=60, special_bits=60)


@pytest.fixture
def sides(tmp_path):
    holder = MockHolder.create(CHAIN)
    holder.write_evaluation_keys(tmp_path, ())
    return holder, MockEvaluator.open(tmp_path)


def values(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, CHAIN.num_slots)


@pytest.mark.parametrize(("bits", "at", "to"), [(16, 0, 3), (17, 0, 2), (30, 1, 3), (30, 2, 1)])
def test_a_value_comes_back_at_another_level(sides, bits, at, to):
    holder, evaluator = sides
    refresher = Refresher(evaluator, RefreshHolder(holder, bits).answer, bits)
    x = evaluator.load(holder.encrypt(values(), at))
    y = refresher.refresh(x, name="x", bound=1.0, level=to)
    assert (y.level, y.scale) == (to, 2.0**40)
    assert np.abs(holder.decrypt(evaluator.dump(y)) - values()).max() < 2.0**-20
    entry = refresher.entries[0]
    assert (entry.name, entry.at_level, entry.to_level) == ("x", at, to)
    assert entry.bytes_up > 0
    assert entry.bytes_down > 0


def test_the_holder_sees_the_value_blinded(sides):
    holder, evaluator = sides
    seen = []

    def ask(data: bytes, level: int) -> bytes:
        seen.append(holder.decrypt(data))
        return holder.encrypt(seen[-1], level)

    refresher = Refresher(evaluator, ask, 16)
    x = evaluator.load(holder.encrypt(values(), 0))
    for _ in range(2):
        refresher.refresh(x, name="x", bound=1.0, level=3)
    for blinded in seen:
        assert np.abs(blinded).max() > 2.0**15
        assert abs(np.corrcoef(blinded, values())[0, 1]) < 0.2
    # drawn anew each time
    assert np.abs(seen[0] - seen[1]).max() > 2.0**15


def test_blinding_overflow_fails_before_anything_is_sent(sides):
    holder, evaluator = sides

    def ask(data: bytes, level: int) -> bytes:
        raise AssertionError("sent")

    x = evaluator.load(holder.encrypt(values(), 0))
    with pytest.raises(RangeError, match=r"score: blinding overflow: .* do not fit level 0"):
        Refresher(evaluator, ask, 18).refresh(x, name="score", bound=1.0, level=3)
    with pytest.raises(RangeError, match="blinding overflow"):
        Refresher(evaluator, ask, 8).refresh(x, name="score", bound=2.0**18, level=3)


def test_the_last_bit_that_fits_is_allowed(sides):
    """2^17 + 1 at a scale of 2^40 is below 2^58, a quarter of the modulus; 2^18 is not."""
    holder, evaluator = sides
    x = evaluator.load(holder.encrypt(values(), 0))
    Refresher(evaluator, RefreshHolder(holder, 17).answer, 17).refresh(
        x, name="x", bound=1.0, level=3
    )


def test_an_answer_at_another_level_is_refused(sides):
    holder, evaluator = sides
    x = evaluator.load(holder.encrypt(values(), 1))

    def ask(data: bytes, level: int) -> bytes:
        return holder.encrypt(holder.decrypt(data), level - 1)

    with pytest.raises(ProtocolError, match="x: wanted level 3, got 2"):
        Refresher(evaluator, ask, 20).refresh(x, name="x", bound=1.0, level=3)


def test_a_damaged_answer_is_refused(sides):
    holder, evaluator = sides
    x = evaluator.load(holder.encrypt(values(), 1))
    answer = RefreshHolder(holder, 20).answer

    def ask(data: bytes, level: int) -> bytes:
        good = bytearray(answer(data, level))
        good[len(good) // 2] ^= 1
        return bytes(good)

    with pytest.raises(ProtocolError):
        Refresher(evaluator, ask, 20).refresh(x, name="x", bound=1.0, level=3)


def test_the_holder_notices_a_range_that_was_left(sides):
    holder, _ = sides
    answer = RefreshHolder(holder, 10).answer
    large = values()
    large[7] = 2.0**12
    with pytest.raises(RangeError, match="a range was left"):
        answer(holder.encrypt(large), 3)
    answer(holder.encrypt(values() * 2.0**10), 3)


@pytest.mark.parametrize("bits", [0, -1, MAX_BITS + 1])
def test_bits_that_blind_nothing_or_too_much(sides, bits):
    holder, evaluator = sides
    with pytest.raises(PlanError, match=f"blinding of {bits} bits"):
        Refresher(evaluator, RefreshHolder(holder, 1).answer, bits)


@pytest.mark.parametrize("bits", [1, 18, 30])
def test_blinding_is_uniform(bits):
    r = uniform(200_000, bits) / 2.0**bits
    assert np.abs(r).max() <= 1
    assert np.abs(r).max() > 0.999
    # eight standard deviations, for sums and for a histogram
    assert abs(r.mean()) < 8 / np.sqrt(3 * r.size)
    assert abs((r * r).mean() - 1 / 3) < 8 * 0.3 / np.sqrt(r.size)
    counts, _ = np.histogram(r, bins=16, range=(-1, 1))
    assert np.abs(counts - r.size / 16).max() < 8 * np.sqrt(r.size / 16)
    assert len(np.unique(r)) == r.size


def test_what_a_ledger_says_of_blinding():
    blinding = Blinding(bits=30, bound=2.0, num_slots=8192)
    assert blinding.distance == 2.0**-29
    assert blinding.joint_distance == 2.0**-16
    text = "statistical blinding of 30 bits: |x| <= 2, distance 2^-29.0 per value, 2^-16.0 over"
    assert str(blinding).startswith(text)
    assert Blinding(bits=4, bound=100.0, num_slots=8192).joint_distance == 1.0
