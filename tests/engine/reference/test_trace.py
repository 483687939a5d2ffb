from __future__ import annotations

import hashlib

import numpy as np
import pytest

from engine.reference.decoder import ReferenceModel
from engine.reference.trace import layer_roots, trace_root
from tests.engine.reference.support import SplitMix64, load_checkpoint


def sm3(data: bytes) -> bytes:
    return hashlib.new("sm3", data).digest()


def tree(hashes: list[bytes]) -> bytes:
    """RFC 9162 section 2.1.1, from the top down."""
    if len(hashes) == 1:
        return hashes[0]
    split = 1
    while split * 2 < len(hashes):
        split *= 2
    return sm3(b"\x01" + tree(hashes[:split]) + tree(hashes[split:]))


@pytest.mark.parametrize(("layers", "positions"), [(0, 1), (1, 2), (3, 7), (4, 64), (2, 65)])
def test_the_root_is_that_of_the_definition(layers, positions):
    residuals = SplitMix64(positions).floats((layers + 1, positions, 16))
    columns = [tree([sm3(b"\x00" + row.tobytes()) for row in column]) for column in residuals]
    assert layer_roots(residuals) == columns
    assert trace_root(residuals) == tree([sm3(b"\x00" + column) for column in columns])


def test_one_bit_of_one_residual_changes_the_root():
    residuals = SplitMix64(1).floats((4, 5, 16))
    root = trace_root(residuals)
    residuals.view(np.uint32)[2, 3, 4] ^= 1
    assert trace_root(residuals) != root


def test_negative_zero_is_not_zero():
    zeros = np.zeros((1, 1, 16), dtype=np.float32)
    assert trace_root(zeros) != trace_root(-zeros)


def test_steps_joined_have_the_root_of_the_whole():
    checkpoint = load_checkpoint("qwen3_tiny")
    model = ReferenceModel(checkpoint.config, checkpoint.weights)
    first = model.forward([1, 2, 3])
    second = model.forward([4], first.cache)
    whole = model.forward([1, 2, 3, 4])
    joined = np.concatenate((first.residuals, second.residuals), axis=1)
    assert trace_root(joined) == trace_root(whole.residuals)
