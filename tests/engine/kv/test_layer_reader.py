"""Layers come in order, read ahead, and no thread writes to what is gone."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ConfigError, SpillError, SpillIntegrityError
from engine.kv.layer_reader import LayerReader
from engine.kv.spill import SpillFile
from tests.engine.kv.spilled import (
    LAYER_BYTES,
    MAX_SLOTS,
    NUM_LAYERS,
    WithLanes,
    block,
    layer_of,
    spill_file,
    stored,
    write_disk,
)

BUDGET = 2 * MAX_SLOTS * LAYER_BYTES


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SpillFile]:
    with spill_file(tmp_path, WithLanes(), num_threads=2) as made:
        stored(made, *range(MAX_SLOTS))
        yield made


@pytest.fixture
def reader(file: SpillFile) -> Iterator[LayerReader]:
    with LayerReader(file, budget_bytes=BUDGET) as made:
        yield made


def check(reader: LayerReader, layer: int, slots: list[int]) -> None:
    """See that a layer is there."""
    rows = reader.layer(layer)
    assert rows.shape == (len(slots), LAYER_BYTES)
    for row, slot in zip(rows, slots, strict=True):
        assert np.array_equal(row, layer_of(block(slot), layer))


class Gate:
    """Lets reads through when it is open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrived, self.open = threading.Event(), threading.Event()
        self.num_reads = 0
        self._preadv = os.preadv
        monkeypatch.setattr(os, "preadv", self._read)

    def _read(self, *arguments: Any) -> int:
        self.num_reads += 1
        self.arrived.set()
        assert self.open.wait(30)
        return self._preadv(*arguments)


def test_steps_of_any_length_one_after_the_other(reader: LayerReader) -> None:
    for slots in ([0], [5, 4, 3, 2, 1, 0], [], [2, 2, 3], list(range(MAX_SLOTS))):
        reader.begin(slots)
        for layer in range(NUM_LAYERS):
            check(reader, layer, slots)
        reader.end()


@settings(max_examples=15, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.lists(st.integers(0, MAX_SLOTS - 1), max_size=MAX_SLOTS),
            st.integers(0, NUM_LAYERS),
            st.booleans(),
        ),
        max_size=6,
    )
)
def test_steps_that_end_anywhere(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[list[int], int, bool]]
) -> None:
    with (
        spill_file(tmp_path_factory.getbasetemp(), WithLanes()) as file,
        LayerReader(file, budget_bytes=BUDGET) as reader,
    ):
        stored(file, *range(MAX_SLOTS))
        for slots, num_layers, says_so in steps:
            reader.begin(slots)
            for layer in range(num_layers):
                check(reader, layer, slots)
            if says_so:
                reader.end()
            assert reader.allocated_bytes <= BUDGET


def test_only_the_next_layer_can_be_had(reader: LayerReader) -> None:
    with pytest.raises(ConfigError, match="turn"):
        reader.layer(0)
    reader.begin([0, 1])
    for wrong in (1, -1, NUM_LAYERS):
        with pytest.raises(ConfigError, match="turn"):
            reader.layer(wrong)
    check(reader, 0, [0, 1])
    with pytest.raises(ConfigError, match="turn"):
        reader.layer(0)
    for layer in range(1, NUM_LAYERS):
        check(reader, layer, [0, 1])
    with pytest.raises(ConfigError, match="turn"):
        reader.layer(NUM_LAYERS)
    reader.begin([3])
    check(reader, 0, [3])
    reader.end()
    with pytest.raises(ConfigError, match="turn"):
        reader.layer(1)


