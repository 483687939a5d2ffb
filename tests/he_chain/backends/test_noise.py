"""What he_chain/noise.py says, measured: on SEAL, which it is about, and on the imitation."""

from __future__ import annotations

import numpy as np
import pytest

from he_chain.noise import (
    fresh_noise,
    key_switch_bias,
    key_switch_noise,
    public_noise,
    rescale_noise,
)

ROUNDS = 4
"""4 x 4096 slots: a deviation is then measured to 1 %, were they independent."""


def deviation(errors) -> float:
    return float(np.std(np.concatenate(errors)))


def test_fresh_ciphertexts(pair, values) -> None:
    scale = pair.scale
    errors = [(pair.take(pair.give(values)) - values) * scale for _ in range(ROUNDS)]
    assert deviation(errors) == pytest.approx(fresh_noise(pair.parameters), rel=0.1)
    encrypt = pair.evaluator.encrypt
    errors = [(pair.take(encrypt(values)) - values) * scale for _ in range(ROUNDS)]
    assert deviation(errors) == pytest.approx(public_noise(pair.parameters), rel=0.1)


def test_rescaled_products(pair, values, others) -> None:
    ev = pair.evaluator
    errors = {"plain": [], "cipher": []}
    for _ in range(ROUNDS):
        x, y = pair.give(values, 1), pair.give(others, 1)
        known_x, known_y = pair.take(x), pair.take(y)
        product = ev.rescale(ev.mul_plain(x, ev.encode(others, 1, float(ev.primes[1]))))
        errors["plain"].append((pair.take(product) - known_x * others) * product.scale)
        product = ev.rescale(ev.mul(x, y))
        errors["cipher"].append((pair.take(product) - known_x * known_y) * product.scale)
    for found in errors.values():
        assert deviation(found) == pytest.approx(rescale_noise(pair.parameters), rel=0.1)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_rotations(pair, values, level) -> None:
    errors = []
    for _ in range(ROUNDS):
        for steps in (1, 5, 64, -3):
            x = pair.give(values, level)
            known = np.roll(pair.take(x), -steps)
            errors.append((pair.take(pair.evaluator.rotate(x, steps)) - known) * pair.scale)
    bias = key_switch_bias(pair.parameters, level)
    noise = key_switch_noise(pair.parameters, level)
    # where a key's own error is small, what is new each time is all there is
    quiet = bias < noise / 8
    assert np.count_nonzero(quiet) > 1000
    assert deviation([e[quiet] for e in errors]) == pytest.approx(noise, rel=0.1)
    # where it is large, it is the same each time, and of the size that is claimed
    loud = np.argsort(bias)[-40:]
    assert loud[-1] == 0
    per_key = np.reshape(errors, (ROUNDS, 4, -1))
    assert np.max(np.std(per_key[:, :, :2], axis=0)) < bias[1] / 4
    relative = np.mean(per_key, axis=0)[:, loud] / bias[loud]
    assert np.std(relative) == pytest.approx(1.0, rel=0.3)
