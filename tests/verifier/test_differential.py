"""Altered inputs through both programs: they agree on every step, and neither gives way."""

from __future__ import annotations

import time

import pytest

from crypto import cbor
from tests.verifier.drawn_cases import ANSWERS, BASES, drawn_case, payload_of, trusting
from tests.verifier.mutations import (
    Draws,
    answer_edited,
    encoded,
    flipped,
    trust_edited,
    value_edited,
    value_nudged,
)
from tests.verifier.page.page_case import b64, case_of, needs_node, run_cases
from tests.verifier.vectors_texts import RICH
from verifier import objects, transcript
from verifier.cose import decode_sign1
from verifier.errors import MalformedError, UsageError
from verifier.expectations import Expectations, Head
from verifier.responses import reduce
from verifier.trust import Trust
from verifier.verify import verify

pytestmark = needs_node

CHUNK = 500


def judged(bundle, trust, expected):
    """Return what Python says: verdict, reason, steps and witnesses."""
    expected = dict(expected)
    try:
        if "head_checkpoint" in expected:
            expected["head"] = Head.of_checkpoint(expected.pop("head_checkpoint"))
        report = verify(bundle, trust, Expectations(**expected))
    except UsageError:
        return None, "usage", [], []
    steps = report.as_dict()["steps"]
    return report.verdict, report.reason, steps, [witness.name for witness in report.witnesses]


def in_javascript(case):
    bundle, trust, expected = case
    expected = dict(expected)
    if "head" in expected:
        expected["head"] = f"{expected['head'].size}:{expected['head'].root.hex()}"
    return case_of(bundle, trust, **expected)


def compare(seed, count):
    """Compare a number of cases; return the verdicts, and every step with a reason it had."""
    draws = Draws(seed)
    cases = [drawn_case(draws) for _ in range(count)]
    verdicts, reasons, differ = [], set(), []
    for case, answer in zip(cases, run_cases(list(map(in_javascript, cases))), strict=True):
        value = answer["value"]
        found = value["verdict"], value["reason"], value["steps"], value.get("witnesses") or []
        wanted = judged(*case)
        if found != wanted or wanted[1] == "internal":
            differ.append((seed, [case], wanted, found))
        verdicts.append(wanted[0])
        reasons |= {(step["step"], step["reason"]) for step in wanted[2] if step["reason"]}
    assert not differ
    return verdicts, reasons


def test_altered_inputs():
    verdicts, reasons = compare("differential", 240)
    assert set(verdicts) == {"PASS", "FAIL", "INCOMPLETE", None}
    assert len(reasons) > 60


def same(cases, wanted):
    """Check that the page refuses what is None, and else says the same; return how many pass."""
    answers = [answer.get("value") for answer in run_cases(cases)]
    differ = [part for part in zip(cases, wanted, answers, strict=True) if part[1] != part[2]]
    assert not differ
    return sum(value is not None for value in wanted)


def read_or_none(read, *arguments, **options):
    try:
        return read(*arguments, **options)
    except MalformedError:
        return None


def drawn_value(value, draws):
    """Return the encoding of a value that was altered, now and then in another form."""
    for _ in range(draws.below(3)):
        value = draws.one_of((value_edited, value_nudged, value_nudged))(value, draws)
    data = encoded(value, draws) if draws.below(3) == 0 else cbor.encode(value)
    return flipped(data, draws) if draws.below(9) == 0 else data


PARTS = BASES[1][0] | {kind: BASES[1][0][f"{kind}s"][0] for kind in ("release", "cosignature")}
KINDS = ("statement", "admission", "checkpoint", "cosignature", "revocations", "release")


def test_altered_payloads():
    draws, cases, wanted = Draws("payloads"), [], []
    for _ in range(1500):
        kind = draws.one_of(KINDS)
        data = drawn_value(cbor.decode(payload_of(PARTS[kind])), draws)
        cases.append({"op": "claims", "kind": kind, "payload": data.hex()})
        read = getattr(objects, f"read_{kind}")
        wanted.append(True if read_or_none(read, data) is not None else None)
    assert 300 < same(cases, wanted) < 1200


def test_altered_objects():
    draws, cases, wanted = Draws("objects"), [], []
    for _ in range(1000):
        parts = cbor.decode(PARTS[draws.one_of(KINDS)][1:])
        if draws.below(2):
            parts[0] = drawn_value(cbor.decode(parts[0]), draws)
        data = b"\xd2" + (cbor.encode(parts) if draws.below(2) else drawn_value(parts, draws))
        cases.append({"op": "cose", "data": data.hex(), "max_bytes": 65_536})
        found = read_or_none(decode_sign1, data, 65_536)
        wanted.append(
            found
            and {"typ": found.typ, "key_id": found.key_id.hex(), "payload": found.payload.hex()}
        )
    assert 100 < same(cases, wanted) < 900


def test_altered_transcripts():
    draws = Draws("transcripts")
    found = [drawn_value(RICH, draws) for _ in range(1000)]
    cases = [{"op": "transcript", "data": data.hex()} for data in found]
    entries = [read_or_none(transcript.decode, data) for data in found]
    assert 100 < same(cases, [None if part is None else len(part) for part in entries]) < 900


def test_altered_answers():
    draws, cases, wanted = Draws("answers"), [], []
    for _ in range(2000):
        data, partial = answer_edited(draws.one_of(ANSWERS), draws), bool(draws.below(2))
        cases.append({"op": "reduce", "data": b64(data), "partial": partial})
        entries = read_or_none(reduce, data, partial=partial)
        wanted.append(None if entries is None else transcript.encode(entries).hex())
    assert 150 < same(cases, wanted) < 1850


def shown(trust):
    """Return what a trust file says, in the words of the harness."""
    return {
        "keys": {
            key_id.hex(): [key.name, key.role, key.not_before, key.not_after]
            for key_id, key in trust.keys.items()
        },
        "lines": {
            name: [sorted(map(bytes.hex, line.signer_ids)), line.threshold, line.minimum_release]
            for name, line in trust.lines.items()
        },
        "revocations": [
            trust.revocations_required,
            trust.minimum_sequence,
            trust.maximum_age_days or None,
        ],
        "logs": sorted(map(bytes.hex, trust.logs)),
        "digest": trust.digest.hex(),
    }


def test_altered_trust_files():
    draws, files = Draws("trust files"), []
    for _ in range(600):
        data = trusting(draws).encode() if draws.below(2) else draws.one_of(BASES)[1]
        files.append(trust_edited(data, draws))
    answers = [
        answer.get("value")
        for answer in run_cases([{"op": "trust", "data": d.hex()} for d in files])
    ]
    num_read = 0
    for data, answer in zip(files, answers, strict=True):
        trust = read_or_none(Trust, data)
        assert (trust is None) == (answer is None), data
        if trust is not None:
            num_read += 1
            found = {name: answer[name] for name in ("digest", "logs")}
            for name in ("keys", "lines"):
                found[name] = {key: list(part.values()) for key, part in answer[name].items()}
            found["revocations"] = list(answer["revocations"].values())
            assert shown(trust) == found, data
    assert 50 < num_read < 550


@pytest.mark.slow
def test_many_altered_inputs():
    """20,000 cases, or as many as five minutes allow."""
    found = set()
    end = time.monotonic() + 300
    for number in range(20_000 // CHUNK):
        _, reasons = compare(f"differential {number}", CHUNK)
        found |= reasons
        if time.monotonic() > end:
            break
    assert len(found) > 90
