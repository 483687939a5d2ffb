"""Damages of signed and sealed files, each refused by the rule, comparison or reason it names."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import cbor2
import pytest

import engine.vqf
from crypto.errors import KeyFileError
from crypto.kdf import pbkdf2_hmac_sm3
from engine.errors import FormatError, WeightsError
from engine.vqf import open_vqf
from engine.vqf.verify import verify_all
from tests.engine.vqf import second, vectors
from tests.engine.vqf.damage_forms import damaged_sealed, damaged_signed
from tests.engine.vqf.vectors import DATA, PLAIN, PROTECTED, SIGNED

SIGNED_VECTORS = json.loads((DATA / "malformed_signed.json").read_text(encoding="utf-8"))
SEALED_VECTORS = json.loads((DATA / "malformed_sealed.json").read_text(encoding="utf-8"))
VECTORS = SIGNED_VECTORS["tests"] + SEALED_VECTORS["tests"]
FORMAT = (Path(engine.vqf.__file__).parent / "FORMAT.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """PBKDF2 of the same passphrase, salt and iterations takes half a second once."""
    monkeypatch.setattr("engine.vqf.wrap.pbkdf2_hmac_sm3", remembering_pbkdf2)


remembering_pbkdf2 = cache(pbkdf2_hmac_sm3)


def built(name: str, edits: list[dict[str, Any]]) -> bytes:
    """Return a file with the edits of one vector."""
    base = (DATA / name).read_bytes()
    if name == SIGNED:
        return damaged_signed((DATA / PLAIN).read_bytes(), base[32_768:], edits)
    return damaged_sealed(base, vectors.data_key(name), edits)


def refused(vector: dict[str, Any], path: Path) -> FormatError | WeightsError | KeyFileError:
    """Open and, if the vector says so, read an extent; nothing of it may be left in memory."""
    unlock = vectors.unlock(vector.get("unlock", SEALED_VECTORS["unlock"]))
    if "read" not in vector:
        with pytest.raises((FormatError, WeightsError, KeyFileError)) as caught:
            open_vqf(path, unlock)
        return caught.value
    with open_vqf(path, unlock) as file:
        name = vector["read"]
        if vector.get("rule") == "R42":  # of what the bytes are used for, not of the bytes
            with pytest.raises(FormatError) as failed:
                file.read_bytes(name)
            with pytest.raises(FormatError, match="R42"):
                verify_all(file)
            return failed.value
        memory = bytearray(b"\x99" * file.extent(name).size_bytes)
        with pytest.raises((FormatError, WeightsError)) as refusal:
            file.read_extent(name, memory)
        assert not any(memory)
        with pytest.raises(type(refusal.value)):
            verify_all(file)
        return refusal.value


def run(vector: dict[str, Any], base: str, tmp_path: Path) -> None:
    data = built(base, vector["edits"])
    if "unlock" not in vector or vector["edits"]:
        assert data != (DATA / base).read_bytes()
    path = tmp_path / "damaged.vqf"
    path.write_bytes(data)
    error = refused(vector, path)
    if isinstance(error, FormatError):
        assert error.rule == vector.get("rule"), error
        assert 0 <= error.offset <= len(data)
    elif isinstance(error, WeightsError):
        assert error.check == vector.get("check"), error
    else:
        assert error.reason == vector.get("reason"), error
    assert "\n" not in str(error)
    assert len(str(error).replace(str(path), "")) < 300


@pytest.mark.parametrize("vector", SIGNED_VECTORS["tests"], ids=lambda vector: vector["name"])
def test_signed(vector: dict[str, Any], tmp_path: Path) -> None:
    run(vector, SIGNED_VECTORS["base"], tmp_path)


@pytest.mark.parametrize("vector", SEALED_VECTORS["tests"], ids=lambda vector: vector["name"])
def test_sealed(vector: dict[str, Any], tmp_path: Path) -> None:
    run(vector, vector.get("base", SEALED_VECTORS["base"]), tmp_path)


@pytest.mark.parametrize("name", PROTECTED)
def test_no_edit_no_damage(name: str) -> None:
    """The builders alone change nothing, so what is refused is refused for its edits."""
    assert built(name, []) == (DATA / name).read_bytes()


@pytest.mark.parametrize("group", [SIGNED_VECTORS, SEALED_VECTORS])
def test_names_are_unique(group: dict[str, Any]) -> None:
    counts = Counter(vector["name"] for vector in group["tests"])
    assert max(counts.values()) == 1
    assert len(counts) >= 100


@pytest.mark.parametrize("name", PROTECTED[:2])
def test_offset_of_a_signature(name: str, tmp_path: Path) -> None:
    """The refusal names the signature that breaks the rule, also where it is encrypted."""
    edit = {"entry": 1, "payload": [-70101], "to": {"hex": "ff" * 32}}
    data = built(name, [edit])
    if name == SIGNED:
        section, start = data[32_768:], 32_768
    else:
        parts = second.taken_apart(data, vectors.data_key(name))
        section, start = parts.signatures, second.MANIFEST + len(parts.manifest)
    (bad,) = [entry for entry in cbor2.loads(section) if b"\xff" * 32 in entry]
    (tmp_path / "f.vqf").write_bytes(data)
    with pytest.raises(FormatError) as caught:
        open_vqf(tmp_path / "f.vqf", vectors.unlock())
    assert (caught.value.rule, caught.value.offset) == ("S5", start + section.index(bad))


def test_every_rule_and_comparison_has_a_vector() -> None:
    """All of S, E and V have one; V4 is a signature, which is judged by the policy, not here."""
    documented = set(re.findall(r"^- \*\*([SE]\d+)\*\*", FORMAT, re.MULTILINE))
    assert {"S1", "S6", "E1", "E5"} <= documented
    rules = {vector.get("rule") for vector in VECTORS}
    assert {rule for rule in rules if rule and rule[0] in "SE"} == documented
    assert {vector.get("check") for vector in VECTORS} - {None} == {"V1", "V2", "V3", "V5", "V6"}
    assert {vector.get("reason") for vector in VECTORS} - {None} == {
        "missing",
        "passphrase",
        "recipient",
    }
    sealed = {vector.get("rule") for vector in SEALED_VECTORS["tests"]}
    assert {f"R{number}" for number in range(4, 13)} <= sealed


def test_every_rule_in_the_code_is_documented() -> None:
    """No rule is raised that FORMAT.md does not have, none is documented that nobody raises."""
    folder = Path(engine.vqf.__file__).parent
    used = set()
    for path in folder.glob("*.py"):
        used |= set(re.findall(r'"([SE]\d+)"', path.read_text(encoding="utf-8")))
    assert used == set(re.findall(r"^- \*\*([SE]\d+)\*\*", FORMAT, re.MULTILINE))
