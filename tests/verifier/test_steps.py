"""Each step of SPEC.md: one case or more for each of its reasons, and what lets a bundle pass."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from crypto import cbor
from tests.verifier.bundle_case import (
    LOG,
    MODEL,
    NONCE,
    NOW,
    STARTED,
    Made,
    instant,
    sm3,
    trust_text,
)
from tests.verifier.step_cases import CASES, ID, NAMES, REQUIRED, keys, listed
from verifier.expectations import Expectations, Head
from verifier.verify import verify

SPEC = (Path(__file__).parents[2] / "verifier" / "SPEC.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("step", "reason", "verdict", "apply"), CASES)
def test_each_reason(step, reason, verdict, apply):
    made = Made()
    expected = apply(made) or {}
    report = made.verify(**expected)
    assert (report.verdict, report.reason) == (verdict, reason)
    result = {"FAIL": "failed", "INCOMPLETE": "open"}[verdict]
    assert (result, reason) in [(s.result, s.reason) for s in report.steps if s.number == step]
    assert [s.number for s in report.steps] == list(range(1, 26))


def reasons_of_the_specification():
    found = set()
    for row in re.findall(r"^\| ([0-9]+) \| (A[0-3]) \| [^|]* \| (.*) \|$", SPEC, re.MULTILINE):
        number, _, rest = row
        columns = rest.split(" | ")
        for column in columns[1:]:
            for reason in re.findall(r"`([a-z-]+(?:NAME)?)`", column):
                if reason not in {"revoke"}:
                    found.add((reason, int(number)))
    return found


def test_every_reason_of_the_specification_has_a_case():
    specified = reasons_of_the_specification()
    assert len(specified) > 50
    tested = {(param.values[1], param.values[0]) for param in CASES}
    for reason, step in specified:
        names = (
            [reason.replace("NAME", name.replace("_", "-")) for name in NAMES]
            if "NAME" in reason
            else [reason]
        )
        for name in names:
            assert (name, step) in tested


def test_a_valid_bundle_passes():
    report = Made().verify()
    assert (report.verdict, report.reason, report.exit_code) == ("PASS", "ok", 0)
    assert {step.result for step in report.steps} == {"passed"}


def test_expectations_that_hold_pass():
    made = Made()
    made.bundle()
    report = made.verify(
        signer=ID["attest"],
        model=MODEL,
        nonce=NONCE,
        after=STARTED,
        before=STARTED + 5000,
        request=b'{"messages":[]}',
        response=made.texts["transcript"],
        head=Head(11, made.root, LOG),
    )
    assert report.verdict == "PASS"


@pytest.mark.parametrize("whole", [True, False])
def test_expected_texts_stand_in_for_absent_ones(whole):
    made = Made()
    made.parts = {"request": None, "transcript": None}
    request = made.texts["request"] if whole else b'{"messages":[]}'
    report = made.verify(request=request, response=made.texts["transcript"])
    assert (report.verdict, report.reason) == ("PASS", "ok")
    assert made.verify(request=request).reason == "no-transcript"


def test_a_stand_in_is_looked_at():
    made = Made()
    made.texts["transcript"] = cbor.encode([[6, 0, 0, b"length"]])
    made.parts = {"transcript": None}
    assert made.verify(response=made.texts["transcript"]).reason == "finish-reason"


@pytest.mark.parametrize(
    "attributes",
    [
        {"revocations": listed(keys=[ID["attest"]])},
        keys(attest=("attest", f'not_after = "{instant(NOW // 1000)}"')),
        keys(weights=("weights", f'not_after = "{instant(NOW // 1000)}"')),
    ],
)
def test_a_pinned_head_helps_against_the_end_of_a_key(attributes):
    made = Made()
    for name, value in attributes.items():
        setattr(made, name, value)
    made.bundle()
    assert made.verify().verdict == "INCOMPLETE"
    assert made.verify(head=Head(11, made.root)).verdict == "PASS"
    assert made.verify(head=Head(11, bytes(32))).verdict == "FAIL"
    lapses = {step.reason for step in made.verify().steps} - {None}
    made.parts["inclusion"] = None
    report = made.verify(head=Head(11, made.root))
    assert {step.reason for step in report.steps} - {None} == lapses | {"no-inclusion"}


def test_a_pinned_head_does_not_help_a_revoked_release_key():
    made = Made()
    made.revocations = listed(keys=[ID["weights"]])
    made.bundle()
    assert made.verify(head=Head(11, made.root)).reason == "release-key-revoked"


def test_only_needed_rungs_must_be_settled_and_every_failure_counts():
    made = Made()
    made.parts = {"checkpoint": None, "transcript": None, "releases": []}
    assert made.verify(need=("A0",)).verdict == "PASS"
    assert [made.verify(need=(rung,)).reason for rung in ("A1", "A2", "A3")] == [
        "no-checkpoint",
        "no-transcript",
        "no-release",
    ]
    made.parts["transcript"] = b"x"
    assert made.verify(need=("A0",)).reason == "opens-transcript"


def test_a_head_without_a_checkpoint_is_not_passed_over():
    made = Made()
    made.parts = {"checkpoint": None}
    assert made.verify(need=("A0",), head=Head(3, bytes(32))).reason == "no-checkpoint"


def test_two_of_two_and_a_second_attest_key():
    made = Made()
    made.release_signers = ["weights", "weights2"]
    made.signers["checkpoint"] = "attest2"
    made.trust = trust_text(line='signers = ["weights", "weights2"]\nthreshold = 2\n')
    assert made.verify().verdict == "PASS"


@pytest.mark.parametrize("earlier", [0, 1, 2, 3, 4, 7, 8])
def test_earlier_heads(earlier):
    made = Made()
    made.earlier = earlier
    assert made.verify().verdict == "PASS"


def test_witnesses_are_reported():
    made = Made()
    made.cosignatures = ["witness", "stranger", "attest"]
    made.parts["cosignatures"] = [*made.objects()["cosignatures"], b"", b"\xd2"]
    report = made.verify()
    assert report.verdict == "PASS"
    assert [witness.name for witness in report.witnesses] == ["witness"]


def test_a_release_by_a_stranger_is_passed_over():
    made = Made()
    made.release_signers = ["stranger", "weights"]
    assert made.verify().verdict == "PASS"


def test_a_fresh_list_passes():
    made = Made()
    made.revocations = listed(keys=[bytes(32), sm3(b"x")], models=[bytes(32)])
    made.trust = trust_text(revocations=REQUIRED + "minimum_sequence = 5\nmaximum_age_days = 1\n")
    assert made.verify().verdict == "PASS"


def test_what_is_not_covered_is_not_opened():
    made = Made()
    made.statement[-70232] = 30
    report = made.verify()
    assert [step.reason for step in report.steps if step.number == 18] == ["no-request"]
    assert report.opened == ["output_ids", "prompt_ids", "trace", "transcript"]


def test_a_finish_reason_of_none_is_not_compared():
    made = Made()
    made.statement[-70227] = "none"
    assert made.verify().verdict == "PASS"


def test_an_error_without_output_has_no_trace():
    made = Made()
    made.statement |= {-70209: "error", -70227: "error", -70226: [3, 0], -70228: [0, 0, 0]}
    made.texts |= {"output_ids": b"", "trace": b"", "transcript": cbor.encode([])}
    assert made.verify().verdict == "PASS"


def test_the_time_of_verification_is_the_clock_by_default():
    made = Made()
    report = verify(made.bundle(), made.trust.encode(), Expectations())
    assert report.reason in {"ok", "from-the-future", "release-expired"}
