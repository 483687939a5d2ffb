"""An audit computes the bits of the generation, on every kernel path and number of threads."""

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
from tests.engine.audit.fixed import computed, fixed_file

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def here() -> dict[str, Any]:
    """What this process computes on one thread."""
    with fixed_file() as file:
        return computed(file, 1)


def test_generation_replay_and_units_agree(here: dict[str, Any]) -> None:
    assert here["replayed_ids"] == here["output_ids"] == here["choices"]
    assert here["replayed_root"] == here["trace_root"]
    assert here["layers_equal"]
    assert here["rows_equal"]


def test_on_two_threads(here: dict[str, Any]) -> None:
    with fixed_file() as file:
        assert computed(file, 2) == here


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("path", PATHS)
def test_on_every_kernel_path(here: dict[str, Any], path: str) -> None:
    try:
        target.choose(platform.machine(), target.cpu_flags(), path)
    except UnsupportedCpuError as error:
        pytest.skip(f"kernel path {path} is not tested on this machine: {error}")
    result = subprocess.run(
        [sys.executable, "-m", "tests.engine.audit.fixed", "2"],
        check=False,
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env={**os.environ, PATH_SETTING: path},
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {"path": path, "found": here}
