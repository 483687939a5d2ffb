"""The largest ring that SEAL has at 128 bits, and all its levels: keys, files, a product."""

from __future__ import annotations

import numpy as np
import pytest

from he_chain.backends.seal import SealEvaluator, SealHolder
from he_chain.parameters import Parameters


@pytest.mark.slow
def test_nineteen_levels(tmp_path) -> None:
    holder = SealHolder.create(Parameters(32768, 19))
    assert holder.security.margin_bits == 1
    holder.save(tmp_path / "holder")
    holder.write_evaluation_keys(tmp_path / "evaluator", [3])
    evaluator = SealEvaluator.open(tmp_path / "evaluator")
    again = SealHolder.open(tmp_path / "holder")
    values = np.random.default_rng(1).uniform(-1, 1, 16384)
    x = evaluator.load(holder.encrypt(values))
    assert x.level == 19
    squared = evaluator.rescale(evaluator.mul(x, x))
    found = again.decrypt(evaluator.dump(evaluator.rotate(squared, 3)))
    assert np.max(np.abs(found - np.roll(values**2, -3))) < 1e-4
