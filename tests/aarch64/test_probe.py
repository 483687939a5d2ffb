"""Emulated processors run compiled code, and it gives the bits of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.aarch64.conftest import Emulated

pytestmark = pytest.mark.slow

PROBE = Path(__file__).parent / "probe.py"


@pytest.fixture(scope="module")
def native_bits() -> str:
    """Return the probe's bits on this machine."""
    result = subprocess.run([sys.executable, PROBE], check=True, capture_output=True, text=True)
    return json.loads(result.stdout)["bits"]


@pytest.mark.parametrize(
    ("cpu", "machine"),
    [("cortex-a57", "aarch64"), ("cortex-a76", "aarch64"), ("Haswell-noTSX", "x86_64")],
)
def test_compiled_bits_are_those_of_this_machine(
    emulated: Emulated, native_bits: str, cpu: str, machine: str
) -> None:
    report = json.loads(emulated(cpu, PROBE.name))
    assert report["machine"] == machine
    assert report["bits"] == report["expected_bits"] == native_bits
