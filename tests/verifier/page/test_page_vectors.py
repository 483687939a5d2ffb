"""The vectors of crypto through the code of the page."""

from __future__ import annotations

import base64

import pytest

from tests.verifier.page.page_case import bytes_of, needs_node, run_cases, vectors

pytestmark = needs_node
SPKI = "3059301306072a8648ce3d020106082a811ccf5501822d034200"


def compare(cases, wanted):
    """Compare answers with what the vectors say and name those that differ."""
    found = run_cases(cases)
    differ = [
        (case, answer, want)
        for case, answer, want in zip(cases, found, wanted, strict=True)
        if answer != want
    ]
    assert not differ


def values(wanted):
    return [{"value": value} for value in wanted]


def test_sm3():
    tests = [test for group in vectors("sm3.json")["groups"] for test in group["tests"]]
    assert len(tests) > 10
    cases = [{"op": "sm3", "data": test["message"]} for test in tests]
    cases += [{"op": "sm3_pieces", "data": test["message"], "size": 37} for test in tests]
    compare(cases, values([test["digest"] for test in tests] * 2))


def test_sm2_signatures():
    found = vectors("sm2.json")
    standard = found["standard"]
    good = [standard, *found["leading_zeros"]]
    bad = [standard | test for test in found["invalid_signatures"]]
    assert len(bad) > 15
    cases = [
        {
            "op": "sm2",
            "spki": SPKI + test.get("public_key", standard["public_key"]),
            "message": test.get("message", standard["message"]),
            "signature": test["signature"],
        }
        for test in good + bad
    ]
    compare(cases, values([True] * len(good) + [False] * len(bad)))


def test_sm2_keys():
    standard = vectors("sm2.json")["standard"]
    point = standard["public_key"]
    spki = SPKI + point
    wrong = [
        spki[:-2],
        spki + "00",
        SPKI + "06" + point[2:],
        SPKI + point[:-2] + "12",
        SPKI + "04" + "00" * 64,
        SPKI + "04" + "ff" * 32 + point[66:],
    ]
    keys = vectors("trust_valid.json")["keys"].values()
    cases = [{"op": "key_id", "spki": text} for text in wrong]
    compare(cases, [{"rule": "public-key", "offset": 0}] * len(wrong))
    cases = [{"op": "key_id", "spki": base64.b64decode(key["public_key"]).hex()} for key in keys]
    compare(cases, values([key["key_id"] for key in keys]))


def test_cbor_valid():
    tests = vectors("cbor_valid.json")["tests"]
    cases = [{"op": "cbor", "data": test["hex"]} for test in tests]
    compare(cases, values([test["value"] for test in tests]))


def test_cbor_invalid():
    tests = vectors("cbor_invalid.json")["tests"]
    assert len(tests) > 100
    cases = [{"op": "cbor", "data": test["hex"]} | test.get("limits", {}) for test in tests]
    compare(cases, [{"rule": test["rule"], "offset": test["offset"]} for test in tests])


def test_cose():
    tests = vectors("cose.json")["tests"]
    cases = [{"op": "cose", "data": test["data"], "max_bytes": 65_536} for test in tests]
    found = [answer["value"] for answer in run_cases(cases)]
    assert [(part["typ"], part["payload"]) for part in found] == [
        (test["typ"], test["payload"]) for test in tests
    ]


def test_cose_invalid():
    tests = vectors("cose_invalid.json")["tests"]
    cases = [{"op": "cose", "data": t["data"], "max_bytes": t["max_bytes"]} for t in tests]
    found = [answer.get("rule") for answer in run_cases(cases)]
    assert found == [test["rule"] for test in tests]


