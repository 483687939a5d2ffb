"""Windows that are chosen in the middle of a step: what is not chosen is not read (README.md W8).

The layers of a dense model stand for experts, for no family has experts yet.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np

from engine.memory.file_map import FileMap
from engine.memory.mapped import MappedWeights
from engine.memory.residency import Residency
from engine.memory.streamed import StreamedWeights
from engine.memory.verified import VerifiedWeights
from engine.memory.windows import Window
from engine.vqf.format import CHUNK_BYTES
from tests.engine.memory import wide

SHARED, CHOSEN, OTHER = "layers.0", "layers.2", "layers.1"
WINDOW_BYTES = 200 << 10


def windows(folder: Path, extent: str) -> list[Window]:
    """The windows of one extent; its index in the table of bases is 2 more than the layer's."""
    with wide.opened(folder / "plain.vqf") as file:
        size_bytes = file.extent(extent).size_bytes
    base = int(extent.removeprefix("layers.")) + 2
    starts = range(0, size_bytes, WINDOW_BYTES)
    return [
        Window(number, base, start, min(start + WINDOW_BYTES, size_bytes))
        for number, start in enumerate(starts)
    ]


def content(folder: Path, extent: str) -> bytes:
    with wide.opened(folder / "plain.vqf") as file:
        data = np.empty(file.extent(extent).size_bytes, np.uint8)
        file.read_extents([(extent, data.data)])
    return data.tobytes()


def enter(weights: StreamedWeights, window: Window) -> bytes:
    weights.enter(window)
    address = int(weights.bases[window.base]) + window.start_bytes
    return ctypes.string_at(address, window.stop_bytes - window.start_bytes)


def routed_step(weights: StreamedWeights, folder: Path) -> None:
    """Announce what is sure, and choose when that is computed with: twice, to be in the middle."""
    for extent in (SHARED, CHOSEN):
        order = windows(folder, extent)
        weights.begin(order)
        assert b"".join(enter(weights, w) for w in order) == content(folder, extent)
    weights.end()


def test_a_map_brings_what_was_chosen_and_nothing_else(untied: Path, monkeypatch):
    engine = wide.engine_of(untied / "plain.vqf", Residency("stream", WINDOW_BYTES))
    weights = engine._weights
    assert isinstance(weights, MappedWeights)
    brought: list[tuple[int, int]] = []
    populate = FileMap.populate

    def watched(self: FileMap, start: int, stop: int) -> None:
        brought.append((start, stop))
        populate(self, start, stop)

    monkeypatch.setattr(FileMap, "populate", watched)
    try:
        routed_step(weights, untied)
        every = [*windows(untied, SHARED), *windows(untied, CHOSEN)]
        assert brought == [weights._span(window) for window in every]
    finally:
        engine.close()


def test_a_verified_file_is_read_where_it_was_chosen_and_nowhere_else(untied: Path, monkeypatch):
    engine = wide.engine_of(untied / "plain.vqf", Residency("verified-stream", WINDOW_BYTES))
    weights = engine._weights
    assert isinstance(weights, VerifiedWeights)
    file = weights._kept.file
    chunks = {
        extent: {file.preamble.data_offset + chunk.offset for chunk in file.chunks(extent)}
        for extent in (SHARED, CHOSEN, OTHER)
    }
    offsets: set[int] = set()
    read = os.preadv

    def watched(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        count = read(descriptor, buffers, offset)
        offsets.update(range(offset, offset + count, CHUNK_BYTES))
        return count

    monkeypatch.setattr(os, "preadv", watched)
    try:
        routed_step(weights, untied)
        assert chunks[OTHER].isdisjoint(chunks[SHARED] | chunks[CHOSEN])
        assert chunks[SHARED] | chunks[CHOSEN] <= offsets
        assert offsets.isdisjoint(chunks[OTHER])
    finally:
        engine.close()
