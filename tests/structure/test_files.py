"""What holds for every file of the project: its size, and that it names no machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.structure.source import CHECKOUT, project_files

if TYPE_CHECKING:
    from pathlib import Path

MAX_LINES = 500

# each alternative has a class of one letter, so that this file does not match itself
MACHINE = re.compile(
    r"/[w]ork/|/[t]mp/[a-z]|/[r]oot/|/[h]ome/[a-z]|/[.]library"
    r"|[p]ypi\.org|[p]ythonhosted\.org|[d]eb\.debian\.org|[n]pmjs\.org"
)


def text_of(path: Path) -> str | None:
    """Return the text of a file, or None when it is binary."""
    data = path.read_bytes()
    return None if b"\0" in data[:8192] else data.decode("utf-8", "replace")


def test_no_python_file_is_long() -> None:
    python_files = [path for path in project_files() if path.suffix == ".py"]
    assert len(python_files) > 20
    long = {}
    for path in python_files:
        num_lines = len(path.read_text(encoding="utf-8").splitlines())
        if num_lines > MAX_LINES:
            long[str(path.relative_to(CHECKOUT))] = num_lines
    assert not long


def test_no_file_names_a_machine() -> None:
    found = []
    for path in project_files():
        for number, line in enumerate((text_of(path) or "").splitlines(), 1):
            if MACHINE.search(line):
                found.append(f"{path.relative_to(CHECKOUT)}:{number}: {line.strip()[:80]}")
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "cd /" + "work/main",
        "open('/" + "tmp/models/x')",
        "/" + "root/.venv",
        "https://py" + "pi.org",
    ],
)
def test_a_machine_is_seen(line: str) -> None:
    assert MACHINE.search(line)
