"""Software manifests: said, never believed without a key, and without influence on the verdict."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from crypto import cbor
from tests.verifier.bundle_case import NOW, Made, key_table, signer
from tests.verifier.mutations import Draws, encoded, flipped, value_edited, value_nudged
from tests.verifier.page.page_case import case_of, needs_node, run_cases
from tests.verifier.vectors_software import MANIFEST, OTHER, SOFTWARE, keys, manifest
from verifier.errors import UsageError
from verifier.expectations import Expectations
from verifier.verify import verify

CHECKOUT = Path(__file__).parents[2]
SPEC = (CHECKOUT / "verifier" / "SPEC.md").read_text(encoding="utf-8")
AT = ("--at", str(NOW))


def results_of_the_specification():
    _, _, table = SPEC.partition("| software result | where |")
    rows = re.match(r"\n\| --- \| --- \|\n((?:\|.*\n)+)", table)[1].splitlines()
    return {name for row in rows for name in re.findall(r"`([a-z-]+)`", row.split(" | ")[0])}


def test_every_result_of_the_specification_has_a_vector():
    found = {result for vector in SOFTWARE.vectors for result, *_ in vector.software}
    assert found == results_of_the_specification()
    assert len(found) == 9


@needs_node
def test_the_page_has_a_text_for_every_result():
    texts = run_cases([{"op": "strings"}])[0]["value"]
    named = {name.removeprefix("software ") for name in texts if name.startswith("software ")}
    assert named == results_of_the_specification()


def test_no_manifest_changes_a_verdict_or_a_step():
    for vector in SOFTWARE.vectors:
        bundle, trust, expected = vector.inputs()
        if vector.verdict is None:
            with pytest.raises(UsageError, match="at most 16"):
                Expectations(**expected)
            continue
        with_it = verify(bundle, trust, Expectations(**expected)).as_dict()
        without = verify(bundle, trust, Expectations(**expected | {"software": ()})).as_dict()
        assert with_it.pop("software") != without.pop("software") == []
        said = with_it["appliance_says"].pop("software release", None)
        assert (said is None) == ("ok" not in [result for result, *_ in vector.software])
        assert with_it == without


def test_nothing_of_a_manifest_that_is_not_believed_is_repeated():
    evil = manifest(MANIFEST | {-70301: "evil-product"}, name="stranger")
    made = Made()
    report = made.verify(software=(evil, manifest(OTHER), b"\xd2evil"))
    assert [one.result for one in report.software] == [
        "software-unknown-signer", "software-unknown-signer", "software-format",
    ]  # fmt: skip
    for text in (report.as_text(), report.as_json()):
        assert "evil" not in text
        assert "1.3.0" not in text
        assert "software release" not in text


@pytest.fixture
def folder(tmp_path):
    made = Made()
    made.trust = keys()
    (tmp_path / "a.bundle").write_bytes(made.bundle())
    (tmp_path / "trust.toml").write_text(made.trust)
    for name, data in (
        ("ok", manifest()),
        ("other", manifest(OTHER)),
        ("stranger", manifest(name="stranger")),
        ("long", manifest().ljust(100_000, b"\0")),
    ):
        (tmp_path / name).write_bytes(data)
    return tmp_path


def run(folder, *words):
    command = [sys.executable, "-m", "verifier", folder / "a.bundle", "--trust",
               folder / "trust.toml", *AT, *words]  # fmt: skip
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, cwd=CHECKOUT, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_the_command_takes_several(folder):
    words = [word for name in ("other", "ok", "stranger", "long") for word in
             ("--software", folder / name)]  # fmt: skip
    code, out, err = run(folder, *words)
    assert (code, out.splitlines()[0], err) == (0, "PASS: ok", "")
    _, _, said = out.partition("The appliance says (not verified)\n")
    assert "  software release: windhover 1.2.3, signed by software\n" in said
    assert (
        "Software manifests (no influence on the verdict)\n"
        "   1 software-differs: windhover 1.3.0, signed by software\n"
        "   2 ok: windhover 1.2.3, signed by software\n"
        "   3 software-unknown-signer\n"
        "   4 software-format\n"
    ) in out
    code, out, _ = run(folder, f"--software={folder / 'ok'}", "--json")
    assert json.loads(out)["software"] == [
        {"result": "ok", "release": "windhover 1.2.3", "signed_by": "software"}
    ]
    assert "Software manifests" not in run(folder)[1]


def test_what_cannot_be_used_is_no_verdict(folder):
    assert run(folder, "--software", folder / "nowhere")[0] == 2
    assert run(folder, "--software")[0] == 2
    assert run(folder, *["--software", folder / "ok"] * 17)[0] == 2
    (folder / "several").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "verifier", str(folder / "several"), "--trust",
         str(folder / "trust.toml"), "--software", str(folder / "ok")],
        capture_output=True, text=True, cwd=CHECKOUT, check=False,
    )  # fmt: skip
    assert (done.returncode, "single bundle" in done.stderr) == (2, True)


def drawn(draws):
    """Return a manifest that is not what it was: its bytes, its payload, or its claims."""
    name = draws.one_of(("software", "software", "software", "stranger", "weights"))
    match draws.below(4):
        case 0:
            return flipped(manifest(name=name), draws)
        case 1:
            return manifest(flipped(cbor.encode(MANIFEST), draws), name=name)
        case 2:
            return manifest(encoded(value_edited(MANIFEST, draws), draws), name=name)
        case _:
            return manifest(cbor.encode(value_nudged(MANIFEST, draws)), name=name)


@needs_node
def test_both_programs_agree_on_altered_manifests():
    draws = Draws("software")
    made = Made()
    made.trust = keys() + key_table("stranger", "witness")
    bundle, trust = made.bundle(), made.trust.encode()
    assert signer("software").key_id != signer("stranger").key_id
    manifests = [tuple(drawn(draws) for _ in range(16)) for _ in range(40)]
    cache = {}
    wanted = []
    for given in manifests:
        report = verify(bundle, trust, Expectations(at=NOW, software=given), cache)
        assert (report.verdict, report.reason) == ("PASS", "ok")
        wanted.append([[one.result, one.release, one.signer] for one in report.software])
    answers = run_cases([case_of(bundle, trust, at=NOW, software=given) for given in manifests])
    assert [answer["value"]["software"] for answer in answers] == wanted
    results = {result for each in wanted for result, *_ in each}
    assert results == {"ok", "software-differs", "software-format", "software-unknown-signer",
                       "software-bad-signature"}  # fmt: skip
