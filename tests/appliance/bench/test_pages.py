"""Pages of a file in the page cache: counted, evicted, brought back."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from appliance.bench import pages
from appliance.bench.cgroup import NotMeasurableError
from appliance.bench.disk import Disk
from appliance.bench.pages import PAGE_BYTES, available_bytes, evict, resident_bytes, warm

SIZE = 3 * (1 << 20) + 100


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file on a disk, not a multiple of a page long."""
    if Disk.of(tmp_path).device is None:
        pytest.skip("pages leave the page cache only where files are on a disk: none here")
    path = tmp_path / "file"
    path.write_bytes(os.urandom(SIZE))
    return path


def test_evicted_and_warmed(file: Path) -> None:
    assert resident_bytes(file) >= SIZE  # just written
    evict(file)
    assert resident_bytes(file) == 0
    with file.open("rb", buffering=0) as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        stream.seek(PAGE_BYTES)
        stream.read(1)
    assert PAGE_BYTES <= resident_bytes(file) < SIZE
    warm(file)
    assert resident_bytes(file) == -(-SIZE // PAGE_BYTES) * PAGE_BYTES


def test_several_pieces(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warm(file)
    monkeypatch.setattr(pages, "_PIECE_BYTES", 1 << 20)
    assert resident_bytes(file) == -(-SIZE // PAGE_BYTES) * PAGE_BYTES


def test_what_others_have_mapped_stays(file: Path) -> None:
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as memory:
        assert sum(memory[:: 1 << 12]) >= 0
        evict(file)
        assert resident_bytes(file) > 0
    evict(file)
    assert resident_bytes(file) == 0


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert resident_bytes(tmp_path / "empty") == 0


def test_files_of_others_are_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(NotMeasurableError, match="neither owned nor writable") as caught:
        resident_bytes(path)
    assert caught.value.reason == "mincore"


def test_memory_is_available() -> None:
    assert 0 < available_bytes() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
