"""What kernels consist of on processors that this machine need not be."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simd.target import CACHE_SETTING
from tests.engine.kernels.ir_rules import kernels

CHECKOUT = Path(__file__).parents[3]
FEW = ("linear_q4_1", "linear_q6_k", "norm", "rope_table")

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="these targets are compiled for on x86-64 machines"
)


def assembly_of(target: str, folder: Path, *names: str) -> dict[str, dict[str, Any]]:
    """Return the report of a process that compiles for a target."""
    settings = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    result = subprocess.run(
        [sys.executable, "-m", "tests.engine.kernels.wide_assembly", target, *names],
        check=False,
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env=settings | {CACHE_SETTING: str(folder)},
    )
    assert result.returncode == 0, result.stderr
    found: dict[str, dict[str, Any]] = json.loads(result.stdout)
    return found


def check_rules(found: dict[str, dict[str, Any]]) -> None:
    """No kernel breaks a rule."""
    assert not {name: kernel["broken"] for name, kernel in found.items() if kernel["broken"]}
    assert not {name: kernel["declared"] for name, kernel in found.items() if kernel["declared"]}


def check_avx512(found: dict[str, dict[str, Any]]) -> None:
    """Integer layers use the dot product, and whatever is wide uses whole registers."""
    check_rules(found)
    for name, kernel in found.items():
        assert (kernel["dot products"] > 0) == name.startswith("linear_q"), name
        if not name.startswith("embed") and name not in {"rope_table", "hash_leaves"}:
            assert kernel["wide registers"] > 0, name


def check_aarch64(found: dict[str, dict[str, Any]]) -> None:
    """Integer layers multiply in vectors."""
    check_rules(found)
    for name, kernel in found.items():
        assert (kernel["vector products"] > 0) == name.startswith("linear_q"), name
        if not name.startswith("embed") and name not in {"rope_table", "hash_leaves"}:
            assert kernel["vectors"] > 0, name


def test_some_kernels_for_avx512(tmp_path: Path) -> None:
    found = assembly_of("avx512", tmp_path, *FEW)
    assert found.keys() == set(FEW)
    check_avx512(found)


@pytest.mark.slow
@pytest.mark.ci
def test_all_kernels_for_avx512(tmp_path: Path) -> None:
    found = assembly_of("avx512", tmp_path)
    assert found.keys() == kernels().keys()
    check_avx512(found)


def test_some_kernels_for_aarch64(tmp_path: Path) -> None:
    found = assembly_of("aarch64", tmp_path, *FEW)
    assert found.keys() == set(FEW)
    check_aarch64(found)


@pytest.mark.slow
def test_all_kernels_for_aarch64(tmp_path: Path) -> None:
    found = assembly_of("aarch64", tmp_path)
    assert found.keys() == kernels().keys()
    check_aarch64(found)
