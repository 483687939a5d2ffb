from __future__ import annotations

from dataclasses import replace

import pytest

from he_chain.errors import CheckpointError, LevelError
from he_chain.parameters import Parameters
from he_chain.records.flow import check_flow, check_levels
from tests.he_chain.report_runs import begin, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run"))


def test_a_finished_run_is_finished(run):
    flow = check_flow(run.begin, run.records)
    assert (flow.hops, flow.positions, flow.logits, flow.finished) == (8, 2, 2, True)


@pytest.mark.parametrize(
    ("hops", "positions", "logits", "finished"),
    [(0, 0, 0, False), (2, 0, 0, False), (3, 1, 0, True), (4, 1, 1, True), (6, 1, 1, False)],
)
def test_a_run_that_stopped_is_told_apart(run, hops, positions, logits, finished):
    flow = check_flow(run.begin, run.records[:hops])
    assert (flow.positions, flow.logits, flow.finished) == (positions, logits, finished)


def test_a_run_may_begin_at_a_later_layer(run):
    late = [replace(r, layer=None if r.layer is None else r.layer + 4) for r in run.records]
    assert check_flow(begin(first_layer=4), late).finished
    with pytest.raises(CheckpointError, match="layer 0 is the next"):
        check_flow(begin(), late)


def harmed(records, number, **changes):
    return [replace(r, **changes) if r.number == number else r for r in records]


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (1, {"layer": 2}),
        (1, {"position": 1}),
        (4, {"position": 2}),
        (2, {"kind": "fin", "layer": None}),
        (0, {"kind": "refresh", "layer": 2}),
        (3, {"inputs": ()}),
    ],
)
def test_a_hop_in_another_place_is_found(run, number, changes):
    with pytest.raises(CheckpointError, match="does not belong there"):
        check_flow(run.begin, harmed(run.records, number, **changes))


def test_refreshes_belong_to_the_layer_around_them(run):
    first = run.records[0]
    middle = replace(run.records[1].outputs[0], name="r")
    refresh = replace(first, kind="refresh", layer=1, inputs=first.outputs, outputs=(middle,))
    second = replace(run.records[1], inputs=(middle,))
    assert check_flow(run.begin, [first, refresh, second]).hops == 3


def test_layers_swapped_after_the_fact_are_found(run):
    records = list(run.records)
    first, second = records[1], records[2]
    records[1] = replace(second, number=1, layer=1)
    records[2] = replace(first, number=2, layer=2)
    with pytest.raises(CheckpointError, match=r"no hop made|nothing of the hop before"):
        check_flow(run.begin, records)


def test_a_stale_input_is_found(run):
    stale = run.records[0].outputs
    with pytest.raises(CheckpointError, match="nothing of the hop before"):
        check_flow(run.begin, harmed(run.records, 2, inputs=stale))
    other = replace(run.records[1].outputs[0], digest=bytes(32))
    with pytest.raises(CheckpointError, match="not what an earlier hop made"):
        check_flow(run.begin, harmed(run.records, 2, inputs=(other,)))


def test_nothing_is_made_twice(run):
    with pytest.raises(CheckpointError, match="made before"):
        check_flow(run.begin, harmed(run.records, 1, outputs=run.records[0].outputs))


def test_levels_of_a_run_can_be(run):
    check_levels(run.begin, run.records)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"level": 3}, "no level 3"),
        ({"scale": (2.0**100).hex()}, "does not fit"),
    ],
)
def test_a_ciphertext_that_cannot_be_is_found(run, changes, words):
    blob = replace(run.records[2].outputs[0], **changes)
    with pytest.raises(LevelError, match=words):
        check_levels(run.begin, harmed(run.records, 2, outputs=(blob,)))


def test_a_level_does_not_rise_by_itself(run):
    low = [replace(blob, level=0) for blob in run.records[2].inputs]
    records = harmed(run.records, 2, inputs=tuple(low), exchanges=0)
    with pytest.raises(LevelError, match="rose by itself"):
        check_levels(run.begin, records)
    check_levels(run.begin, harmed(run.records, 2, inputs=tuple(low)))


def test_a_plan_one_level_short_does_not_hold_the_trace(run):
    with pytest.raises(LevelError, match="no level 2"):
        check_levels(begin(parameters=Parameters(8192, 1)), run.records)
