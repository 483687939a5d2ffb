"""Every kernel path gives the bits of the definition; each is forced in a process of its own."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simd import target
from simd.errors import UnsupportedCpuError
from simd.target import PATH_SETTING, PATHS
from tests.engine.kernels.fixed import MODELS, defined

CHECKOUT = Path(__file__).parents[3]
WIDE_PATHS = {"avx512", "avx512-emulated"}


def run_path(path: str, *models: str) -> dict[str, Any]:
    """Run fixed models in a process that is told to use a path; skip where the CPU has it not."""
    try:
        target.choose(platform.machine(), target.cpu_flags(), path)
    except UnsupportedCpuError as error:
        pytest.skip(f"kernel path {path} is not tested on this machine: {error}")
    result = subprocess.run(
        [sys.executable, "-m", "tests.engine.kernels.fixed", *models],
        check=False,
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env={**os.environ, PATH_SETTING: path},
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["path"] == path
    models_found: dict[str, Any] = found["models"]
    return models_found


def compare(path: str, *models: str) -> None:
    """Compare a path with the definition, on one thread and on two."""
    found = run_path(path, *models)
    assert found == {name: dict.fromkeys(("1", "2"), defined(name)) for name in models}


@pytest.mark.parametrize("path", PATHS)
def test_a_small_model(path: str) -> None:
    compare(path, "small")


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("path", [path for path in PATHS if path not in WIDE_PATHS])
def test_all_models(path: str) -> None:
    compare(path, *MODELS)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(WIDE_PATHS))
def test_all_models_on_wide_paths(path: str) -> None:
    compare(path, *MODELS)
