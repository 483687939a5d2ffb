from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

CRYPTO = Path(__file__).parents[2] / "crypto"
WITHOUT_NUMPY = (
    "crypto",
    "crypto.sm3",
    "crypto.merkle",
    "crypto.frontier",
    "crypto.cbor",
    "crypto.bulk",
)
WITH_NUMPY = ("crypto.sm3_rows", "crypto.frontier_array")


def loaded_by(modules):
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=CRYPTO.parent,
    )
    return {name.split(".")[0] for name in run.stdout.split()}


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        (WITHOUT_NUMPY, {"numpy", "numba"}),
        (WITH_NUMPY, {"numba"}),
    ],
    ids=["scalar", "rows"],
)
def test_imports_stay_light(modules, absent):
    assert not loaded_by(modules) & absent


def test_imports_nothing_of_ours():
    others = {"engine", "verifier", "he_chain", "appliance", "firmware"}
    for path in CRYPTO.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module]
            assert not {name.split(".")[0] for name in names} & others, path
