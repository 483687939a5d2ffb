"""The pages' modules in a process of Node, which wants to be told that they are modules."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.verifier.page.page_case import NODE, needs_node

__all__ = ["FOLDER", "needs_node", "run_cases"]

FOLDER = Path(__file__).resolve().parents[3] / "appliance/pages"
HARNESS = Path(__file__).with_name("harness.mjs")


def run_cases(*cases):
    """Return the answer of the pages' code to each case, in order."""
    with tempfile.TemporaryDirectory() as folder:
        for path in [*FOLDER.glob("*.js"), HARNESS]:
            shutil.copy(path, folder)
        Path(folder, "package.json").write_text('{"type": "module"}', encoding="utf-8")
        done = subprocess.run(
            [NODE, str(Path(folder, HARNESS.name))],
            input=json.dumps(cases).encode(),
            capture_output=True,
            check=True,
            timeout=60,
        )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(cases)
    return answers
