"""A mapped file: its pages are brought ahead, and advice that is not known changes nothing."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.errors import WeightsUncheckedError
from engine.memory import file_map
from engine.memory.buffers import LARGE_BYTES
from engine.memory.file_map import DONTNEED, FileMap

SIZE = 3 * LARGE_BYTES + 4096
POPULATE, WILLNEED = 22, 3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_bytes(np.arange(SIZE // 4, dtype=np.uint32).tobytes())
    return file


@pytest.fixture
def mapped(path: Path) -> Iterator[FileMap]:
    descriptor = os.open(path, os.O_RDONLY)
    made = FileMap(descriptor, SIZE)
    os.close(descriptor)  # the map does not need it
    yield made
    made.close()


def mapped_kib(mapped: FileMap) -> int:
    """What of the map is in this process's page tables, by the system's account."""
    wanted, is_wanted = f"{mapped.address:x}-", False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        is_wanted |= line.startswith(wanted)
        if is_wanted and line.startswith("Rss:"):
            return int(line.split()[1])
    raise AssertionError("the map is not there")


def content(mapped: FileMap) -> np.ndarray:
    pointer = ctypes.cast(mapped.address, ctypes.POINTER(ctypes.c_uint8))
    return np.ctypeslib.as_array(pointer, (SIZE,)).copy()


def test_pages_are_there_after_populate_and_gone_after_dontneed(mapped: FileMap, path: Path):
    assert mapped.address % LARGE_BYTES == 0
    mapped.advise(0, SIZE, DONTNEED)
    assert mapped_kib(mapped) == 0
    mapped.populate(0, SIZE)
    assert mapped_kib(mapped) == SIZE // 1024
    assert content(mapped).tobytes() == path.read_bytes()
    mapped.advise(0, SIZE, DONTNEED)
    assert mapped_kib(mapped) == 0


def test_a_system_that_cannot_populate_is_asked_to_read_ahead(
    mapped: FileMap, path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []

    class OldSystem:
        def madvise(self, _address: int, _length: int, advice: int) -> int:
            asked.append(advice)
            return -1 if advice == POPULATE else 0

    monkeypatch.setattr(file_map, "_libc", OldSystem())
    mapped.populate(0, SIZE)
    monkeypatch.undo()
    assert asked == [POPULATE, WILLNEED]
    assert content(mapped).tobytes() == path.read_bytes()


def test_populating_what_the_file_has_lost_is_no_fault(mapped: FileMap, path: Path):
    """SIGBUS is for who looks; who asks only is told, and goes on."""
    os.truncate(path, LARGE_BYTES)
    mapped.populate(0, SIZE)
    mapped.populate(2 * LARGE_BYTES, SIZE)


def test_what_cannot_be_mapped(tmp_path: Path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(WeightsUncheckedError, match="cannot be mapped"):
        FileMap(descriptor, SIZE)
    os.close(descriptor)
