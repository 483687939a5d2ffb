"""The plaintext in binary64 against the engine, and what it lets others see."""

from __future__ import annotations

import numpy as np
import pytest

from he_chain.errors import PlanError
from he_chain.plaintext import PlainModel
from tests.he_chain.assist_run import bits
from tests.he_chain.models import write_model

IDS = [3, 77, 410, 9]


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_binary64_is_near_the_float_profile(tmp_path, architecture):
    with PlainModel(write_model(tmp_path, architecture, num_layers=3)) as model:
        exact, engine = model.exact_forward(IDS), model.float_profile_forward(IDS)
        assert exact.residuals.shape == engine.residuals.shape == (4, 4, 64)
        assert exact.logits.shape == (4, 512)
        assert np.array_equal(exact.residuals[0], engine.residuals[0])
        assert bits(exact.logits, engine.logits) > 18
        assert bits(exact.residuals, engine.residuals) > 18
        half = model.exact_forward(IDS, half_cache=True)
        assert bits(half.logits, engine.logits) < 14


def test_a_longer_text_begins_like_a_shorter_one(tmp_path):
    model = PlainModel(write_model(tmp_path, num_layers=2))
    long, short = model.exact_forward(IDS), model.exact_forward(IDS[:2])
    np.testing.assert_allclose(long.logits[:2], short.logits, atol=1e-10)


def test_what_is_watched(tmp_path):
    model = PlainModel(write_model(tmp_path, num_layers=2))
    seen: dict[tuple[int, str], int] = {}
    model.exact_forward(IDS, watch=lambda layer, name, v: seen.update({(layer, name): v.size}))
    assert seen[0, "x"] == seen[2, "x"] == 4 * 64
    assert seen[1, "gate"] == 4 * 160
    assert seen[2, "logits"] == 4 * 512


@pytest.mark.parametrize("ids", [[], [512], [-1]])
def test_tokens_that_are_none(tmp_path, ids):
    model = PlainModel(write_model(tmp_path, num_layers=1))
    with pytest.raises(PlanError):
        model.exact_forward(ids)
    with pytest.raises(IndexError):
        model.layer(1)
