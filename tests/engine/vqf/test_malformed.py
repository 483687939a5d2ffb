"""Every rule of FORMAT.md refuses a file that breaks it, and says so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import engine.vqf
from engine.errors import FormatError
from engine.vqf import open_vqf
from tests.engine.vqf.damage import damaged

DATA = Path(__file__).parents[2] / "data" / "vqf"
VECTORS = json.loads((DATA / "malformed.json").read_text(encoding="utf-8"))
FORMAT = (Path(engine.vqf.__file__).parent / "FORMAT.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def base() -> bytes:
    return (DATA / VECTORS["base"]).read_bytes()


@pytest.mark.parametrize("vector", VECTORS["tests"], ids=lambda vector: vector["name"])
def test_refused(vector: dict[str, Any], base: bytes, tmp_path: Path) -> None:
    data = damaged(base, vector["edits"])
    assert data != base
    path = tmp_path / "damaged.vqf"
    path.write_bytes(data)
    if "read" not in vector:
        with pytest.raises(FormatError) as caught:
            open_vqf(path)
    else:
        with open_vqf(path) as file, pytest.raises(FormatError) as caught:
            file.read_bytes(vector["read"])
    assert caught.value.rule == vector["rule"]
    assert 0 <= caught.value.offset <= len(data)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_no_edit_no_damage(base: bytes) -> None:
    """The builder alone changes nothing, so what is refused is refused for its edits."""
    assert damaged(base, []) == base


def test_names_are_unique() -> None:
    names = [vector["name"] for vector in VECTORS["tests"]]
    assert len(names) == len(set(names)) >= 40


def test_every_rule_has_a_vector() -> None:
    documented = re.findall(r"^- \*\*(R\d+)\*\*", FORMAT, re.MULTILINE)
    assert documented == [f"R{number}" for number in range(1, len(documented) + 1)]
    assert {vector["rule"] for vector in VECTORS["tests"]} == set(documented)


def test_every_rule_in_the_code_is_documented() -> None:
    """No rule is raised that FORMAT.md does not have."""
    folder = Path(engine.vqf.__file__).parent
    used = set()
    for path in folder.glob("*.py"):
        used |= set(re.findall(r'"(R\d+)"', path.read_text(encoding="utf-8")))
    assert used == set(re.findall(r"^- \*\*(R\d+)\*\*", FORMAT, re.MULTILINE))
