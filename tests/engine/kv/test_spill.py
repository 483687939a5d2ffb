"""Spilled blocks come back as they were, and the file tells nothing."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import struct
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from numpy.typing import NDArray

from crypto.kdf import hkdf_sm3, hmac_sm3
from crypto.kernels.load import load_bulk
from crypto.sm4 import ctr
from engine.errors import ConfigError, SpillError
from engine.kv.nameless import NamelessFile
from engine.kv.spill import MAX_FILE_BYTES, MAX_SLICES, SpillFile
from tests.engine.kv.spilled import (
    LAYER_BYTES,
    MAX_SLOTS,
    NUM_LAYERS,
    Recording,
    WithLanes,
    block,
    layer_of,
    link,
    read_disk,
    room,
    spill_file,
    stored,
)


class Spilling(RuleBasedStateMachine):
    """Blocks that are stored, replaced, freed and loaded in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.file = spill_file(Path(self.folder.name), WithLanes(), num_threads=2)
        self.content: dict[int, NDArray[np.uint8] | None] = {}
        self.last = 0

    def holding(self) -> list[int]:
        return [slot for slot, content in self.content.items() if content is not None]

    @rule()
    def allocate(self) -> None:
        if len(self.content) == MAX_SLOTS:
            with pytest.raises(SpillError, match="taken"):
                self.file.allocate()
            return
        slot = self.file.allocate()
        assert slot == min(set(range(MAX_SLOTS)) - set(self.content))
        self.content[slot] = None

    @precondition(lambda self: self.content)
    @rule(data=st.data())
    def store(self, data: Any) -> None:
        slot = data.draw(st.sampled_from(sorted(self.content)))
        self.last += 1
        self.content[slot] = block(self.last)
        self.file.store(slot, block(self.last))

    @precondition(lambda self: self.content)
    @rule(data=st.data())
    def free(self, data: Any) -> None:
        slot = data.draw(st.sampled_from(sorted(self.content)))
        self.file.free(slot)
        del self.content[slot]

    @precondition(lambda self: self.holding())
    @rule(data=st.data(), layer=st.integers(0, NUM_LAYERS - 1))
    def load(self, data: Any, layer: int) -> None:
        slots = data.draw(st.lists(st.sampled_from(self.holding()), max_size=12))
        out = room(len(slots))
        self.file.load_layer(layer, slots, out)
        for row, slot in zip(out, slots, strict=True):
            content = self.content[slot]
            assert content is not None
            assert np.array_equal(row, layer_of(content, layer))

    @rule(slot=st.integers(-1, MAX_SLOTS))
    def what_holds_nothing_is_refused(self, slot: int) -> None:
        if slot not in self.holding():
            out = room(1)
            with pytest.raises(ConfigError):
                self.file.load_layer(0, [slot], out)
            assert not out.any()
        if slot not in self.content:
            with pytest.raises(ConfigError):
                self.file.free(slot)
            with pytest.raises(ConfigError):
                self.file.store(slot, block(0))

    @invariant()
    def every_slot_is_free_or_taken(self) -> None:
        assert self.file.num_free == MAX_SLOTS - len(self.content)

    def teardown(self) -> None:
        self.file.close()
        assert not list(Path(self.folder.name).iterdir())
        self.folder.cleanup()


TestSpilling = Spilling.TestCase
TestSpilling.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize(
    ("layer_bytes", "num_layers", "max_slots"), [(4096, 1, 1), (49152, 3, 40), (1 << 20, 2, 3)]
)
def test_blocks_come_back_whatever_their_size(
    tmp_path: Path, layer_bytes: int, num_layers: int, max_slots: int, num_threads: int
) -> None:
    sizes = {"layer_bytes": layer_bytes, "num_layers": num_layers, "max_slots": max_slots}
    with spill_file(tmp_path, load_bulk(), num_threads=num_threads, **sizes) as file:
        slots = stored(file, *range(max_slots))
        for order in (slots, slots[::-1], slots[::2] + slots[1::2]):
            for layer in range(num_layers):
                out = room(max_slots, layer_bytes)
                file.load_layer(layer, order, out)
                for row, slot in zip(out, order, strict=True):
                    whole = block(slot, file.block_bytes).reshape(num_layers, layer_bytes)
                    assert np.array_equal(row, whole[layer])


