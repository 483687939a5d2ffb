"""SM3 and SM4 give the bytes of this machine on emulated processors, each by its own means."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simd.target import CACHE_SETTING, PATH_SETTING

if TYPE_CHECKING:
    from tests.aarch64.conftest import Emulated

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent / "lanes.py"


@cache
def portable_digest() -> str:
    """Return the digest of what the libraries of this machine give."""
    settings = {PATH_SETTING: "portable", "PYTHONPATH": str(PROGRAM.parents[2])}
    command = [sys.executable, PROGRAM]
    result = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **settings}
    )
    digest: str = json.loads(result.stdout)["digest"]
    return digest


@pytest.mark.parametrize(
    ("cpu", "path", "name"),
    [
        ("cortex-a57", "portable", "portable"),
        ("cortex-a57", "avx512-emulated", "avx512-emulated"),
        ("Haswell-noTSX", "avx2", "avx2-aes"),
    ],
)
def test_bytes(emulated: Emulated, tmp_path: Path, cpu: str, path: str, name: str) -> None:
    settings = {PATH_SETTING: path, CACHE_SETTING: str(tmp_path)}
    found = json.loads(emulated(cpu, PROGRAM.name, settings=settings))
    assert (found["path"], found["name"]) == (path, name)
    assert found["digest"] == portable_digest()
