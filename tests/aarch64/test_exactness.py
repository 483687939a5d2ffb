"""Emulated processors compute the bits of this machine and of the definition."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from simd.target import CACHE_SETTING, PATH_SETTING
from tests.engine.kernels.fixed import MODELS, defined

if TYPE_CHECKING:
    from tests.aarch64.conftest import Emulated

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent / "exactness.py"
CHECKOUT = PROGRAM.parents[2]
FEW = ("middle",)


@cache
def native(*models: str) -> dict[str, Any]:
    """Return the report of this machine, on the path that it chooses."""
    result = subprocess.run(
        [sys.executable, PROGRAM, *models],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )
    found: dict[str, Any] = json.loads(result.stdout)
    del found["target"]
    return found


@pytest.mark.parametrize(
    ("cpu", "path", "machine", "models"),
    [
        # A run compiles everything anew under emulation, so one processor and few kinds have to do
        # for every submission.
        pytest.param("cortex-a76", "portable", "aarch64", FEW, marks=pytest.mark.ci),
        ("max", "portable", "aarch64", tuple(MODELS)),
        ("cortex-a57", "portable", "aarch64", FEW),
        ("Haswell-noTSX", "avx2", "x86_64", tuple(MODELS)),
        ("Haswell-noTSX", "portable", "x86_64", FEW),
    ],
)
def test_bits(
    emulated: Emulated,
    tmp_path: Path,
    cpu: str,
    path: str,
    machine: str,
    models: tuple[str, ...],
) -> None:
    settings = {PATH_SETTING: path, CACHE_SETTING: str(tmp_path)}
    found = json.loads(emulated(cpu, PROGRAM.name, *models, settings=settings))
    target = found.pop("target")
    assert (target["machine"], target["path"]) == (machine, path)
    assert target["cpu_name"] == {"aarch64": "generic", "x86_64": "x86-64-v3"}[machine]
    assert found == native(*models)
    for name in models:
        assert found[name] == dict.fromkeys(("1", "2"), defined(name))
