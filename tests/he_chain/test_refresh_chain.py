"""A run of protocol `refresh` on the mock: both sides, checkpoints, resuming, refusals."""

from __future__ import annotations

import shutil
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from he_chain.backends.mock import MockEvaluator, MockHolder
from he_chain.errors import CheckpointError, HeChainError, PlanError, ProtocolError, RangeError
from he_chain.parameters import Parameters
from he_chain.plaintext import PlainModel
from he_chain.records.flow import check_flow, check_levels
from he_chain.records.run_folder import Run
from he_chain.refresh_chain import RefreshChain
from he_chain.refresh_setup import RefreshMeasure, begin_refresh, layer_inputs, prepare, setup_of
from he_chain.reports.measure import measure
from he_chain.roles.refresh_holder import RefreshKeyHolder
from he_chain.roles.setup import write_keys
from he_chain.transport import SocketChannel
from he_chain.wire import Message
from tests.he_chain.models import write_model

RING = Parameters(4096, 9, 35)
IDS = (5, 9, 300)
GATE = 12
LAYER = 1


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    with PlainModel(write_model(tmp_path_factory.mktemp("model"), num_layers=2)) as model:
        yield model


@pytest.fixture(scope="module")
def setup(model):
    return prepare(model, LAYER, RING, positions=4, blind_bits=16, backend="mock")


@pytest.fixture(scope="module")
def begun(model, setup, tmp_path_factory):
    """Return a folder with keys and a run that has begun."""
    folder = tmp_path_factory.mktemp("begun")
    write_keys(MockHolder.create(RING), folder / "H", folder / "E", setup.plan.rotations)
    begin = begin_refresh(model, setup, gate_bits=GATE, libraries={"numpy": "2"})
    Run.create(folder / "R", begin)
    return folder


@pytest.fixture
def folder(begun, tmp_path):
    return Path(shutil.copytree(begun, tmp_path / "copy"))


def keeper_of(folder, model, setup):
    (inputs,) = layer_inputs(model, LAYER, [IDS])
    return RefreshKeyHolder(MockHolder.open(folder / "H"), setup, inputs)


def carry_on(folder, model, setup, *, max_hops=None, holder_setup=None):
    """Run what is left, or some hops; the key holder is a thread."""
    ours, theirs = (SocketChannel(end, 60) for end in socket.socketpair())
    keeper = keeper_of(folder, model, holder_setup or setup)
    refusals = []

    def serve():
        try:
            keeper.serve(theirs)
        except HeChainError as error:
            refusals.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    run = Run.open(folder / "R")
    try:
        evaluator = MockEvaluator.open(folder / "E")
        chain = RefreshChain(run, evaluator, model, setup, ours)
        if max_hops is not None:
            chain.num_tokens = min(chain.num_tokens, run.next_number + max_hops)
        chain.go()
    finally:
        ours.close()
        thread.join(60)
        theirs.close()
    assert not refusals
    return run


@pytest.fixture(scope="module")
def finished(begun, model, setup, tmp_path_factory):
    """Return a folder in which one evaluator ran a token and another one the rest."""
    folder = Path(shutil.copytree(begun, tmp_path_factory.mktemp("finished") / "copy"))
    carry_on(folder, model, setup, max_hops=1)
    carry_on(folder, model, setup)
    return folder


def measured(folder, model, setup):
    holder = RefreshMeasure(MockHolder.open(folder / "H"), setup)
    return measure(Run.open(folder / "R"), holder, {"exact": model.exact_forward(IDS)})


def test_every_token_reaches_the_gate_also_behind_a_restart(finished, model, setup):
    found = measured(finished, model, setup)
    assert [(c.position, c.layer, c.tensor) for c in found.checkpoints] == [
        (position, LAYER, "x") for position in range(3)
    ]
    assert all(c.passes(GATE) for c in found.checkpoints)


