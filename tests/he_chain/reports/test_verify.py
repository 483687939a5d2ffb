from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from crypto.cbor import encode
from crypto.cose import sign1
from crypto.signer import SoftwareSigner
from crypto.sm2 import generate
from he_chain.errors import CheckpointError
from he_chain.parameters import Parameters
from he_chain.records.run_folder import Run
from he_chain.reports import report_folder
from he_chain.reports.measure import measure
from he_chain.reports.report import build_report, encode_report
from he_chain.reports.signed_report import sign_report
from he_chain.reports.verify import FAILED, UNCHECKED, VERIFIED, KeySide, verify
from tests.he_chain.report_runs import PlainHolder, make_run, references

KEY, STRANGER = generate(), generate()


def write_report(run: Run, folder: Path, report: dict | None = None, key=KEY) -> None:
    """Write report.json and its signature, by default the true ones."""
    report = report or build_report(run, measure(run, PlainHolder(), references()))
    data = encode_report(report)
    folder.mkdir(exist_ok=True)
    (folder / "report.json").write_bytes(data)
    (folder / "report.cose").write_bytes(sign_report(data, run.head, SoftwareSigner(key)))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify")
    write_report(make_run(folder / "run"), folder / "report")
    return folder


@pytest.fixture
def folder(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "copy"))


def check(folder, *, with_key=True, public_key=KEY.public_key, key=0.0, seed=5, **others):
    side = KeySide(PlainHolder(key), references(seed)) if with_key else None
    others.setdefault("model_digest", bytes([1]) * 32)
    others.setdefault("plan_of", lambda begin: (bytes([2]) * 32, bytes([3]) * 32))
    outcome = verify(
        folder / "report", folder / "run", public_key=public_key, key_side=side, **others
    )
    return outcome, {f.name: f.outcome for f in outcome.findings}


def failed(found):
    return {name for name, outcome in found.items() if outcome == FAILED}


def test_a_true_report_verifies(folder):
    outcome, found = check(folder)
    assert set(found.values()) == {VERIFIED}
    assert (outcome.outcome, outcome.verdict) == (VERIFIED, "PASS")
    readme = (Path(report_folder.__file__).parents[1] / "README.md").read_text("utf-8")
    rows = readme.partition("| check | needs | finds |")[2].partition("\n\n")[0]
    assert set(found) == set(re.findall(r"^\| `([a-z]+)` \|", rows, re.MULTILINE))


def test_without_the_key_precision_is_not_checked_and_that_is_said(folder):
    outcome, found = check(folder, with_key=False)
    assert outcome.outcome == UNCHECKED
    assert [name for name, word in found.items() if word == UNCHECKED] == ["precision"]
    assert any("NOT checked" in f.detail for f in outcome.findings)


def test_what_was_not_given_is_not_verified(folder):
    outcome, found = check(folder, public_key=None, model_digest=None, plan_of=None)
    assert outcome.outcome == UNCHECKED
    unchecked = [name for name, word in found.items() if word == UNCHECKED]
    assert unchecked == ["signature", "model", "plan"]


def test_a_reference_that_is_missing_is_not_a_failure(folder):
    only = {"exact": references()["exact"]}
    side = KeySide(PlainHolder(), only)
    outcome = verify(
        folder / "report",
        folder / "run",
        public_key=KEY.public_key,
        key_side=side,
        model_digest=bytes([1]) * 32,
        plan_of=lambda begin: (begin.plan_digest, begin.calibration_digest),
    )
    assert [f.name for f in outcome.findings if f.outcome != VERIFIED] == ["precision"]
    assert outcome.outcome == UNCHECKED


def edit(folder, change, *, key=None):
    """Change report.json; sign it anew when a key is given."""
    path = folder / "report" / "report.json"
    report = json.loads(path.read_bytes())
    change(report)
    if key is None:
        path.write_bytes(encode_report(report))
    else:
        write_report(Run.open(folder / "run"), folder / "report", report, key)


def raise_bits(report):
    report["measured"]["checkpoints"][2]["against"]["exact"]["bits"] += 0.01