def test_the_next_layer_is_read_while_one_is_used(
    reader: LayerReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.begin([0, 1, 2])
    gate = Gate(monkeypatch)  # layer 0 may have been read before or may come through it
    gate.open.set()
    rows = reader.layer(0)
    assert gate.arrived.wait(30)
    assert np.array_equal(rows[2], layer_of(block(2), 0))
    check(reader, 1, [0, 1, 2])


def test_a_layer_stays_while_the_next_is_read(reader: LayerReader) -> None:
    reader.begin([0, 1])
    for layer in range(NUM_LAYERS - 1):
        rows = reader.layer(layer)
        reading = reader._reading
        assert reading is not None
        reading.result()
        assert np.array_equal(rows[1], layer_of(block(1), layer))


def test_buffers_fit_the_budget_or_are_refused(file: SpillFile) -> None:
    for budget, most in ((0, 0), (2 * LAYER_BYTES - 1, 0), (4 * LAYER_BYTES, 2)):
        with LayerReader(file, budget_bytes=budget) as reader:
            assert reader.max_slots == most
            with pytest.raises(ConfigError, match="room for"):
                reader.begin(list(range(most + 1)))
            slots = list(range(most))
            reader.begin(slots)
            assert reader.allocated_bytes <= budget
            check(reader, 0, slots)


def test_buffers_are_kept_and_shrink(tmp_path: Path) -> None:
    with (
        spill_file(tmp_path, max_slots=64, num_layers=1, layer_bytes=4096) as file,
        LayerReader(file, budget_bytes=2 * 64 * 4096) as reader,
    ):
        stored(file, *range(64))
        sizes = []
        for num_slots in (32, 33, 36, 37, 30, 20, 10, 0, 64, 64):
            reader.begin(range(num_slots))
            assert reader.layer(0).shape == (num_slots, 4096)
            sizes.append(reader.allocated_bytes // (2 * 4096))
        reader.close()
        assert reader.allocated_bytes == 0
    assert sizes == [36, 36, 36, 41, 41, 41, 11, 0, 64, 64]


def test_errors_of_the_thread_are_raised_and_end_the_step(
    file: SpillFile, reader: LayerReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_disk(file, 3, 4, b"something else")
    slots = list(range(MAX_SLOTS))
    reader.begin(slots)
    for layer in range(3):
        check(reader, layer, slots)
    with pytest.raises(SpillIntegrityError, match=r"layer 3 .* slot 4 "):
        reader.layer(3)
    with pytest.raises(ConfigError, match="turn"):
        reader.layer(4)
    assert not reader._buffers[1].any()
    reader.begin([0])
    check(reader, 0, [0])
    reader.end()

    def broken(*_: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    reader.begin([0])
    with pytest.raises(SpillError, match="Input/output error"):
        reader.layer(0)
    monkeypatch.undo()
    reader.begin(slots)
    check(reader, 0, slots)


@pytest.mark.parametrize("ending", ["end", "begin", "close"])
def test_an_early_end_waits_for_the_thread(
    reader: LayerReader, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    reader.begin([0, 1])
    check(reader, 0, [0, 1])
    reader.end()
    gate = Gate(monkeypatch)
    reader.begin([2, 3])
    assert gate.arrived.wait(30)
    action = {"end": reader.end, "begin": lambda: reader.begin([]), "close": reader.close}[ending]
    thread = threading.Thread(target=action)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    gate.open.set()
    thread.join()
    assert gate.num_reads == 1
    if ending != "close":
        reader.begin([4])
        check(reader, 0, [4])


def test_readers_and_stores_at_the_same_time(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def steps(file: SpillFile, slots: list[int]) -> None:
        try:
            with LayerReader(file, budget_bytes=BUDGET) as reader:
                for _ in range(20):
                    reader.begin(slots)
                    for layer in range(NUM_LAYERS):
                        check(reader, layer, slots)
        except BaseException as error:
            failures.append(error)
            raise

    with spill_file(tmp_path, WithLanes(), num_threads=2, max_slots=20) as file:
        stored(file, *range(MAX_SLOTS))
        orders = ([0, 1, 2, 3], [5, 3, 1], [2, 4])
        threads = [threading.Thread(target=steps, args=(file, slots)) for slots in orders]
        for thread in threads:
            thread.start()
        for number in range(30):
            slot = file.allocate()
            file.store(slot, block(number))
            file.free(slot)
        for thread in threads:
            thread.join()
    assert not failures


def test_a_file_that_is_closed_first_is_an_error(tmp_path: Path) -> None:
    file = spill_file(tmp_path)
    slots = stored(file, 1)
    with LayerReader(file, budget_bytes=BUDGET) as reader:
        file.close()
        reader.begin(slots)
        with pytest.raises(SpillError, match="closed"):
            reader.layer(0)
