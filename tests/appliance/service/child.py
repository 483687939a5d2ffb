"""Programs run in processes of their own: what they do to themselves cannot be undone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from simd.settings import CACHE_SETTING, USE_SETTING

CHECKOUT = Path(__file__).parents[3]


def environment(**settings: str) -> dict[str, str]:
    """Return what a program sees: this process's, without what it may have said to numba."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return ours | {"PYTHONPATH": str(CHECKOUT)} | settings


def run(program: str, *words: object, **settings: str) -> Any:
    """Run a program that has to end well, and return the JSON of its last line."""
    result = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env=environment(**settings),
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def cache(folder: Path, use: str) -> dict[str, str]:
    """Return settings of the kernel cache."""
    return {CACHE_SETTING: str(folder), USE_SETTING: use}