def test_neighbours_are_read_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[int, int]] = []
    preadv = os.preadv

    def recorded(descriptor: int, views: list[memoryview], offset: int) -> int:
        reads.append((offset // LAYER_BYTES, views[0].nbytes // LAYER_BYTES))
        return preadv(descriptor, views, offset)

    with spill_file(tmp_path, WithLanes()) as file:
        stored(file, *range(MAX_SLOTS))
        monkeypatch.setattr(os, "preadv", recorded)
        file.load_layer(2, [1, 2, 3, 0, 5, 4, 4, 5], room(8))
    start = 2 * MAX_SLOTS
    assert sorted(reads) == sorted(
        [(start + 1, 3), (start, 1), (start + 5, 1), (start + 4, 1), (start + 4, 2)]
    )


def test_the_file_is_what_the_rules_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = bytes(range(32))
    monkeypatch.setattr(secrets, "token_bytes", lambda size: secret[:size])
    with spill_file(tmp_path) as file:
        slots = stored(file, 1, 2)
        keys = hkdf_sm3(secret, b"", b"windhover/kv-spill-keys;v=1\0", 48)
        for which, slot in enumerate(slots):
            for layer in range(NUM_LAYERS):
                number = which * NUM_LAYERS + layer + 1
                plain = layer_of(block(which + 1), layer).tobytes()
                sealed = ctr(keys[:16], number << 64, plain)
                assert read_disk(file, layer, slot) == sealed
                place = struct.pack("<IIQ", layer, slot, number)
                tag = hmac_sm3(keys[16:], b"windhover/kv-spill-tag;v=1\0", place, sealed)
                assert file._tags[layer, slot].tobytes() == tag


def test_nothing_that_was_stored_can_be_read_in_the_file(tmp_path: Path) -> None:
    same = np.frombuffer(b"plain text that all see " * 2000, np.uint8)[: LAYER_BYTES * NUM_LAYERS]
    with spill_file(tmp_path) as file:
        for _ in range(2):
            slot = file.allocate()
            file.store(slot, same)
        data = link(file).read_bytes()
        slices = [read_disk(file, layer, slot) for layer in range(NUM_LAYERS) for slot in (0, 1)]
    assert b"plain text" not in data
    pages = [piece[start : start + 16] for piece in slices for start in range(0, LAYER_BYTES, 16)]
    assert len(set(pages)) == len(pages)


def test_two_files_have_two_keys(tmp_path: Path) -> None:
    found = set()
    for _ in range(2):
        with spill_file(tmp_path) as file:
            (slot,) = stored(file, 1)
            found.add(read_disk(file, 0, slot))
    assert len(found) == 2


def test_no_number_is_used_twice_even_if_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bulk = Recording()
    pwritev = os.pwritev
    calls = 0

    def sometimes(descriptor: int, views: list[memoryview], offset: int) -> int:
        nonlocal calls
        calls += 1
        if calls % 7 == 0:
            raise OSError(errno.EIO, "Input/output error")
        return pwritev(descriptor, views, offset)

    failures = 0
    with spill_file(tmp_path, bulk, num_threads=2) as file:
        monkeypatch.setattr(os, "pwritev", sometimes)
        for number in range(12):
            slot = file.allocate()
            try:
                file.store(slot, block(number))
            except SpillError:
                failures += 1
                continue
            file.free(slot)
        assert file.num_free == MAX_SLOTS
    assert failures
    assert failures < 12
    assert len(set(bulk.blocks)) == len(bulk.blocks) > 12
    assert all(initial >> 64 > 0 and initial % (1 << 64) == 0 for initial in bulk.blocks)


def test_numbers_end_and_then_nothing_is_written(tmp_path: Path) -> None:
    bulk = Recording()
    with spill_file(tmp_path, bulk) as file:
        file._seal._last_number = (1 << 64) - 1 - NUM_LAYERS
        stored(file, 1)
        assert max(bulk.blocks) >> 64 == (1 << 64) - 1
        seen = len(bulk.blocks)
        with pytest.raises(SpillError, match="too often"):
            file.store(file.allocate(), block(2))
        assert len(bulk.blocks) == seen
        assert file.num_free == MAX_SLOTS - 1
        out = room(1)
        file.load_layer(0, [0], out)
        assert np.array_equal(out[0], layer_of(block(1), 0))


def without_tmpfile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take nameless files away, as some file systems do."""
    real = os.open

    def open_(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", open_)


@pytest.mark.parametrize("has_tmpfile", [True, False])
def test_the_file_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_tmpfile: bool
) -> None:
    if not has_tmpfile:
        without_tmpfile(monkeypatch)
    with spill_file(tmp_path) as file:
        stored(file, 1)
        assert not list(tmp_path.iterdir())
        assert str(link(file).readlink()).endswith("(deleted)")
        status = os.fstat(file._file.descriptor)
        assert status.st_nlink == 0
        assert stat.S_IMODE(status.st_mode) == 0o600
        assert not os.get_inheritable(file._file.descriptor)
        with pytest.raises(OSError, match=r"\w"):
            os.link(link(file), tmp_path / "name", follow_symlinks=True)
    assert not list(tmp_path.iterdir())


def test_the_page_cache_is_used_where_it_cannot_be_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[tuple[int, int, int]] = []
    real = os.posix_fadvise

    def advise(descriptor: int, start: int, length: int, advice: int) -> None:
        dropped.append((start, length, advice))
        real(descriptor, start, length, advice)

    monkeypatch.setattr(NamelessFile, "_become_direct", lambda _: False)
    monkeypatch.setattr(os, "posix_fadvise", advise)
    with spill_file(tmp_path) as file:
        assert not file.is_direct
        slots = stored(file, 1, 2)
        assert (0, 0, os.POSIX_FADV_DONTNEED) in dropped
        out = room(2)
        file.load_layer(1, slots, out)
        assert np.array_equal(out[1], layer_of(block(2), 1))
        start = MAX_SLOTS * LAYER_BYTES
        assert dropped[-1] == (start, 2 * LAYER_BYTES, os.POSIX_FADV_DONTNEED)


def test_after_close_neither_keys_nor_file_are_there(tmp_path: Path) -> None:
    file = spill_file(tmp_path, num_threads=2)
    slots = stored(file, 1)
    seal, descriptor = file._seal, file._file.descriptor
    assert any(seal._cipher_key)
    assert any(seal._tag_key)
    file.close()
    file.close()
    assert not any(seal._cipher_key)
    assert not any(seal._tag_key)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    out = room(1)
    with pytest.raises(SpillError, match="closed"):
        file.load_layer(0, slots, out)
    assert not out.any()
    with pytest.raises(SpillError, match="closed"):
        file.store(slots[0], block(2))
    with pytest.raises(SpillError, match="closed"):
        file.allocate()


def test_a_child_cannot_use_the_file_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with spill_file(tmp_path) as file:
        (slot,) = stored(file, 1)
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(SpillError, match="another process"):
            file.store(slot, block(2))
        with pytest.raises(SpillError, match="another process"):
            file.load_layer(0, [slot], room(1))
        monkeypatch.undo()
        file.load_layer(0, [slot], room(1))


@pytest.mark.parametrize(
    "sizes",
    [
        {"layer_bytes": 0},
        {"layer_bytes": 4095},
        {"layer_bytes": 4096 + 512},
        {"layer_bytes": -4096},
        {"num_layers": 0},
        {"max_slots": 0},
        {"max_slots": MAX_SLICES},
        {"layer_bytes": MAX_FILE_BYTES // NUM_LAYERS & -4096},
        {"num_threads": 0},
        {"num_threads": 257},
    ],
)
def test_sizes_out_of_range_are_refused(tmp_path: Path, sizes: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        spill_file(tmp_path, **sizes)


def test_blocks_and_memory_of_another_shape_are_refused(tmp_path: Path) -> None:
    with spill_file(tmp_path) as file:
        slots = stored(file, 1, 2)
        with pytest.raises(ConfigError):
            file.store(slots[0], block(3)[:-1])
        with pytest.raises(ConfigError):
            file.store(slots[0], block(3).astype(np.uint16))
        shifted = room(3).reshape(-1)[64 : 64 + 2 * LAYER_BYTES].reshape(2, LAYER_BYTES)
        for out in (room(1), room(4)[::2], room(2, 4096), shifted, room(2).view(np.int8)):
            with pytest.raises(ConfigError):
                file.load_layer(0, slots, out)
            assert not out.any()
        for layer in (-1, NUM_LAYERS):
            with pytest.raises(ConfigError):
                file.load_layer(layer, slots, room(2))
        out = room(2)
        file.load_layer(0, slots, out)  # nothing of this has changed what is stored
        assert np.array_equal(out[0], layer_of(block(1), 0))


def test_staging_is_what_is_said(tmp_path: Path) -> None:
    with SpillFile(
        tmp_path, layer_bytes=4096, num_layers=8, max_slots=2, bulk=WithLanes(), num_threads=2
    ) as file:
        assert file.staging_bytes == 3 * 3 * 4096
        stored(file, 1)
        assert sum(file._staging.get().nbytes for _ in range(3)) == file.staging_bytes
        assert file._staging.empty()


def open_files() -> list[str]:
    """Return the numbers of what this process has open."""
    return [path.name for path in Path("/proc/self/fd").iterdir()]


def test_nothing_of_a_file_that_cannot_be_made_stays(tmp_path: Path) -> None:
    before = open_files()
    with pytest.raises(SpillError, match="No such file"):
        spill_file(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(SpillError, match="Not a directory"):
        spill_file(tmp_path / "file")
    assert open_files() == before


class Counting(WithLanes):
    """Sees how many threads encrypt or decrypt at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = self.most = self.calls = 0

    def sm4_ctr_many(self, key: bytes, initial_blocks: Sequence[int], buffers: Any) -> None:
        with self.lock:
            self.now += 1
            self.calls += 1
            self.most = max(self.most, self.now)
        super().sm4_ctr_many(key, initial_blocks, buffers)
        with self.lock:
            self.now -= 1


@pytest.mark.parametrize("num_threads", [1, 2])
def test_no_more_threads_compute_than_were_asked_for(tmp_path: Path, num_threads: int) -> None:
    bulk = Counting()
    with spill_file(
        tmp_path, bulk, num_threads=num_threads, layer_bytes=1 << 20, num_layers=9
    ) as file:
        slots = stored(file, *range(MAX_SLOTS))
        loads = [
            threading.Thread(target=file.load_layer, args=(layer, slots, room(MAX_SLOTS, 1 << 20)))
            for layer in range(3)
        ]
        for load in loads:
            load.start()
        for load in loads:
            load.join()
    assert bulk.calls == 3 * MAX_SLOTS + 3 * 2
    assert 1 <= bulk.most <= num_threads
