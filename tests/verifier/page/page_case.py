"""The page's code in a process of Node: many cases at a time."""

from __future__ import annotations

import base64
import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
PAGE = CHECKOUT / "verifier/verify.html"
DATA = CHECKOUT / "tests/data/crypto"
HARNESS = Path(__file__).with_name("harness.js")


def find_node():
    """Return the system's Node, else the one that Playwright brings, else None."""
    driver = importlib.util.find_spec("playwright")
    if (found := shutil.which("node")) or driver is None or driver.origin is None:
        return found
    bundled = Path(driver.origin).parent / "driver/node"
    return str(bundled) if bundled.is_file() else None


NODE = find_node()
needs_node = pytest.mark.skipif(NODE is None, reason="the page's code runs under Node: none here")


def run_cases(cases, page=PAGE):
    """Return the page's answer to each case, in order."""
    done = subprocess.run(
        [NODE, str(HARNESS), str(page)],
        input=json.dumps(cases).encode(),
        capture_output=True,
        check=True,
        timeout=300,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(cases)
    return answers


def b64(data):
    return base64.b64encode(data).decode("ascii")


def case_of(bundle, trust, **expected):
    """Return a case for the harness from the bytes and from what Expectations takes."""
    given = {name: value for name, value in expected.items() if value is not None}
    for name in ("signer", "model", "nonce"):
        if name in given:
            given[name] = given[name].hex()
    for name in ("request", "response", "head_checkpoint"):
        if name in given:
            given[name] = b64(given[name])
    if "software" in given:
        given["software"] = list(map(b64, given["software"]))
    if "need" in given:
        given["need"] = list(given["need"])
    return {"bundle": b64(bundle), "trust": b64(trust), "expectations": given}


def vectors(name):
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def bytes_of(case):
    """Return the bytes of a vector: its text, hexadecimal, or parts with repetitions."""
    if "hex" in case:
        return bytes.fromhex(case["hex"])
    if "parts" in case:
        return "".join(text * count for text, count in case["parts"]).encode("utf-8")
    return case["text"].encode("utf-8")
