"""A holder and an evaluator of each backend, over folders, as two processes would have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from he_chain.backends.mock import MockEvaluator, MockHolder
from he_chain.backends.seal import SealEvaluator, SealHolder
from he_chain.parameters import Parameters

if TYPE_CHECKING:
    from pathlib import Path

    from he_chain.backends.base import Ciphertext, Values

TWO_LEVELS = Parameters(ring_degree=8192, num_levels=2)
ONE_LEVEL = Parameters(
    ring_degree=4096, num_levels=1, scale_bits=30, first_bits=40, special_bits=39
)
ROTATIONS = (1, 5, 64, -3)


@dataclass
class Pair:
    """Both roles of a backend."""

    name: str
    holder: MockHolder | SealHolder
    evaluator: MockEvaluator | SealEvaluator

    @property
    def parameters(self) -> Parameters:
        return self.holder.parameters

    @property
    def scale(self) -> float:
        return 2.0**self.parameters.scale_bits

    def give(self, values: Values, level: int | None = None) -> Ciphertext:
        return self.evaluator.load(self.holder.encrypt(values, level))

    def take(self, x: Ciphertext) -> Values:
        return self.holder.decrypt(self.evaluator.dump(x))


def make_pair(name: str, parameters: Parameters, folder: Path) -> Pair:
    holder_type, evaluator_type = {
        "mock": (MockHolder, MockEvaluator),
        "seal": (SealHolder, SealEvaluator),
    }[name]
    holder = holder_type.create(parameters)
    holder.write_evaluation_keys(folder, ROTATIONS)
    return Pair(name, holder, evaluator_type.open(folder))


@pytest.fixture(scope="session", params=["mock", "seal"])
def pair(request, tmp_path_factory) -> Pair:
    return make_pair(request.param, TWO_LEVELS, tmp_path_factory.mktemp("keys") / "evaluator")


@pytest.fixture(scope="session", params=["mock", "seal"])
def other_pair(request, tmp_path_factory) -> Pair:
    """Return keys of smaller parameters."""
    return make_pair(request.param, ONE_LEVEL, tmp_path_factory.mktemp("keys") / "evaluator")


@pytest.fixture
def values(pair) -> Values:
    return np.random.default_rng(7).uniform(-2, 2, pair.parameters.num_slots)


@pytest.fixture
def others(pair) -> Values:
    return np.random.default_rng(8).uniform(-2, 2, pair.parameters.num_slots)
