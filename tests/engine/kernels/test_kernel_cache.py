"""Compiled kernels are the same from build to build, and the cache is used.

The files of the cache are byte-identical for builds of one checkout; they hold the path of their
source, so between checkouts in different places it is the machine code that is compared.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from simd.target import CACHE_SETTING
from tests.simd.test_target import copied_packages

CHECKOUT = Path(__file__).parents[3]
COMPILE = """
import json
from engine.kernels import ops
kernels = [ops.norm, ops.rotate, ops.linear_q4_0]
print(json.dumps([(kernel.compiled.cache_hits, kernel.name) for kernel in kernels]))
"""
ASSEMBLY = """
import hashlib, json
from engine.kernels import ops
from engine.kernels.build import SIGNATURE
from numba import cfunc
texts = [cfunc(SIGNATURE)(k.function)._library.get_asm_str() for k in (ops.norm, ops.linear_q4_0)]
print(json.dumps([hashlib.sha256(text.encode()).hexdigest() for text in texts]))
"""


def run(program: str, checkout: Path, cache: Path) -> Any:
    """Run a program on the engine of a checkout with a kernel cache of its own."""
    settings = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    result = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        cwd=checkout,
        env=settings | {CACHE_SETTING: str(cache), "PYTHONPATH": str(checkout)},
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def files_of(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_two_builds_give_the_same_files_and_the_next_run_uses_them(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert {hits for hits, _ in run(COMPILE, CHECKOUT, first)} == {0}
    assert {hits for hits, _ in run(COMPILE, CHECKOUT, second)} == {0}
    files = files_of(first)
    assert sum(name.endswith(".nbc") for name in files) >= 3
    assert files == files_of(second)
    assert {hits for hits, _ in run(COMPILE, CHECKOUT, first)} == {1}
    assert files == files_of(first)


def test_machine_code_does_not_depend_on_where_the_checkout_lies(tmp_path: Path) -> None:
    copy = copied_packages(tmp_path / "somewhere" / "else")
    here = run(ASSEMBLY, CHECKOUT, tmp_path / "cache")
    assert len(set(here)) == 2
    assert run(ASSEMBLY, copy, tmp_path / "other") == here