def test_one_edited_figure_breaks_the_signature(folder):
    edit(folder, raise_bits)
    assert failed(check(folder, with_key=False)[1]) == {"signature"}


def test_one_edited_figure_of_the_signer_is_found_by_decrypting(folder):
    edit(folder, raise_bits, key=KEY)
    assert failed(check(folder, with_key=False)[1]) == set()
    outcome, found = check(folder)
    assert failed(found) == {"precision"}
    assert outcome.outcome == FAILED


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["verdict"].update(gate_bits=3),
        lambda r: r["verdict"].update(below=[[1, "x"]]),
        lambda r: r["totals"].update(cpu_s=1.0),
        lambda r: r["totals"]["counts"].update(rotations=1),
        lambda r: r["ledger"]["holder"].pop(),
        lambda r: r["limits"].pop(),
        lambda r: r["records"][3].update(wall_s=0.1),
        lambda r: r["records"].pop(),
        lambda r: r["begin"].update(gate_bits=1),
        lambda r: r["flow"].update(hops=9),
        lambda r: r.update(head="00" * 32),
        lambda r: r.update(extra=True),
        lambda r: r.pop("totals"),
        lambda r: r["measured"]["checkpoints"][0].update(number=True),
        lambda r: r["measured"]["checkpoints"][0]["against"]["exact"].update(bits="53"),
        lambda r: r["measured"].update(checkpoints=None),
    ],
    ids=range(16),
)
def test_one_edited_part_of_the_signer_is_found_without_the_key(folder, change):
    edit(folder, change, key=KEY)
    outcome, found = check(folder, with_key=False)
    assert outcome.outcome == FAILED
    assert "report" in failed(found)


def test_a_figure_left_out_is_found(folder):
    edit(folder, lambda r: r["measured"]["checkpoints"].pop(), key=KEY)
    assert failed(check(folder)[1]) == {"report", "precision"}


def test_a_fail_called_pass_is_found(tmp_path):
    run = make_run(tmp_path / "run", error=1e-3)
    write_report(run, tmp_path / "report")
    assert check(tmp_path)[0].verdict == "FAIL"
    edit(tmp_path, lambda r: r["verdict"].update(verdict="PASS", below=[]), key=KEY)
    assert failed(check(tmp_path, with_key=False)[1]) == {"report"}


def test_another_signer_is_found(folder):
    edit(folder, lambda r: None, key=STRANGER)
    assert failed(check(folder)[1]) == {"signature"}


def test_an_object_of_another_type_is_no_signature(folder):
    payload = encode({"report": bytes(32), "head": bytes(32)})
    signed = sign1(payload, typ="windhover/checkpoint;v=1", signer=SoftwareSigner(KEY))
    (folder / "report" / "report.cose").write_bytes(signed)
    assert failed(check(folder)[1]) == {"signature"}


def test_the_signature_of_another_report_is_found(folder):
    payload = encode({"report": bytes(32), "head": Run.open(folder / "run").head})
    signed = sign1(payload, typ="windhover/he-report;v=1", signer=SoftwareSigner(KEY))
    (folder / "report" / "report.cose").write_bytes(signed)
    assert failed(check(folder)[1]) == {"signature"}


def test_no_signature_is_no_signature(folder):
    (folder / "report" / "report.cose").unlink()
    assert failed(check(folder)[1]) == {"signature"}


def test_one_flipped_byte_of_a_ciphertext_is_found_without_the_key(folder):
    path = folder / "run" / "cts" / "00004.x.ct"
    data = bytearray(path.read_bytes())
    data[9] ^= 0x80
    path.write_bytes(data)
    assert failed(check(folder, with_key=False)[1]) == {"ciphertexts"}


@pytest.mark.parametrize("name", ["00000.x.ct", "p1.in.ct", "00007.logits1.ct"])
def test_a_removed_ciphertext_is_found(folder, name):
    (folder / "run" / "cts" / name).unlink()
    assert "ciphertexts" in failed(check(folder, with_key=False)[1])


def test_swapped_records_are_found(folder):
    first, second = (folder / "run" / "records" / f"0000{i}.rec" for i in (1, 2))
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    outcome, found = check(folder)
    assert failed(found) == {"records"}
    assert outcome.verdict == "INCOMPLETE"


