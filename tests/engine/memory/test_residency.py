"""All ways of keeping weights give the same bits, and refuse what they cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.cli.errors import EXITS
from engine.errors import ConfigError, UnsupportedError
from engine.memory.file_map import FileMap
from engine.memory.load import load_weights
from engine.memory.mapped import MappedWeights
from engine.memory.residency import Residency
from engine.memory.windows import Window
from tests.engine.memory import wide

KIB = 1 << 10


@pytest.mark.parametrize(
    ("window_kib", "keep_layers", "drop_page_cache"),
    [(64, 1, False), (200, 2, True), (32 * 1024, 4, False)],
)
@pytest.mark.parametrize("mode", ["stream", "verified-stream"])
def test_the_bits_are_those_of_weights_in_memory(
    folder: Path, wanted, mode: str, window_kib: int, keep_layers: int, drop_page_cache: bool
):
    residency = Residency(mode, window_kib * KIB, keep_layers, drop_page_cache)
    engine = wide.engine_of(folder / "plain.vqf", residency)
    try:
        assert wide.compute(engine) == wanted[folder]
        if window_kib == 200:  # what was read ahead is not left over
            assert wide.compute(engine) == wanted[folder]
    finally:
        engine.close()


@pytest.mark.parametrize("form", ["signed", "sealed"])
@pytest.mark.parametrize(("drop_page_cache", "threads"), [(False, 1), (True, 3)])
def test_protected_weights_stream_verified(
    tied: Path, wanted, form: str, drop_page_cache: bool, threads: int
):
    residency = Residency("verified-stream", 200 * KIB, 1, drop_page_cache)
    engine = wide.engine_of(tied / f"{form}.vqf", residency, threads=threads)
    try:
        assert wide.compute(engine) == wanted[tied]
    finally:
        engine.close()


def num_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("form", ["signed", "sealed"])
def test_stream_refuses_protected_weights_and_names_the_way_that_does_not(untied: Path, form: str):
    message = f"{form}.*use verified-stream"
    file = wide.opened(untied / f"{form}.vqf")
    with file, pytest.raises(UnsupportedError, match=message) as caught:
        load_weights(file, Residency("stream"))
    assert EXITS[type(caught.value)] == 2


def test_streamed_weights_have_no_float_profile(untied: Path):
    with wide.opened(untied / "plain.vqf") as file, pytest.raises(UnsupportedError):
        load_weights(file, Residency("verified-stream"), as_floats=True)


@pytest.mark.parametrize("mode", ["stream", "verified-stream"])
def test_more_layers_than_there_are_cannot_be_kept(untied: Path, mode: str):
    before = num_descriptors()
    with pytest.raises(ConfigError):
        wide.engine_of(untied / "plain.vqf", Residency(mode, keep_layers=5))
    assert num_descriptors() == before


def test_a_window_holds_sixteen_rows_at_least(untied: Path, monkeypatch):
    residency = Residency("stream", 64 * KIB)
    monkeypatch.setattr("engine.memory.mapped.MappedWeights.window_bytes", 1000, raising=False)
    object.__setattr__(residency, "window_bytes", 1000)
    with pytest.raises(ConfigError, match="16 rows of"):
        wide.engine_of(untied / "plain.vqf", residency)


@pytest.mark.parametrize(
    "wrong", [{"mode": "fast"}, {"window_bytes": 1}, {"window_bytes": 1 << 40}, {"keep_layers": 0}]
)
def test_a_residency_that_cannot_be(wrong):
    with pytest.raises(ConfigError):
        Residency(**wrong)


def test_an_engine_that_ends_closes_the_file_and_its_threads(untied: Path):
    before = num_descriptors()
    for mode in ("stream", "verified-stream"):
        engine = wide.engine_of(untied / "plain.vqf", Residency(mode, drop_page_cache=True))
        engine.close()
        engine.close()
    assert num_descriptors() == before


def test_a_step_that_is_abandoned_leaves_nothing_mapped(untied: Path, monkeypatch):
    """What was brought ahead for it is dropped, asked for or there already."""
    brought: list[tuple[int, int]] = []
    dropped: list[tuple[int, int]] = []
    populate, drop = FileMap.populate, MappedWeights._drop

    def watched_populate(self: FileMap, start: int, stop: int) -> None:
        brought.append((start, stop))
        populate(self, start, stop)

    def watched_drop(self: MappedWeights, start: int, stop: int) -> None:
        dropped.append((start, stop))
        drop(self, start, stop)

    engine = wide.engine_of(untied / "plain.vqf", Residency("stream", 64 * KIB))
    monkeypatch.setattr(FileMap, "populate", watched_populate)
    monkeypatch.setattr(MappedWeights, "_drop", watched_drop)
    try:
        weights = engine._weights
        assert isinstance(weights, MappedWeights)
        order = [Window(n, 2, n * 64 * KIB, (n + 1) * 64 * KIB) for n in range(4)]
        for entered in range(3):
            brought.clear()
            dropped.clear()
            weights.begin(order)
            for window in order[:entered]:
                weights.enter(window)
            weights.end()
            assert len(brought) <= entered + 1
            for start, stop in brought:
                assert any(first <= start and stop <= last for first, last in dropped)
    finally:
        engine.close()
