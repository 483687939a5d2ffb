"""What is altered, missing or failing is an error and no content."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.bench.pages import resident_bytes
from engine.errors import ConfigError, EngineError, SpillError, SpillIntegrityError
from engine.kv.nameless import NamelessFile
from engine.kv.spill import SpillFile
from tests.appliance.failures.volume import ext4, tmpfs
from tests.engine.kv.spilled import (
    LAYER_BYTES,
    MAX_SLOTS,
    NUM_LAYERS,
    WithLanes,
    block,
    layer_of,
    link,
    read_disk,
    room,
    spill_file,
    stored,
    write_disk,
)
from tests.structure.source import CHECKOUT


@pytest.fixture(params=[1, 2])
def file(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    with spill_file(tmp_path, WithLanes(), num_threads=request.param) as made:
        yield made


def assert_fails(
    file: SpillFile,
    layer: int,
    slots: list[int],
    error: type[EngineError],
    match: str | None = None,
) -> None:
    """Load, and see the error and no content."""
    out = room(len(slots))
    with pytest.raises(error, match=match) as caught:
        file.load_layer(layer, slots, out)
    assert type(caught.value) is error
    assert not out.any()


def assert_loads(file: SpillFile, layer: int, contents: dict[int, int]) -> None:
    """Load, and see the blocks of these numbers."""
    out = room(len(contents))
    file.load_layer(layer, list(contents), out)
    for row, number in zip(out, contents.values(), strict=True):
        assert np.array_equal(row, layer_of(block(number), layer))


@pytest.fixture(scope="module")
def full_file(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with spill_file(tmp_path_factory.mktemp("spill"), WithLanes(), num_threads=2) as made:
        stored(made, *range(MAX_SLOTS))
        yield made


@settings(max_examples=40, deadline=None)
@given(
    bit=st.integers(0, 8 * LAYER_BYTES - 1),
    layer=st.integers(0, NUM_LAYERS - 1),
    where=st.integers(0, MAX_SLOTS - 1),
)
def test_a_flipped_bit_is_seen(full_file: SpillFile, bit: int, layer: int, where: int) -> None:
    slots = list(range(MAX_SLOTS))
    right = read_disk(full_file, layer, where)
    wrong = bytearray(right)
    wrong[bit // 8] ^= 1 << bit % 8
    write_disk(full_file, layer, where, bytes(wrong))
    assert_fails(full_file, layer, slots, SpillIntegrityError, f"layer {layer} .* slot {where} ")
    assert_loads(full_file, (layer + 1) % NUM_LAYERS, {slot: slot for slot in slots})
    assert_loads(full_file, layer, {slot: slot for slot in slots if slot != where})
    write_disk(full_file, layer, where, right)  # only reading was refused: nothing else changed
    assert_loads(full_file, layer, {slot: slot for slot in slots})


def test_slices_that_change_places_are_seen(file: SpillFile) -> None:
    stored(file, 0, 1)
    for (layer, slot), (to_layer, to_slot) in product(product((0, 1), (0, 1)), repeat=2):
        if (layer, slot) == (to_layer, to_slot):
            continue
        ours, theirs = read_disk(file, layer, slot), read_disk(file, to_layer, to_slot)
        write_disk(file, to_layer, to_slot, ours)
        write_disk(file, layer, slot, theirs)
        assert_fails(file, layer, [slot], SpillIntegrityError)
        assert_fails(file, to_layer, [to_slot], SpillIntegrityError)
        write_disk(file, to_layer, to_slot, theirs)
        write_disk(file, layer, slot, ours)
    for layer in range(NUM_LAYERS):
        assert_loads(file, layer, {0: 0, 1: 1})


def test_an_older_slice_of_the_same_place_is_seen(file: SpillFile) -> None:
    (slot,) = stored(file, 1)
    older = read_disk(file, 2, slot)
    file.store(slot, block(1))  # the same content again
    newer = read_disk(file, 2, slot)
    assert newer != older
    write_disk(file, 2, slot, older)
    assert_fails(file, 2, [slot], SpillIntegrityError)
    file.free(slot)
    assert file.allocate() == slot
    file.store(slot, block(2))
    for old in (older, newer):
        write_disk(file, 2, slot, old)
        assert_fails(file, 2, [slot], SpillIntegrityError)


def test_what_another_file_has_written_is_seen(file: SpillFile, tmp_path: Path) -> None:
    with spill_file(tmp_path) as other:
        (slot,) = stored(other, 1)
        assert stored(file, 1) == [slot]
        write_disk(file, 0, slot, read_disk(other, 0, slot))
    assert_fails(file, 0, [slot], SpillIntegrityError)


@pytest.mark.parametrize("missing", [1, 4096, LAYER_BYTES, 3 * LAYER_BYTES + 512])
def test_a_file_that_became_shorter_is_seen(file: SpillFile, missing: int) -> None:
    slots = stored(file, *range(MAX_SLOTS))
    os.truncate(link(file), NUM_LAYERS * MAX_SLOTS * LAYER_BYTES - missing)
    out = room(MAX_SLOTS)
    with pytest.raises(SpillError):
        file.load_layer(NUM_LAYERS - 1, slots, out)
    assert not out.any()
    assert_loads(file, 0, {slot: slot for slot in slots})
    file.store(MAX_SLOTS - 1, block(9))
    assert_loads(file, NUM_LAYERS - 1, {MAX_SLOTS - 1: 9})


def failing(real: Callable[..., int], when: int, number: int) -> Callable[..., int]:
    """Return a function that fails once, when it was called so often."""
    calls = 0
    lock = threading.Lock()

    def function(*arguments: Any) -> int:
        nonlocal calls
        with lock:
            calls += 1
            mine = calls
        if mine == when:
            raise OSError(number, os.strerror(number))
        return real(*arguments)

    return function


@pytest.mark.parametrize("when", [1, 2])
def test_a_read_error_is_an_error(
    file: SpillFile, monkeypatch: pytest.MonkeyPatch, when: int
) -> None:
    slots = stored(file, *range(MAX_SLOTS))
    order = slots[::2] + slots[1::2]
    monkeypatch.setattr(os, "preadv", failing(os.preadv, when, errno.EIO))
    assert_fails(file, 0, order, SpillError, "Input/output error")
    assert_loads(file, 0, {slot: slot for slot in order})


def test_short_reads_and_writes_are_continued(
    file: SpillFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    preadv, pwritev = os.preadv, os.pwritev
    monkeypatch.setattr(os, "preadv", lambda d, views, at: preadv(d, [views[0][:4096]], at))
    monkeypatch.setattr(os, "pwritev", lambda d, views, at: pwritev(d, [views[0][:4096]], at))
    slots = stored(file, *range(MAX_SLOTS))
    assert_loads(file, 1, {slot: slot for slot in slots})
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    with pytest.raises(SpillError, match="nothing more"):
        file.store(slots[0], block(7))


@pytest.mark.parametrize("when", [1, 4, NUM_LAYERS])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EFBIG])
def test_a_write_error_leaves_the_slot_free_and_others_as_they_are(
    file: SpillFile, monkeypatch: pytest.MonkeyPatch, when: int, number: int
) -> None:
    stored(file, 0, 1)
    slot = file.allocate()
    for target in (slot, 1):  # a new one, and one that holds a block
        monkeypatch.setattr(os, "pwritev", failing(os.pwritev, when, number))
        free = file.num_free
        with pytest.raises(SpillError, match=os.strerror(number)):
            file.store(target, block(5))
        monkeypatch.undo()
        assert file.num_free == free + 1
        out = room(1)
        with pytest.raises(EngineError, match="holds no"):
            file.load_layer(0, [target], out)
    assert_loads(file, NUM_LAYERS - 1, {0: 0})
    assert stored(file, 6, 7) == [1, 2]
    assert_loads(file, NUM_LAYERS - 1, {0: 0, 1: 6, 2: 7})


def test_bytes_that_do_not_reach_the_disk_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fdatasync(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(NamelessFile, "_become_direct", lambda _: False)
    with spill_file(tmp_path) as file:
        slot = file.allocate()
        monkeypatch.setattr(os, "fdatasync", fdatasync)
        with pytest.raises(SpillError, match="Input/output error"):
            file.store(slot, block(1))
        assert file.num_free == MAX_SLOTS


def fill(file: SpillFile) -> dict[int, int]:
    """Store until the disk is full; return which block lies in which slot."""
    contents: dict[int, int] = {}

    def store() -> None:
        while True:
            slot = file.allocate()
            file.store(slot, block(slot))
            contents[slot] = slot

    with pytest.raises(SpillError, match="No space left"):
        store()
    return contents


@pytest.mark.parametrize("make", [tmpfs, ext4])
def test_a_full_disk_is_an_error_and_others_go_on(tmp_path: Path, make: Any) -> None:
    with (
        make(tmp_path / "disk", 4 << 20) as volume,
        spill_file(volume.folder, num_threads=2, max_slots=500) as file,
    ):
        contents = fill(file)
        assert 20 < len(contents) < 110
        assert file.num_free == 500 - len(contents)
        for layer in range(NUM_LAYERS):
            assert_loads(file, layer, contents)
        file.free(3)
        assert file.allocate() == 3
        file.store(3, block(1000))  # its space is there
        assert_loads(file, 4, contents | {3: 1000})


def test_a_full_disk_has_no_room_for_a_file(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 1 << 20) as volume:
        volume.fill()
        with pytest.raises(SpillError):
            spill_file(volume.folder)


def test_a_disk_that_is_removed_is_an_error(tmp_path: Path) -> None:
    with ext4(tmp_path / "disk", 8 << 20) as disk, spill_file(disk.folder) as file:
        slots = stored(file, 1, 2)
        disk.shut_down()
        out = room(2)
        with pytest.raises(SpillError, match="Input/output error"):
            file.load_layer(1, slots, out)
        assert not out.any()
        with pytest.raises(SpillError, match="Input/output error"):
            file.store(slots[0], block(3))


@pytest.mark.parametrize("is_direct", [True, False])
def test_the_page_cache_stays_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_direct: bool
) -> None:
    if not is_direct:
        monkeypatch.setattr(NamelessFile, "_become_direct", lambda _: False)
    with ext4(tmp_path / "disk", 8 << 20) as disk, spill_file(disk.folder) as file:
        assert file.is_direct is is_direct
        slots = stored(file, *range(MAX_SLOTS))
        for layer in range(NUM_LAYERS):
            file.load_layer(layer, slots, room(MAX_SLOTS))
        assert resident_bytes(link(file)) == 0


PROGRAM = """
import errno, os, sys, time
from pathlib import Path
import numpy as np
from crypto.bulk import PortableBulk
from engine.kv.spill import SpillFile

