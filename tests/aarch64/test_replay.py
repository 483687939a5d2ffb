"""An answer of this machine is replayed on an emulated ARM processor, bit by bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simd.target import CACHE_SETTING, PATH_SETTING
from tests.engine.audit.fixed import computed, fixed_file

if TYPE_CHECKING:
    from tests.aarch64.conftest import Emulated


@pytest.mark.slow
def test_bits(emulated: Emulated, tmp_path: Path) -> None:
    settings = {PATH_SETTING: "portable", CACHE_SETTING: str(tmp_path)}
    found = json.loads(emulated("cortex-a76", "replay.py", "2", settings=settings))
    with fixed_file() as file:
        assert found == {"path": "portable", "found": computed(file, 1)}
