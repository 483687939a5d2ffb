from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from he_chain import doctor
from he_chain.backends.elf import needed_versions
from he_chain.errors import BackendError
from tests.structure.test_imports import loaded_after

if TYPE_CHECKING:
    from collections.abc import Callable


def library(*versions: str) -> bytes:
    """Return a small 64-bit ELF file that wants versions of a library."""
    strings = b"\0libc.so.6\0" + b"".join(version.encode() + b"\0" for version in versions)
    places = [strings.index(version.encode() + b"\0") for version in versions]
    need = struct.pack("<HHIII", 1, len(versions), 1, 16, 0)
    for number, place in enumerate(places):
        step = 16 if number + 1 < len(places) else 0
        need += struct.pack("<IHHII", 0, 0, 2, place, step)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    first, second = 64 + 3 * 64, 64 + 3 * 64 + len(strings)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, 3, 0)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, first, len(strings), 0, 0, 1, 0)
    sections += struct.pack("<IIQQQQIIQQ", 0, 0x6FFFFFFE, 0, 0, second, len(need), 1, 1, 8, 0)
    return header + sections + strings + need


@pytest.fixture
def shared(tmp_path: Path) -> Callable[..., Path]:
    def write(*versions: str, name: str = "some.so") -> Path:
        path = tmp_path / name
        path.write_bytes(library(*versions))
        return path

    return write


def test_versions_are_read_from_a_library(shared: Callable[..., Path]) -> None:
    path = shared("GLIBC_2.34", "GLIBCXX_3.4.32")
    assert needed_versions(path) == ["GLIBCXX_3.4.32", "GLIBC_2.34"]


def test_versions_are_read_from_a_real_library() -> None:
    found = needed_versions(Path(np._core._multiarray_umath.__file__))  # type: ignore[attr-defined]
    assert any(name.startswith("GLIBC_2.") for name in found)


@pytest.mark.parametrize("cut", [0, 3, 40, 63, 100, 250, 280, 300])
def test_a_damaged_library_is_named(shared: Callable[..., Path], cut: int) -> None:
    path = shared("GLIBC_2.34")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(BackendError, match=r"some\.so is no 64-bit ELF library"):
        needed_versions(path)


def test_a_library_of_a_newer_system_is_explained(shared: Callable[..., Path]) -> None:
    assert doctor.missing_versions(shared("GLIBC_2.2.5")) is None
    lacking = doctor.missing_versions(shared("GLIBC_2.2.5", "GLIBC_99.1"))
    assert lacking == "some.so wants GLIBC_99.1, which this system's libraries do not have"
    lacking = doctor.missing_versions(shared("GLIBC_2.2.5", "GLIBCXX_9.9.99"))
    assert lacking == "some.so wants GLIBCXX_9.9.99, which this system's libraries do not have"


def test_absent_packages_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_distribution", lambda package: None)
    assert "not installed: windhover[he] brings it" in doctor.seal().text
    assert "not installed" in doctor.openfhe().text
    assert "non-commercial" in doctor.desilo().text
    assert not any(found.usable for found in (doctor.seal(), doctor.openfhe(), doctor.desilo()))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "has no extension module"),
        ({"openfhe.cpython-310-x86_64-linux-gnu.so": ("GLIBC_2.34",)}, "cpython-310.* only"),
        ({"openfhe.cpython-312-x86_64-linux-gnu.so": ("GLIBC_99.0",)}, "wants GLIBC_99.0"),
    ],
)
def test_the_traps_of_openfhes_wheel_are_told(
    monkeypatch: pytest.MonkeyPatch,
    shared: Callable[..., Path],
    tmp_path: Path,
    files: dict[str, tuple[str, ...]],
    words: str,
) -> None:
    for name, versions in files.items():
        shared(*versions, name=name)
    monkeypatch.setattr(doctor, "_distribution", lambda package: f"{package} 1.6.1")
    monkeypatch.setattr(doctor, "_folder", lambda package: tmp_path)
    found = doctor.openfhe()
    assert not found.usable
    assert re.search(words, found.text)


def test_an_installed_library_that_does_not_import_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "_distribution", lambda package: f"{package} 9")
    monkeypatch.setattr(doctor, "TENSEAL", "no_such_package")
    found = doctor.seal()
    assert not found.usable
    assert "no_such_package 9 does not import: No module named" in found.text


def test_a_lattigo_that_does_not_load_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shared: Callable[..., Path]
) -> None:
    monkeypatch.setattr(doctor, "find_library", lambda package: shared("GLIBC_99.0"))
    assert "wants GLIBC_99.0" in doctor.lattigo().text

    def absent(package: object) -> Path:
        raise BackendError("not installed: pip install it")

    monkeypatch.setattr(doctor, "find_library", absent)
    assert doctor.lattigo() == doctor.Finding("lattigo", False, "not installed: pip install it")


def test_the_whole_diagnosis_reads_as_json_and_as_text() -> None:
    found = doctor.diagnose()
    value = json.loads(json.dumps(found.to_json()))
    names = [backend["name"] for backend in value["backends"]]
    assert names == ["mock", "seal", "lattigo", "openfhe", "desilofhe"]
    assert value["memory_bytes"] > value["available_bytes"] > 0
    assert value["cores"] >= 1
    text = found.to_text()
    assert all(backend["text"] in text for backend in value["backends"])
    assert text.splitlines()[2].startswith("ok  mock")


def test_nothing_heavy_is_loaded_by_importing_it() -> None:
    loaded = loaded_after(
        "import he_chain.doctor, he_chain.boot.run, he_chain.backends.lattigo_worker"
    )
    assert "he_chain" in loaded
    assert not {"tenseal", "numba", "lattigo", "orion_evaluator", "openfhe"} & loaded
