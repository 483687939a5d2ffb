"""Random circuits: every backend has the levels, scales and values that arithmetic predicts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from he_chain.errors import LevelError, RangeError, ScaleError
from he_chain.noise import (
    encode_noise,
    fresh_noise,
    key_switch_bias,
    key_switch_noise,
    rescale_noise,
)
from tests.he_chain.backends.conftest import ROTATIONS, TWO_LEVELS, make_pair

if TYPE_CHECKING:
    from he_chain.backends.base import Values

OPERATIONS = ("add", "sub", "add_plain", "sub_plain", "mul_plain", "mul", "rescale", "to_level")
MODULUS_BITS = (60, 100, 140)
DEVIATIONS = 9
LARGEST = 64.0


@dataclass
class Node:
    """What is predicted of a ciphertext."""

    values: Values
    error: float
    """No slot is farther off, but for one in 10^15."""
    level: int
    scale: float

    @property
    def largest(self) -> float:
        return float(np.max(np.abs(self.values)))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return [make_pair(name, TWO_LEVELS, folder / name) for name in ("mock", "seal")]


def fits(level: int, scale: float) -> bool:
    return np.log2(scale) < MODULUS_BITS[level] - 1


def product(x: Node, y: Node, level: int) -> Node:
    error = x.largest * y.error + y.largest * x.error + x.error * y.error
    return Node(x.values * y.values, error, level, x.scale * y.scale)


def noisy(node: Node, deviation: float, bias: float = 0.0) -> Node:
    error = node.error + DEVIATIONS * (deviation + bias) / node.scale
    return Node(node.values, error, node.level, node.scale)


def switched(node: Node) -> Node:
    bias = float(key_switch_bias(TWO_LEVELS, node.level).max())
    return noisy(node, key_switch_noise(TWO_LEVELS, node.level), bias)


def predict(operation, x: Node, y: Node, plain: Node, argument: int, primes) -> Node | type:
    """Return what an operation gives, or its refusal."""
    level = min(x.level, y.level)
    if operation in ("add", "sub"):
        if x.scale != y.scale:
            return ScaleError
        if not fits(level, x.scale):
            return LevelError
        values = x.values + y.values if operation == "add" else x.values - y.values
        return Node(values, x.error + y.error, level, x.scale)
    if operation in ("add_plain", "sub_plain"):
        values = x.values + plain.values if operation == "add_plain" else x.values - plain.values
        return Node(values, x.error + plain.error, x.level, x.scale)
    if operation == "mul_plain":
        return product(x, plain, x.level) if fits(x.level, x.scale * plain.scale) else LevelError
    if operation == "mul":
        return switched(product(x, y, level)) if fits(level, x.scale * y.scale) else LevelError
    if operation == "rescale":
        if x.level == 0:
            return LevelError
        scale = x.scale / primes[x.level]
        return noisy(Node(x.values, x.error, x.level - 1, scale), rescale_noise(TWO_LEVELS))
    if operation == "to_level":
        if argument > x.level or not fits(argument, x.scale):
            return LevelError
        return Node(x.values, x.error, argument, x.scale)
    return switched(Node(np.roll(x.values, -argument), x.error, x.level, x.scale))


def run(pair, operation, x, y, plain, argument):
    ev = pair.evaluator
    if operation in ("add", "sub", "mul"):
        return getattr(ev, operation)(x, y)
    if operation.endswith("_plain"):
        return getattr(ev, operation)(x, ev.encode(*plain))
    if operation == "rescale":
        return ev.rescale(x)
    return getattr(ev, operation)(x, argument)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_random_circuits(pairs, data) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    primes = pairs[0].evaluator.primes
    assert primes == pairs[1].evaluator.primes
    nodes, ciphertexts = [], []
    for _ in range(2):
        values = rng.uniform(-2, 2, 4096)
        level = data.draw(st.integers(1, 2))
        nodes.append(noisy(Node(values, 0.0, level, 2.0**40), fresh_noise(TWO_LEVELS)))
        ciphertexts.append([pair.give(values, level) for pair in pairs])
    for _ in range(data.draw(st.integers(1, 8))):
        operation = data.draw(st.sampled_from((*OPERATIONS, "rotate")))
        a, b = (data.draw(st.integers(0, len(nodes) - 1)) for _ in range(2))
        x, y = nodes[a], nodes[b]
        argument = data.draw(
            st.sampled_from(ROTATIONS) if operation == "rotate" else st.integers(0, 2)
        )
        plain_values = rng.uniform(-2, 2, 4096)
        scale = float(primes[x.level]) if operation == "mul_plain" else x.scale
        if operation == "rescale" and x.level and x.scale < 2.0**60:
            continue  # legal, and only noise would be left
        if not fits(x.level, scale * 4):
            continue
        plain = Node(plain_values, DEVIATIONS * encode_noise(TWO_LEVELS) / scale, x.level, scale)
        wanted = predict(operation, x, y, plain, argument, primes)
        encoded = (plain_values, x.level, scale)
        if isinstance(wanted, type):
            for index, pair in enumerate(pairs):
                with pytest.raises(wanted):
                    run(
                        pair,
                        operation,
                        ciphertexts[a][index],
                        ciphertexts[b][index],
                        encoded,
                        argument,
                    )
            continue
        # a larger one would not fit level 0
        if wanted.largest > LARGEST or not fits(wanted.level, wanted.scale * LARGEST * 2):
            continue
        made = []
        for index, pair in enumerate(pairs):
            operands = (ciphertexts[a][index], ciphertexts[b][index])
            # one ciphertext less itself would hide nothing
            with suppress(RangeError):
                made.append(run(pair, operation, *operands, encoded, argument))
        assert len(made) in (0, len(pairs))
        if made:
            nodes.append(wanted)
            ciphertexts.append(made)
        else:
            assert operation == "sub"
    for node, made in zip(nodes, ciphertexts, strict=True):
        for pair, ciphertext in zip(pairs, made, strict=True):
            assert (ciphertext.level, ciphertext.scale) == (node.level, node.scale)
            assert np.max(np.abs(pair.take(ciphertext) - node.values)) <= node.error
