"""Protocol `assist` from end to end on the mock backend, against the plaintext engine."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from he_chain.backends.mock import MockHolder
from he_chain.errors import RangeError
from he_chain.plaintext import PlainModel
from he_chain.records.flow import check_flow, check_levels
from he_chain.reports.measure import measure
from tests.he_chain.assist_run import carry_on, open_holder, prepare
from tests.he_chain.models import write_model

IDS = [3, 77, 410]


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3"])
def finished(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    model = PlainModel(write_model(folder, request.param, num_layers=2))
    prepare(folder, model, IDS[:2], max_positions=4)
    holder = open_holder(folder)
    run = carry_on(folder, model, holder)
    return folder, model, holder, run


def test_a_run_agrees_with_the_engine(finished):
    folder, model, holder, run = finished
    ids = holder.ids
    assert ids[:2] == tuple(IDS[:2])
    assert len(ids) == 4
    references = {
        "exact": model.exact_forward(ids),
        "wh1-float": model.float_profile_forward(ids),
    }
    found = measure(run, MockHolder.open(folder / "HOLDER"), references)
    assert sum(c.tensor == "x" for c in found.checkpoints) == 8
    assert sum(c.tensor == "logits" for c in found.checkpoints) == 4
    assert all(c.passes(15) for c in found.checkpoints)


def test_the_holder_generates_the_engines_tokens(finished):
    _, model, holder, _ = finished
    ids = holder.ids
    logits = model.exact_forward(ids[:3]).logits
    assert ids[2:] == (logits[1].argmax(), logits[2].argmax())


def test_records_follow_the_flow(finished):
    _, _, _, run = finished
    flow = check_flow(run.begin, run.records)
    assert (flow.hops, flow.positions, flow.logits, flow.finished) == (12, 4, 4, True)
    check_levels(run.begin, run.records)


def test_what_a_layer_costs(finished):
    _, _, _, run = finished
    layers = [r for r in run.records if r.layer == 1]
    assert {r.exchanges for r in layers} == {6}
    assert all(r.counts["ct_ct"] == 2 * (1 + r.position // 3) for r in layers)
    assert all(0 < r.bytes_down < r.bytes_up * 4 for r in layers)
    assert all(x.level == 0 for r in layers for x in r.outputs if x.name.endswith(".x"))


def test_what_both_sides_see(finished):
    _, model, _, run = finished
    holder = {s.name: s for s in run.records[1].seen_by_holder}
    assert holder["gate"].values == model.config.intermediate_size
    assert {s.bits for s in run.records[1].seen_by_holder} == {53}
    evaluator = {s.name: s.bits for s in run.records[1].seen_by_evaluator}
    assert evaluator.pop("position") == 53
    assert set(evaluator.values()) == {0}


def test_logits_only_behind_the_prompt(tmp_path):
    model = PlainModel(write_model(tmp_path, num_layers=1))
    prepare(tmp_path, model, IDS, max_positions=4)
    run = carry_on(tmp_path, model, logits_of_all=False)
    assert [(r.kind, r.position) for r in run.records] == [
        ("lay", 0),
        ("lay", 1),
        ("lay", 2),
        ("fin", 2),
        ("lay", 3),
        ("fin", 3),
    ]


def test_an_outlier_ends_the_run(tmp_path, monkeypatch):
    model = PlainModel(write_model(tmp_path, num_layers=2))
    prepare(tmp_path, model, IDS, max_positions=3)
    holder = open_holder(tmp_path)
    embedding = holder._model.embedding
    monkeypatch.setattr(holder._model, "embedding", lambda token: 1000 * embedding(token))
    with pytest.raises(RangeError, match="x of layer 0 is outside the calibrated range"):
        carry_on(tmp_path, model, holder)


TENSORS = ("x", "q_raw", "k_raw", "v", "scores", "o", "xo", "gate", "up", "g", "logits")


@pytest.fixture(scope="module")
def one_layer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    model = PlainModel(write_model(folder, num_layers=1))
    prepare(folder, model, [3], max_positions=1)
    return folder, model


@pytest.mark.parametrize("tensor", TENSORS)
def test_every_tensor_is_held_to_its_range(one_layer, tmp_path, tensor):
    folder, model = one_layer
    shutil.copytree(folder, tmp_path / "run")
    holder = open_holder(tmp_path / "run")
    ranges = holder._steps._ranges
    assert set(ranges.limits) == set(TENSORS)
    tiny = {tensor: tuple(1e-3 for _ in ranges.limits[tensor])}
    holder._steps._ranges = replace(ranges, limits={**ranges.limits, **tiny})
    with pytest.raises(RangeError, match=rf"{tensor} of layer 0 is outside"):
        carry_on(tmp_path / "run", model, holder)


def test_a_value_that_wraps_around_is_seen_by_its_canary(tmp_path, monkeypatch):
    model = PlainModel(write_model(tmp_path, num_layers=2))
    prepare(tmp_path, model, IDS, max_positions=3)
    holder = open_holder(tmp_path)
    decrypt = holder._holder.decrypt
    monkeypatch.setattr(holder._holder, "decrypt", lambda data: decrypt(data) + 2.0**20)
    with pytest.raises(RangeError, match="canary"):
        carry_on(tmp_path, model, holder)


def test_nothing_decrypted_is_in_a_refusal(tmp_path, monkeypatch):
    model = PlainModel(write_model(tmp_path, num_layers=1))
    prepare(tmp_path, model, IDS, max_positions=3)
    holder = open_holder(tmp_path)
    monkeypatch.setattr(holder._model, "embedding", lambda token: np.full(64, 98765.4321))
    with pytest.raises(RangeError) as refused:
        carry_on(tmp_path, model, holder)
    assert "98765" not in str(refused.value)
    assert "e+" not in str(refused.value)
