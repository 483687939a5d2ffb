"""The fixture that runs a program of the checkout on an emulated processor."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKOUT = HERE.parent.parent
EXIT_UNAVAILABLE = 69

Emulated = Callable[..., str]


@pytest.fixture(scope="session")
def emulated() -> Emulated:
    """Return `run(cpu, file, *arguments, settings=...)`; skip where emulators cannot be had.

    `cpu` is a processor that emulated.sh knows, `file` a Python program beside this file,
    `settings` are environment variables for it. The result is what the program wrote to stdout; one
    that exits with anything but 0 fails the test and shows its stderr.
    """
    folder = Path(os.environ.get("WINDHOVER_EMULATION", CHECKOUT / ".cache" / "emulation"))
    install = subprocess.run(
        [HERE / "install.sh", folder], check=False, capture_output=True, text=True
    )
    if install.returncode == EXIT_UNAVAILABLE:
        pytest.skip(f"no emulated processors: {install.stderr.strip().splitlines()[-1]}")
    assert install.returncode == 0, install.stderr

    def run(cpu: str, file: str, *arguments: str, settings: Mapping[str, str] | None = None) -> str:
        result = subprocess.run(
            [HERE / "emulated.sh", cpu, HERE / file, *arguments],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "WINDHOVER_EMULATION": str(folder), **(settings or {})},
        )
        assert result.returncode == 0, f"{cpu}: exit {result.returncode}\n{result.stderr}"
        return result.stdout

    return run
