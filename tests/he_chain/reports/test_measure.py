from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from he_chain.errors import CheckpointError, ProtocolError
from he_chain.records.run_folder import Run
from he_chain.reports.measure import measure
from tests.he_chain.report_runs import (
    LAYERS,
    POSITIONS,
    PlainHolder,
    Reference,
    make_run,
    references,
    seal_values,
)


def test_every_checkpoint_is_measured_against_every_reference(tmp_path):
    run = make_run(tmp_path, error=1e-6)
    seen = []
    found = measure(run, PlainHolder(), references(), progress=lambda *at: seen.append(at))
    assert seen == [(i + 1, 8) for i in range(8)]
    assert [(c.position, c.layer, c.tensor) for c in found.checkpoints] == [
        (p, layer, tensor)
        for p in range(POSITIONS)
        for layer, tensor in [*((i, "x") for i in range(LAYERS)), (None, "logits")]
    ]
    for one in found.checkpoints:
        assert 0 < one.against["exact"].max_error <= 1e-6
        assert 15.5 < one.against["wh1-float"].bits < 16.5
        assert one.profile_distance.bits == 16
        assert one.passes(15)
        assert one.passes(17) == (one.tensor == "x")
        assert bool(one.argmax_equal) == (one.tensor == "logits")


def test_logits_are_put_together_from_their_parts(tmp_path):
    run = make_run(tmp_path, error=0)
    logits = measure(run, PlainHolder(), references()).checkpoints[3]
    assert logits.against["exact"].bits == 53
    assert logits.argmax_equal == logits.top5_equal == {"exact": True, "wh1-float": True}


def test_another_argmax_fails_whatever_the_bits(tmp_path):
    run = make_run(tmp_path)
    truth = references()["exact"]
    moved = truth.logits.copy()
    order = np.argsort(moved[0])
    moved[0, order[-1]] = moved[0, order[-2]] - 1e-6
    near = {"exact": Reference(truth.residuals, moved)}
    logits = measure(run, PlainHolder(), near).checkpoints[3]
    assert not logits.passes(1)
    assert logits.argmax_equal == {"exact": False}


def test_a_wrong_key_is_seen_in_the_numbers(tmp_path):
    found = measure(make_run(tmp_path), PlainHolder(1e31), references())
    assert not any(one.passes(1) for one in found.checkpoints)


def test_a_wrong_value_is_seen_wherever_it_is(tmp_path):
    run = make_run(tmp_path)
    path = tmp_path / "cts" / f"{run.records[1].outputs[0].name}.ct"
    values = PlainHolder().decrypt(path.read_bytes()).copy()
    values[7] += 1
    path.write_bytes(seal_values(values))
    with pytest.raises(CheckpointError, match="not the one"):
        measure(run, PlainHolder(), references())


def test_a_residual_is_measured_whole_whatever_its_record_says(tmp_path):
    run = Run.create(tmp_path, make_run(tmp_path / "good").begin)
    truth = references()["exact"].residuals[1, 0].copy()
    truth[7] += 1
    blob = run.write_blob("00000.x", seal_values(truth), 1, 2.0**40, values=3)
    first = Run.open(tmp_path / "good").records[0]
    run.append(replace(first, inputs=(), outputs=(blob,), previous=run.head))
    (one,) = measure(run, PlainHolder(), references()).checkpoints
    assert not one.passes(15)


def test_logits_with_a_part_missing_are_refused(tmp_path):
    run = make_run(tmp_path)
    fin = run.records[3]
    run.records[3] = replace(fin, outputs=fin.outputs[1:])
    with pytest.raises(CheckpointError, match="lacks a part"):
        measure(run, PlainHolder(), references())
    run.records[3] = replace(fin, outputs=fin.outputs[:1])
    with pytest.raises(CheckpointError, match="cannot be compared"):
        measure(run, PlainHolder(), references())


def test_references_that_do_not_fit_are_refused(tmp_path):
    run = make_run(tmp_path)
    truth = references()["exact"]
    short = Reference(truth.residuals[:, :1], truth.logits[:1])
    shallow = Reference(truth.residuals[:2], truth.logits)
    narrow = Reference(truth.residuals[:, :, :5], truth.logits)
    for bad, words in ((short, "behind the last"), (shallow, "lacks"), (narrow, "compared")):
        with pytest.raises(CheckpointError, match=words):
            measure(run, PlainHolder(), {"exact": bad})
    with pytest.raises(CheckpointError, match="no exact"):
        measure(run, PlainHolder(), {"wh1-float": truth})


def test_a_ciphertext_that_does_not_decrypt_ends_it(tmp_path):
    run = make_run(tmp_path)
    blob = run.write_blob("bad.x", b"123456789", 1, 2.0**40)
    run.records[0] = replace(run.records[0], outputs=(blob,))
    with pytest.raises(ProtocolError):
        measure(run, PlainHolder(), references())
