"""The software digest: every file counts, by content, place and permissions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from appliance import software
from appliance.software import (
    Place,
    begin_software_digest,
    describe,
    list_digest,
    places,
    software_digest,
    tree,
)
from appliance.software_list import PLACES
from crypto.errors import UnavailableError
from crypto.sm3 import sm3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files in a folder, and one in a folder inside."""
    (tmp_path / "b.py").write_bytes(b"b")
    (tmp_path / "a.py").write_bytes(b"aa")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "c.so").write_bytes(b"")
    for path in tmp_path.rglob("*.*"):
        path.chmod(0o644)
    return tmp_path


def digest_of(folder: Path) -> bytes:
    return list_digest([describe(place) for place in tree("app", folder)])


def test_the_digest_is_that_of_the_list_written_by_hand(folder: Path):
    expected = b"windhover/software-list;v=1\0"
    for path, content in ((b"app/a.py", b"aa"), (b"app/b.py", b"b"), (b"app/inner/c.so", b"")):
        expected += len(path).to_bytes(4, "little") + path
        expected += (0o644).to_bytes(4, "little") + len(content).to_bytes(8, "little")
        expected += sm3(content)
    assert digest_of(folder) == sm3(expected)


def test_every_change_changes_it(folder: Path):
    seen = {digest_of(folder)}
    (folder / "a.py").write_bytes(b"ab")
    seen.add(digest_of(folder))
    (folder / "a.py").chmod(0o755)
    seen.add(digest_of(folder))
    (folder / "a.py").rename(folder / "d.py")
    seen.add(digest_of(folder))
    (folder / "inner" / "__pycache__").mkdir()
    (folder / "inner" / "__pycache__" / "c.pyc").write_bytes(b"")
    seen.add(digest_of(folder))
    assert len(seen) == 5


def test_the_order_of_the_list_does_not_matter(folder: Path):
    files = [describe(place) for place in tree("app", folder)]
    assert list_digest(files) == list_digest(files[::-1])


def test_only_regular_files_count_and_links_lead_nowhere(folder: Path):
    before = digest_of(folder)
    (folder / "link.py").symlink_to(folder / "a.py")
    (folder / "loop").symlink_to(folder)
    assert digest_of(folder) == before
    names = [place.path for place in tree("x", folder, skip=["inner"])]
    assert sorted(names) == ["x/a.py", "x/b.py"]


def test_the_places_are_those_that_this_process_runs_from(folder: Path):
    found = list(places(folder))
    names = [place.path for place in found]
    assert len(set(names)) == len(names)
    files = {place.file for place in found}
    for module in ("appliance.software", "crypto.sm3", "json", "click", "numpy"):
        __import__(module)
        assert Path(sys.modules[module].__file__).resolve() in files, module
    kinds = {name.partition("/")[0] for name in names}
    assert kinds == {"app", "site", "python", "lib", "kernels"} == PLACES
    assert {name for name in names if name.startswith("kernels/")} == {
        "kernels/a.py",
        "kernels/b.py",
        "kernels/inner/c.so",
    }
    assert any(name.startswith("lib/libcrypto") for name in names)


def test_it_is_computed_once_in_a_process(folder: Path, monkeypatch):
    monkeypatch.setattr(software, "places", lambda *_: tree("app", folder))
    software.software_files.cache_clear()
    try:
        first = software_digest(1)
        (folder / "a.py").write_bytes(b"later")
        assert software_digest(1) == first
    finally:
        software.software_files.cache_clear()


def program(monkeypatch, setup: str) -> None:
    """Let the process that computes the digest do something before."""
    monkeypatch.setattr(
        software,
        "_PROGRAM",
        software._PROGRAM.replace("print(", f"from appliance import software; {setup}; print("),
    )


def test_a_process_of_its_own_gives_the_same(folder: Path, monkeypatch):
    monkeypatch.setattr(software, "places", lambda *_: tree("app", folder))
    setup = f"software.places = lambda *_: software.tree('app', software.Path({str(folder)!r}))"
    program(monkeypatch, setup)
    wait = begin_software_digest()
    software.software_files.cache_clear()
    try:
        assert wait() == wait() == software_digest(1)
    finally:
        software.software_files.cache_clear()


def test_a_file_that_cannot_be_read_is_no_digest(monkeypatch, tmp_path: Path):
    gone = tmp_path / "gone.py"
    monkeypatch.setattr(software, "places", lambda *_: [Place("app/gone.py", gone)])
    place = f"software.Place('app/gone.py', software.Path({str(gone)!r}))"
    program(monkeypatch, f"software.places = lambda *_: [{place}]")
    software.software_files.cache_clear()
    try:
        for compute in (software_digest, begin_software_digest()):
            with pytest.raises(UnavailableError, match=r"gone\.py"):
                compute()
    finally:
        software.software_files.cache_clear()
