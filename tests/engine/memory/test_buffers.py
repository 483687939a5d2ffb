"""Memory for large buffers: where it begins, how long it is, and that it can be asked for."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from engine.memory.buffers import LARGE_BYTES, PAGE_BYTES, mapped_pages

SIZES = [0, 1, PAGE_BYTES, LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + 1, 3 * LARGE_BYTES + 4096]


@pytest.mark.parametrize("size_bytes", SIZES)
def test_a_buffer_is_zeros_of_its_size_at_a_page(size_bytes: int) -> None:
    buffer = mapped_pages(size_bytes)
    assert (buffer.dtype, buffer.shape) == (np.uint8, (size_bytes,))
    assert not buffer.any()
    assert buffer.ctypes.data % (LARGE_BYTES if size_bytes >= LARGE_BYTES else PAGE_BYTES) == 0
    buffer[:] = 255
    assert np.all(buffer == 255)


def test_whole_large_pages_are_asked_for_and_the_rest_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A last large page would take more memory than the buffer has."""
    asked = []

    class Recording(mmap.mmap):
        def madvise(self, option: int, start: int = 0, length: int = 0) -> None:
            asked.append((option, start % PAGE_BYTES, length))

    monkeypatch.setattr(mmap, "mmap", Recording)
    mapped_pages(LARGE_BYTES - 1)
    assert asked == []
    mapped_pages(2 * LARGE_BYTES + 5)
    assert asked == [(mmap.MADV_HUGEPAGE, 0, 2 * LARGE_BYTES)]


def test_a_system_without_large_pages_gives_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(mmap.mmap):
        def madvise(self, option: int, start: int = 0, length: int = 0) -> None:
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Refusing)
    assert mapped_pages(2 * LARGE_BYTES).shape == (2 * LARGE_BYTES,)
