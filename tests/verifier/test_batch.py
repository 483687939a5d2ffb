"""Bundles of one log verified together, and contradictions among them."""

from __future__ import annotations

import pytest

from tests.verifier.bundle_case import LOG, NOW, Made
from verifier.batch import Batch, verify_all
from verifier.expectations import Expectations
from verifier.trust import Trust

EXPECTED = Expectations(at=NOW)


def together(*made):
    trust = Trust(made[0].trust.encode())
    bundles = [(f"{i}.bundle", one.bundle()) for i, one in enumerate(made)]
    return verify_all(bundles, trust, EXPECTED)


def test_the_worst_verdict_counts():
    good, less, wrong = Made(), Made(), Made()
    less.parts = {"transcript": None}
    wrong.parts = {"transcript": b""}
    assert (together(good, good).outcome, together(good, good).exit_code) == (("PASS", "ok"), 0)
    batch = together(good, less, good)
    assert (batch.outcome, batch.exit_code) == (("INCOMPLETE", "no-transcript"), 3)
    batch = together(good, less, wrong)
    assert (batch.outcome, batch.exit_code) == (("FAIL", "opens-transcript"), 1)
    assert "1 FAIL, 1 INCOMPLETE, 1 PASS" in batch.as_text()


def other_statement(made):
    made.statement[-70216] = "another"


def other_root(made):
    made.statement[-70203] = 9
    made.statement[-70231] = [6, bytes(32)]


def other_log(made):
    for claims in (made.statement, made.admission, made.checkpoint):
        claims[-70202] = bytes(32)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (other_statement, "batch-sequence"),
        (other_root, "batch-root"),
        (other_log, "batch-log"),
    ],
)
def test_contradictions(change, reason):
    other = Made()
    change(other)
    batch = together(Made(), other)
    assert batch.outcome == ("FAIL", reason)


def test_what_is_not_signed_contradicts_nothing():
    other = Made()
    other_log(other)
    other.flip = {"statement"}
    assert together(Made(), other).outcome[1] == "statement-signature"


def test_a_checkpoint_that_does_not_verify_contradicts_nothing():
    other = Made()
    other.checkpoint[-70242] = bytes(32)
    other.flip = {"checkpoint"}
    assert together(Made(), other).outcome[1] == "checkpoint-signature"
    other.flip = set()
    assert together(Made(), other).outcome[1] == "batch-root"


def test_a_shared_checkpoint_is_verified_once(monkeypatch):
    from verifier import cose

    calls = []
    verifies = cose.Sign1.verifies
    monkeypatch.setattr(
        cose.Sign1, "verifies", lambda self, key: calls.append(self.typ) or verifies(self, key)
    )
    made = Made()
    data = made.bundle()
    bundles = [(str(i), data) for i in range(5)]
    batch = verify_all(bundles, Trust(made.trust.encode()), EXPECTED)
    assert batch.outcome == ("PASS", "ok")
    assert sorted(calls) == [
        f"windhover/{kind};v=1" for kind in ("admission", "checkpoint", "release", "statement")
    ]
    assert LOG in Trust(made.trust.encode()).logs


def test_the_json_form():
    batch = together(Made())
    assert isinstance(batch, Batch)
    assert batch.as_dict()["bundles"] == {"0.bundle": {"verdict": "PASS", "reason": "ok"}}