def test_records_say_what_the_plan_said(finished, setup):
    run = Run.open(finished / "R")
    refreshes = len(setup.plan.refreshes)
    assert refreshes <= 8
    for record in run.records:
        assert record.exchanges == refreshes + 1
        assert len(record.seen_by_holder) == refreshes
        assert all(s.bits <= 1 for s in record.seen_by_holder)
        assert all("blinded by 16 bits" in s.name for s in record.seen_by_holder)
        assert {level for level, _ in record.levels} == set(range(10))
    assert check_flow(run.begin, run.records).finished
    check_levels(run.begin, run.records)
    assert "Blinding of 16 bits" in " ".join(run.begin.claims)


def test_the_setup_follows_from_the_begin_record(finished, model, setup):
    again = setup_of(Run.open(finished / "R").begin, model)
    assert again.plan.digest() == setup.plan.digest()
    assert again.ranges_digest == setup.ranges_digest
    with pytest.raises(PlanError, match="how it was planned"):
        setup_of(replace(Run.open(finished / "R").begin, settings={}), model)


def test_a_stale_cache_fails_the_gate(finished, model, setup, tmp_path):
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    for name in ("00002.rec", "00001.rec"):
        (folder / "R" / "records" / name).unlink()
    run = carry_on(folder, model, setup, max_hops=1)
    last = run.records[-1]
    stale = {b.name.rpartition(".")[2]: b for b in run.records[0].outputs}
    outputs = (last.outputs[0], *(stale[n] for n in ("keys", "values")))
    (folder / "R" / "records" / "00001.rec").unlink()
    short = Run.open(folder / "R")
    names = [replace(b, name=f"{last.outputs[i].name}") for i, b in enumerate(outputs)]
    for blob, source in zip(names[1:], outputs[1:], strict=True):
        short.write_blob(
            blob.name, short.read_blob(source), source.level, float.fromhex(source.scale)
        )
    short.append(replace(last, outputs=tuple(names), previous=short.head))
    carry_on(folder, model, setup)
    found = measured(folder, model, setup).checkpoints
    assert [c.passes(GATE) for c in found] == [True, True, False]


def test_a_flipped_byte_of_the_cache_is_found_before_it_is_used(finished, model, setup, tmp_path):
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    (folder / "R" / "records" / "00002.rec").unlink()
    path = folder / "R" / "cts" / "p00001.l001.keys.ct"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="not the one"):
        carry_on(folder, model, setup)


def test_sides_with_two_plans_do_not_begin(folder, model, setup):
    other = prepare(model, LAYER, RING, positions=4, blind_bits=15, backend="mock")
    with pytest.raises(CheckpointError, match="another plan"):
        carry_on(folder, model, other)
    with pytest.raises(ProtocolError, match="not due"):
        carry_on(folder, model, setup, holder_setup=other)


def test_a_key_holder_refreshes_at_planned_levels_only(folder, model, setup):
    keeper = keeper_of(folder, model, setup)
    data = keeper._holder.encrypt([0.0] * RING.num_slots, 0)

    def message(kind, level, position=0, blobs=(data,)):
        return Message(kind, bytes(16), 0, position, LAYER, blobs, {"level": level})

    assert len(keeper._handle(message("refresh", 9)).blobs) == 1
    for wrong in (
        message("refresh", 7),
        message("refresh", "9"),
        message("refresh", 9, blobs=(data, data)),
        message("input", 9),
        message("input", 9, position=3, blobs=()),
        message("decrypt", 9),
    ):
        with pytest.raises(ProtocolError, match="not due"):
            keeper._handle(wrong)
    high = keeper._holder.encrypt([2.0**18] * RING.num_slots, 0)
    with pytest.raises(RangeError):
        keeper._handle(message("refresh", 9, blobs=(high,)))


@pytest.mark.parametrize(
    "changes", [{"layer": 2}, {"positions": 0}, {"positions": 400}, {"blind_bits": 0}], ids=str
)
def test_what_cannot_be_planned_is_refused(model, changes):
    given = {"layer": LAYER, "positions": 4, "blind_bits": 16, **changes}
    layer = given.pop("layer")
    with pytest.raises((PlanError, RangeError)):
        prepare(model, layer, RING, backend="mock", **given)
