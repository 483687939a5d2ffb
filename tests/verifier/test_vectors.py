"""Both programs on every vector: verdict, reason, each step and the witnesses."""

from __future__ import annotations

import json
import re

import pytest

from tests.verifier.make_vectors import TARGET, made_files
from tests.verifier.page.page_case import case_of, needs_node, run_cases
from tests.verifier.step_cases import NAMES
from tests.verifier.test_steps import reasons_of_the_specification
from verifier.batch import verify_all
from verifier.errors import UsageError
from verifier.expectations import Expectations, Head
from verifier.trust import Trust
from verifier.verify import verify

INDEX = json.loads((TARGET / "index.json").read_text(encoding="utf-8"))
VECTORS = INDEX["vectors"]
RUNGS = {number: f"A{(number > 9) + (number > 17) + (number > 21)}" for number in range(1, 26)}
OF_BYTES = ("signer", "model", "nonce", "request", "response", "head_checkpoint")


def data(name):
    return (TARGET / name).read_bytes()


def expectations(vector):
    """Return what Expectations takes, a checkpoint as its bytes."""
    given = vector["expectations"]
    found = {
        name: bytes.fromhex(given[name]) if name in OF_BYTES else given[name] for name in given
    }
    if "software" in given:
        found["software"] = tuple(map(data, given["software"]))
    return found


def wanted(vector):
    """Return verdict, reason, the report's list of steps, witnesses, and software."""
    steps = {number: [number, "passed", None] for number in range(1, 26)}
    steps |= {entry[0]: entry for entry in vector["not_passed"]}
    listed = [
        {"step": number, "rung": RUNGS[number], "result": result, "reason": reason}
        for number, result, reason in steps.values()
    ]
    if vector["verdict"] is None:
        listed = []
    more = vector.get("witnesses", []), vector.get("software", [])
    return vector["verdict"], vector["reason"], listed, *more


SIGNATURES: dict = {}  # by object: an object names its key, so the trust file changes nothing


def judged_in_python(vector):
    expected = expectations(vector)
    if "head" in expected:
        expected["head"] = Head.parse(expected["head"])
    if "head_checkpoint" in expected:
        expected["head"] = Head.of_checkpoint(expected.pop("head_checkpoint"))
    try:
        bundle, trust = data(vector["bundle"]), data(vector["trust"])
        report = verify(bundle, trust, Expectations(**expected), SIGNATURES)
    except UsageError:
        return None, "usage", [], [], []
    shown = report.as_dict()
    software = [list(one.values()) for one in shown["software"]]
    witnesses = [witness.name for witness in report.witnesses]
    return report.verdict, report.reason, shown["steps"], witnesses, software


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_python(vector):
    assert judged_in_python(vector) == wanted(vector)


def agree_in_javascript(vectors):
    cases = [
        case_of(data(vector["bundle"]), data(vector["trust"]), **expectations(vector))
        for vector in vectors
    ]
    differ = []
    for vector, answer in zip(vectors, run_cases(cases), strict=True):
        found = answer["value"]
        parts = found["verdict"], found["reason"], found["steps"], found.get("witnesses") or []
        parts = *parts, found.get("software") or []
        if parts != wanted(vector):
            differ.append((vector["name"], parts, wanted(vector)))
    assert not differ


@needs_node
def test_javascript_on_one_vector_of_each_reason():
    firsts = {(vector["verdict"], vector["reason"]): vector for vector in reversed(VECTORS)}
    assert len(firsts) > 80
    agree_in_javascript(list(firsts.values()))


@needs_node
@pytest.mark.slow
@pytest.mark.ci
def test_javascript_on_all():
    agree_in_javascript(VECTORS)


@pytest.mark.parametrize("batch", INDEX["batches"], ids=[part["name"] for part in INDEX["batches"]])
def test_batches(batch):
    bundles = [(f"{place}", data(name)) for place, name in enumerate(batch["bundles"])]
    found = verify_all(bundles, Trust(data(batch["trust"])), Expectations(**batch["expectations"]))
    assert found.outcome == (batch["verdict"], batch["reason"])


@pytest.mark.slow
@pytest.mark.ci
def test_the_same_bytes_are_made_again():
    """What was given out as version 1 stays as it is; the script makes all of it."""
    files = made_files()
    kept = {path.relative_to(TARGET).as_posix() for path in TARGET.rglob("*") if path.is_file()}
    assert kept == {*files, "README.md"}
    assert [name for name, content in files.items() if data(name) != content] == []


def test_every_reason_and_the_size():
    found = {(reason, step) for vector in VECTORS for step, _, reason in vector["not_passed"]}
    missing = set()
    for reason, step in reasons_of_the_specification():
        names = [name.replace("_", "-") for name in NAMES] if "NAME" in reason else [""]
        missing |= {(reason.replace("NAME", name), step) for name in names} - found
    assert not missing
    assert {v["verdict"] for v in VECTORS} == {"PASS", "FAIL", "INCOMPLETE", None}
    assert len({vector["name"] for vector in VECTORS}) == len(VECTORS) > 350
    assert sum(path.stat().st_size for path in TARGET.rglob("*") if path.is_file()) < 1_600_000


def test_the_readme_counts():
    text = (TARGET / "README.md").read_text(encoding="utf-8")
    assert re.search(r"\b(\d+) vectors\b", text)[1] == str(len(VECTORS))
    assert re.search(r"\b(\d+) batches\b", text)[1] == str(len(INDEX["batches"]))
