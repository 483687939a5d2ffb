"""A conversion gives the same file on every processor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engine.convert.support import CONVERT

if TYPE_CHECKING:
    from tests.aarch64.conftest import Emulated


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    ("cpu", "machine"), [("cortex-a57", "aarch64"), ("Haswell-noTSX", "x86_64")]
)
def test_digests_are_those_of_this_machine(
    emulated: Emulated, tmp_path: Path, cpu: str, machine: str
) -> None:
    report = json.loads(emulated(cpu, "conversions.py", str(tmp_path)))
    assert report["machine"] == machine
    assert len(report["model_digests"]) == 4
    pinned = json.loads((CONVERT / "digests.json").read_text())["model_digests"]
    assert report["model_digests"].items() <= pinned.items()
