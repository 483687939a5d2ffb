"""The file verify.html: made of its parts, in two languages, with no way out."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys

import pytest

from tests.verifier.page.page_case import CHECKOUT, PAGE, needs_node, run_cases
from verifier import build_page

SPEC = (CHECKOUT / "verifier/SPEC.md").read_text(encoding="utf-8")
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_file_is_what_its_parts_make():
    """`python verifier/build_page.py` writes it again."""
    assert PAGE.read_bytes() == build_page.page()


def test_it_is_built_in_any_place(tmp_path):
    target = tmp_path / "verifier"
    (target / "page").mkdir(parents=True)
    for path in [CHECKOUT / "verifier/build_page.py", *(CHECKOUT / "verifier/page").iterdir()]:
        (target / path.relative_to(CHECKOUT / "verifier")).write_bytes(path.read_bytes())
    subprocess.run([sys.executable, "-I", str(target / "build_page.py")], check=True)
    assert (target / "verify.html").read_bytes() == PAGE.read_bytes()


def test_every_part_is_used():
    files = {path.name for path in (CHECKOUT / "verifier/page").iterdir()}
    assert files == {f"{name}.js" for name in build_page.SCRIPTS} | {"page.css", "frame.txt"}
    for path in (CHECKOUT / "verifier/page").iterdir():
        assert len(path.read_text(encoding="utf-8").splitlines()) < 500


def policy():
    found = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', TEXT)
    return dict(part.strip().split(" ", 1) for part in found[1].split(";"))


@pytest.mark.parametrize(("tag", "directive"), [("script", "script-src"), ("style", "style-src")])
def test_the_policy_names_what_is_in_the_page(tag, directive):
    found = re.findall(f"<{tag}>(.*?)</{tag}>", TEXT, re.DOTALL)
    assert len(found) == 1
    assert TEXT.count(f"<{tag}") == 1
    digest = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
    assert policy()[directive] == f"'sha256-{digest}'"


def test_the_policy_forbids_the_rest():
    assert policy()["default-src"] == "'none'"
    assert policy()["base-uri"] == policy()["form-action"] == "'none'"
    assert policy()["trusted-types"] == "'none'"
    assert TEXT.index("Content-Security-Policy") < TEXT.index("<style>") < TEXT.index("<script>")


@pytest.mark.parametrize(
    "forbidden",
    ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
     "fetch(", "XMLHttpRequest", "WebSocket", "import(", "localStorage", "http://www.example"],
)  # fmt: skip
def test_the_script_does_without(forbidden):
    assert forbidden not in TEXT


def test_nothing_is_loaded_and_no_handler_is_inline():
    assert re.findall(r'https?://[^"\s]*', TEXT) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<(?:link|img|iframe|object|embed|base)\b", TEXT)
    assert not re.search(r"<[^>]*\s(?:on[a-z]+|style|src|srcset)=", TEXT.split("<script>")[0])


@needs_node
def test_every_text_is_there_in_both_languages():
    texts = run_cases([{"op": "strings"}])[0]["value"]
    assert len(texts) > 250
    for name, pair in texts.items():
        assert len(pair) == 2, name
        english, chinese = pair
        assert english.isascii() or set(english) & set("…“”·"), name
        letters = re.sub(r"[^a-zA-Z\u4e00-\u9fff]", "", chinese)
        assert re.search(r"[\u4e00-\u9fff]", letters), name
        assert sorted(re.findall(r"\{[a-z]+\}", english)) == sorted(
            re.findall(r"\{[a-z]+\}", chinese)
        ), name


@needs_node
def test_every_text_that_is_used_is_there():
    texts = run_cases([{"op": "strings"}])[0]["value"]
    used = set(re.findall(r'data-(?:text|label)="([A-Za-z0-9]+)"', TEXT))
    used |= set(re.findall(r'(?<![.\w])text\("([A-Za-z0-9]+)"', TEXT))
    assert len(used) > 80
    assert used <= texts.keys()


@needs_node
def test_every_step_and_reason_of_the_specification_has_a_text():
    texts = run_cases([{"op": "strings"}])[0]["value"]
    steps, reasons = set(), set()
    for row in re.findall(r"^\| ([0-9]+) \| A[0-3] \|[^|]*\|[^|]*\|(.*)\|$", SPEC, re.MULTILINE):
        steps.add(row[0])
        for reason in re.findall(r"`([a-z-]+(?:NAME)?)`", row[1]):
            for name in ("request", "prompt-ids", "transcript", "output-ids", "trace"):
                reasons.add(reason.replace("NAME", name))
    assert len(steps) == 25
    assert len(reasons) > 70
    reasons -= {"revoke", "weights", "threshold"}
    assert {f"reason {reason}" for reason in reasons} <= texts.keys()
    assert {f"step {number} {i}" for number in steps for i in range(3)} <= texts.keys()
    extra = {name for name in texts if name.startswith("reason ")} - {
        f"reason {reason}" for reason in reasons
    }
    assert extra == {"reason usage", "reason internal"}