if sys.argv[2] == "named":
    real = os.open
    def open_(path, flags, *rest):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(path, flags, *rest)
    os.open = open_
file = SpillFile(
    Path(sys.argv[1]), layer_bytes=4096, num_layers=2, max_slots=4, bulk=PortableBulk()
)
file.store(file.allocate(), np.ones(8192, np.uint8))
print("stored", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("kind", ["nameless", "named"])
def test_a_kill_leaves_nothing(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=CHECKOUT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"stored\n"
        finally:
            process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not list(tmp_path.iterdir())


def test_close_waits_for_who_is_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preadv = os.preadv
    reading, go_on = threading.Event(), threading.Event()

    def held(*arguments: Any) -> int:
        reading.set()
        assert go_on.wait(30)
        return preadv(*arguments)

    file = spill_file(tmp_path)
    slots = stored(file, 1)
    out = room(1)
    monkeypatch.setattr(os, "preadv", held)
    load = threading.Thread(target=file.load_layer, args=(0, slots, out))
    load.start()
    assert reading.wait(30)
    close = threading.Thread(target=file.close)
    close.start()
    close.join(0.05)
    assert close.is_alive()
    go_on.set()
    load.join()
    close.join()
    assert np.array_equal(out[0], layer_of(block(1), 0))


def test_a_block_that_is_being_replaced_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwritev = os.pwritev
    writing, go_on = threading.Event(), threading.Event()

    def held(*arguments: Any) -> int:
        writing.set()
        assert go_on.wait(30)
        return pwritev(*arguments)

    with spill_file(tmp_path) as file:
        (slot,) = stored(file, 1)
        monkeypatch.setattr(os, "pwritev", held)
        store = threading.Thread(target=file.store, args=(slot, block(2)))
        store.start()
        assert writing.wait(30)
        try:
            assert_fails(file, 0, [slot], ConfigError, "holds no")
        finally:
            go_on.set()
            store.join()
        assert_loads(file, 0, {slot: 2})
