"""Ranges: from public text only, with a margin, in one encoding, and a plan has to hold them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from he_chain.calib import (
    calibrate,
    decode_ranges,
    ids_digest,
    public_ids,
    public_text,
    refuse_prompt,
)
from he_chain.errors import CheckpointError, PlanError, RangeError
from he_chain.parameters import Parameters
from he_chain.plaintext import PlainModel
from tests.he_chain.models import write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return PlainModel(write_model(tmp_path_factory.mktemp("model"), num_layers=2))


@pytest.fixture(scope="module")
def ranges(model):
    return calibrate(model, public_ids(model)[:32])


def test_the_public_text_is_text(model):
    ids = public_ids(model)
    assert len(ids) > 200
    assert model.tokenizer().decode(ids) == public_text()


def test_ranges_are_the_largest_values_times_the_margin(model, ranges):
    ids = public_ids(model)[:32]
    largest = np.abs(model.exact_forward(ids).residuals).max(axis=(1, 2))
    np.testing.assert_allclose(ranges.limits["x"], 4 * largest, atol=0.02)
    assert ranges.limit("logits", 0) == pytest.approx(
        4 * np.abs(model.exact_forward(ids).logits).max(), abs=0.02
    )
    assert len(ranges.limits["gate"]) == 2


def test_there_and_back(ranges):
    assert decode_ranges(ranges.encode()) == ranges
    assert len(ranges.digest()) == 32
    assert replace(ranges, margin=5.0).digest() != ranges.digest()


@pytest.mark.parametrize("place", range(0, 300, 23))
def test_a_changed_byte_is_damage_or_another_digest(ranges, place):
    data = bytearray(ranges.encode())
    data[place % len(data)] ^= 1
    with suppress(CheckpointError):
        assert decode_ranges(bytes(data)).digest() != ranges.digest()


def test_values_are_held_to_their_range(ranges):
    limit = ranges.limit("gate", 1)
    ranges.check(np.array([limit, -limit]), "gate", 1)
    for value in (1.01 * limit, -1.01 * limit, np.nan, np.inf):
        with pytest.raises(RangeError, match="gate of layer 1"):
            ranges.check(np.array([0.0, value]), "gate", 1)
    with pytest.raises(PlanError, match="no range"):
        ranges.check(np.zeros(1), "gate", 2)
    with pytest.raises(PlanError, match="no range"):
        ranges.check(np.zeros(1), "nothing", 0)


def test_a_plan_has_to_hold_them(ranges):
    ranges.check_fit(Parameters(8192, 2))
    with pytest.raises(RangeError, match="level 0 holds 4"):
        ranges.check_fit(Parameters(8192, 2, 40, 44))
    outlier = replace(ranges, limits={**ranges.limits, "x": (1.0, 2.0**18, 1.0)})
    with pytest.raises(RangeError, match="x of layer 1"):
        outlier.check_fit(Parameters(8192, 2))


def test_ranges_of_the_prompt_are_refused(model):
    prompt = [3, 77, 410]
    own = calibrate(model, prompt)
    for more in ([], [5, 6]):
        with pytest.raises(PlanError, match="on the prompt"):
            refuse_prompt(own, prompt + more)
    refuse_prompt(own, [4, 77, 410])
    assert own.text_digest == ids_digest(prompt)


@pytest.mark.parametrize(("ids", "margin"), [([], 4.0), ([1], 0.5), ([1], float("nan"))])
def test_what_cannot_be_calibrated(model, ids, margin):
    with pytest.raises(PlanError):
        calibrate(model, ids, margin=margin)