def test_merkle():
    found = vectors("merkle.json")
    roots = {entry["size"]: entry["root"] for entry in found["roots"]}
    leaves = [
        answer["value"]
        for answer in run_cases([{"op": "leaf", "entry": entry} for entry in found["entries"]])
    ]
    good, bad = [], []
    for test in found["inclusion"]:
        case = {"op": "inclusion", "root": roots[test["size"]], "leaf": leaves[test["index"]]}
        case |= test
        good.append(case)
        bad.append(case | {"proof": [*test["proof"], "00" * 32]})
        bad.append(case | {"leaf": "00" * 32})
        bad.append(case | {"index": test["size"]})
        bad += [case | {"proof": test["proof"][:-1]}] if test["proof"] else []
    for test in found["consistency"]:
        old, new = test["old_size"], test["new_size"]
        case = {"op": "consistency", "old_root": roots[old], "new_root": roots[new]} | test
        good.append(case)
        bad.append(case | {"proof": [*test["proof"], "00" * 32]})
        bad.append(case | {"old_root": "00" * 32})
        bad += [case | {"new_root": "00" * 32}] if old else []
        bad += [case | {"proof": test["proof"][1:]}] if test["proof"] else []
    compare(good + bad, values([True] * len(good) + [False] * len(bad)))


@pytest.mark.parametrize("op", ["toml", "trust"])
def test_trust_invalid(op):
    tests = vectors("trust_invalid.json")[op]
    assert len(tests) > 90
    cases = [{"op": op, "data": bytes_of(test).hex()} for test in tests]
    compare(cases, [{"rule": test["rule"], "offset": test["offset"]} for test in tests])


def test_toml_valid():
    tests = vectors("trust_valid.json")["toml"]
    cases = [{"op": "toml", "data": bytes_of(test).hex()} for test in tests]
    compare(cases, values([test["value"] for test in tests]))


def test_trust_valid():
    tests = vectors("trust_valid.json")["trust"]
    cases = [{"op": "trust", "data": bytes_of(test).hex()} for test in tests]
    for answer, test in zip(run_cases(cases), tests, strict=True):
        found, want = answer["value"], dict(test["value"])
        revocations = dict(want.pop("revocations"))
        age = revocations["maximum_age_s"]
        assert found.pop("revocations") == {
            "required": revocations["required"],
            "minimumSequence": revocations["minimum_sequence"],
            "maximumAgeDays": None if age is None else age // 86_400,
        }
        assert found.pop("logs") == sorted(want.pop("logs"))
        lines = {
            name: line | {"signer_ids": sorted(line["signer_ids"])}
            for name, line in want.pop("lines").items()
        }
        assert found.pop("lines") == lines
        assert found == want


def test_transcripts():
    found = vectors("transcript.json")
    good = [{"op": "transcript", "data": test["data"]} for test in found["valid"]]
    compare(good, values([len(test["entries"]) for test in found["valid"]]))
    bad = [{"op": "transcript", "data": test["data"]} for test in found["invalid"]]
    assert all("rule" in answer for answer in run_cases(bad))


def test_evidence():
    """Each payload with one thing wrong is refused; the valid ones are read."""
    kinds = {"statement", "admission", "checkpoint", "cosignature"}
    good = [test for test in vectors("evidence.json")["valid"] if test["type"] in kinds]
    bad = [test for test in vectors("evidence_invalid.json")["tests"] if test["type"] in kinds]
    assert len(good) > 5
    assert len(bad) > 100
    cases = [{"op": "claims", "kind": t["type"], "payload": t["data"]} for t in good + bad]
    found = run_cases(cases)
    assert [answer.get("value") for answer in found[: len(good)]] == [True] * len(good)
    read = [
        t["id"] for t, answer in zip(bad, found[len(good) :], strict=True) if "rule" not in answer
    ]
    assert not read


def test_one_signature_takes_no_time():
    """A bound far above what it takes: a wrong algorithm would take seconds."""
    standard = vectors("sm2.json")["standard"]
    case = {"op": "sm2_seconds", "spki": SPKI + standard["public_key"], "times": 10}
    case |= {name: standard[name] for name in ("message", "signature")}
    assert run_cases([case])[0]["value"] < 1