def test_a_removed_record_is_found(folder):
    (folder / "run" / "records" / "00007.rec").unlink()
    assert failed(check(folder, with_key=False)[1]) == {"signature", "report"}
    (folder / "run" / "records" / "00003.rec").unlink()
    assert failed(check(folder, with_key=False)[1]) == {"records"}


def test_another_run_is_found(folder):
    shutil.rmtree(folder / "run")
    make_run(folder / "run", run_id=b"another run, yes")
    assert failed(check(folder)[1]) == {"signature", "report"}


def test_a_wrong_key_does_not_verify(folder):
    outcome, found = check(folder, key=1e31)
    assert failed(found) == {"precision"}
    assert "record 0, x" in next(f.detail for f in outcome.findings if f.name == "precision")


def test_references_of_another_prompt_do_not_verify(folder):
    assert failed(check(folder, seed=6)[1]) == {"precision"}


def test_another_model_is_found(folder):
    assert failed(check(folder, model_digest=bytes(32))[1]) == {"model"}


@pytest.mark.parametrize("wrong", [(bytes(32), bytes([3]) * 32), (bytes([2]) * 32, bytes(32))])
def test_another_plan_or_calibration_is_found(folder, wrong):
    assert failed(check(folder, plan_of=lambda begin: wrong)[1]) == {"plan"}


def test_parameters_below_their_security_are_found(tmp_path):
    run = make_run(tmp_path / "run", parameters=Parameters(8192, 9))
    write_report(run, tmp_path / "report")
    assert failed(check(tmp_path, with_key=False)[1]) == {"security"}


def test_a_security_line_that_says_too_much_is_found(tmp_path):
    run = make_run(tmp_path / "run", security="256 bits, standard table")
    write_report(run, tmp_path / "report")
    assert failed(check(tmp_path, with_key=False)[1]) == {"security"}


def test_a_claim_left_out_is_found(tmp_path):
    run = make_run(tmp_path / "run", claims=("All is safe.",))
    write_report(run, tmp_path / "report")
    assert failed(check(tmp_path, with_key=False)[1]) == {"claims"}


def test_a_level_that_the_parameters_lack_is_found(tmp_path):
    run = make_run(tmp_path / "run", parameters=Parameters(8192, 1), security="none")
    write_report(run, tmp_path / "report")
    assert "levels" in failed(check(tmp_path, with_key=False)[1])


def test_a_ciphertext_made_from_the_wrong_values_fails_the_gate_when_measured(tmp_path):
    run = make_run(tmp_path / "good")
    bad = Run.create(tmp_path / "run", run.begin)
    stale = run.read_blob(run.records[0].outputs[0])
    for name in ("p0.in", "p1.in"):
        bad.write_blob(name, (run.folder / "cts" / f"{name}.ct").read_bytes(), 2, 2.0**40)
    swapped = {}
    for record in run.records:
        data = [stale if b.name == "00001.x" else run.read_blob(b) for b in record.outputs]
        outputs = tuple(
            bad.write_blob(b.name, d, b.level, 2.0**40, values=b.values)
            for b, d in zip(record.outputs, data, strict=True)
        )
        swapped.update((blob.name, blob) for blob in outputs)
        inputs = tuple(swapped.get(blob.name, blob) for blob in record.inputs)
        bad.append(replace(record, inputs=inputs, outputs=outputs, previous=bad.head))
    write_report(bad, tmp_path / "report")
    outcome, found = check(tmp_path)
    assert failed(found) == set()
    assert outcome.verdict == "FAIL"


def test_a_folder_without_a_report_has_nothing_to_check(tmp_path):
    make_run(tmp_path / "run")
    with pytest.raises(CheckpointError, match="No such file"):
        check(tmp_path)


def test_a_report_without_figures_verifies_but_for_them(tmp_path):
    run = make_run(tmp_path / "run")
    write_report(run, tmp_path / "report", build_report(run, None))
    outcome, found = check(tmp_path)
    assert (outcome.outcome, found["precision"]) == (UNCHECKED, UNCHECKED)
