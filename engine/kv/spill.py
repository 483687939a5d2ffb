"""Cache blocks that lie in a file: sealed, layer by layer (rules D of engine/kv/README.md)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from crypto.bulk import Bulk
from crypto.kdf import TAG_BYTES
from engine.errors import ConfigError, SpillError
from engine.kv.nameless import NamelessFile
from engine.kv.seal import SliceSeal, Written
from engine.kv.sharing import Sharing
from engine.kv.slots import Slots
from engine.memory.buffers import PAGE_BYTES, address_of, mapped_pages

MAX_FILE_BYTES: Final = 1 << 44
MAX_SLICES: Final = 1 << 24

_PIECE_BYTES: Final = 2 << 20  # a thread reads this much at once, or more if its lanes need it


class SpillFile:
    """Slots for cache blocks in a file that only this process can read.

    Safe for several threads, but for what concerns one slot: whoever loads it keeps others from
    storing to it and from freeing it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        layer_bytes: int,
        num_layers: int,
        max_slots: int,
        bulk: Bulk,
        num_threads: int = 1,
        reserve: bool = False,
    ) -> None:
        """Make a file and draw its keys.

        Args:
            folder: where the file lies; it never has a name there.
            layer_bytes: of a block in one layer, a multiple of 4096.
            num_layers: of the model.
            max_slots: how many blocks can be in the file at once.
            bulk: what encrypts and authenticates.
            num_threads: how many threads compute at once for all calls together.
            reserve: whether the whole file is to have its space on the disk from now on.

        Raises:
            ConfigError: a number is out of range, or the file would be larger than 16 TiB or have
                more than 2^24 slices.
            SpillError: the file system refuses the file or its size.
            SelfTestError: a primitive of this process gives wrong results.
        """
        _check_sizes(layer_bytes, num_layers, max_slots)
        self.layer_bytes: Final = layer_bytes
        self.num_layers: Final = num_layers
        self.max_slots: Final = max_slots
        self._lanes = min(bulk.lanes, num_layers)
        self._rows_at_once = bulk.lanes * max(1, _PIECE_BYTES // (bulk.lanes * layer_bytes))
        self._slots = Slots(max_slots)
        self._sharing = Sharing(num_threads)
        self._numbers = np.zeros((num_layers, max_slots), np.uint64)
        self._tags = np.zeros((num_layers, max_slots, TAG_BYTES), np.uint8)
        self._staging: SimpleQueue[NDArray[np.uint8]] = SimpleQueue()
        self._has_staging = False
        self._store_lock = threading.Lock()
        self._calls = threading.Condition()
        self._num_calls = 0
        self._is_closed = False
        self._process = os.getpid()
        self._seal = SliceSeal(bulk)
        try:
            self._file = NamelessFile(folder, num_layers * max_slots * layer_bytes, reserve=reserve)
        except BaseException:
            self._seal.wipe()
            raise

    @property
    def block_bytes(self) -> int:
        """Size of a block, all layers together."""
        return self.num_layers * self.layer_bytes

    @property
    def is_direct(self) -> bool:
        """Whether the file system lets reads and writes pass the page cache by."""
        return self._file.is_direct

    @property
    def num_free(self) -> int:
        """How many slots can still be taken."""
        return self._slots.num_free

    @property
    def staging_bytes(self) -> int:
        """Memory in which blocks are encrypted, taken with the first of them and kept."""
        return self._sharing.num_workers * self._lanes * self.layer_bytes

    def allocate(self) -> int:
        """Take a slot, the lowest free one, and return it; it holds nothing yet.

        Raises:
            SpillError: all slots are taken, or the file is closed.
        """
        with self._call():
            return self._slots.allocate()

    def free(self, slot: int) -> None:
        """Give a slot back; what it held cannot be loaded any more.

        Raises:
            ConfigError: it is not taken.
        """
        self._slots.free(slot)

    def store(self, slot: int, block: NDArray[np.uint8]) -> None:
        """Encrypt a block and write it to a slot, in place of what was there.

        Args:
            slot: a slot that is taken.
            block: uint8[num_layers * layer_bytes], contiguous; nobody writes to it meanwhile.

        Raises:
            ConfigError: the slot is not taken, or the block has another shape. Nothing changed.
            SpillError: it cannot be written, such as for want of space. The slot is free.
        """
        if block.dtype != np.uint8 or block.shape != (self.block_bytes,):
            raise ConfigError(f"a block is uint8[{self.block_bytes}]")
        layers = block.reshape(self.num_layers, self.layer_bytes)
        with self._call(), self._store_lock:
            self._slots.require_taken(slot)
            self._slots.set_holds(slot, holds=False)
            try:
                self._store(slot, layers)
            except BaseException:
                self._slots.free(slot)
                raise
            self._slots.set_holds(slot, holds=True)

    def load_layer(self, layer: int, slots: Sequence[int], out: NDArray[np.uint8]) -> None:
        """Read one layer of blocks, verify it and decrypt it.

        Args:
            layer: which.
            slots: that blocks were stored to, in any order, also repeatedly; neighbours in
                ascending order are read together.
            out: uint8[len(slots), layer_bytes], contiguous, at the start of a page, which nobody
                else reads or writes. After any error it is zeros.

        Raises:
            ConfigError: a slot holds no block, or an argument has another range or shape.
            SpillError: the file cannot be read, is too short or closed.
            SpillIntegrityError: a slice is not the one that was last stored there.
        """
        try:
            with self._call():
                self._check_load(layer, slots, out)
                pieces = _pieces(len(slots), self._rows_at_once)
                self._sharing.run(lambda piece: self._load(layer, slots, out, piece), pieces)
        except BaseException:
            out.fill(0)
            raise

    def close(self) -> None:
        """Wait for calls in other threads, then wipe the keys and delete the file."""
        with self._calls:
            if self._is_closed:
                return
            self._is_closed = True
            self._calls.wait_for(lambda: self._num_calls == 0)
        self._sharing.close()
        self._seal.wipe()
        self._file.close()
        self._staging = SimpleQueue()

    def __enter__(self) -> Self:
        """Return the file, which ends with the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Keep the file open meanwhile; SpillError if it is not, or is another process's."""
        if os.getpid() != self._process:  # a copy would number its writes like the original
            raise SpillError("the file of cache blocks belongs to another process")
        with self._calls:
            if self._is_closed:
                raise SpillError("the file of cache blocks is closed")
            self._num_calls += 1
        try:
            yield
        finally:
            with self._calls:
                self._num_calls -= 1
                self._calls.notify_all()

    def _offset(self, layer: int, slot: int) -> int:
        return (layer * self.max_slots + slot) * self.layer_bytes

    def _store(self, slot: int, layers: NDArray[np.uint8]) -> None:
        if not self._has_staging:
            for _ in range(self._sharing.num_workers):
                memory = mapped_pages(self._lanes * self.layer_bytes)
                self._staging.put(memory.reshape(self._lanes, self.layer_bytes))
            self._has_staging = True
        pieces = _pieces(self.num_layers, self._lanes)
        self._sharing.run(lambda piece: self._write(slot, layers, piece), pieces)
        self._file.settle()

    def _write(self, slot: int, layers: NDArray[np.uint8], piece: range) -> None:
        """Encrypt and write some layers of a block."""
        first = self._seal.take_numbers(len(piece))
        slices = [Written(layer, slot, first + i) for i, layer in enumerate(piece)]
        staging = self._staging.get()
        try:
            rows = staging[: len(piece)]
            buffers = [row.data for row in rows]
            with self._sharing.computing:
                rows[:] = layers[piece.start : piece.stop]
                tags = self._seal.close(slices, buffers)
            for written, tag, buffer in zip(slices, tags, buffers, strict=True):
                self._file.write_from(buffer, self._offset(written.layer, slot))
                self._numbers[written.layer, slot] = written.number
                self._tags[written.layer, slot] = np.frombuffer(tag, np.uint8)
        finally:
            self._staging.put(staging)

    def _check_load(self, layer: int, slots: Sequence[int], out: NDArray[np.uint8]) -> None:
        if not 0 <= layer < self.num_layers:
            raise ConfigError(f"layer {layer} is not one of {self.num_layers}")
        if out.dtype != np.uint8 or out.shape != (len(slots), self.layer_bytes):
            raise ConfigError(f"{len(slots)} slots need uint8[{len(slots)}, {self.layer_bytes}]")
        if not out.flags.c_contiguous or address_of(out) % PAGE_BYTES:
            raise ConfigError("blocks are read to contiguous memory at the start of a page")
        for slot in slots:
            self._slots.require_block(slot)

    def _load(self, layer: int, slots: Sequence[int], out: NDArray[np.uint8], piece: range) -> None:
        """Read, verify and decrypt some rows of a layer."""
        for run in _runs(slots, piece):
            rows = out[run.start : run.stop].reshape(-1)
            self._file.read_into(rows.data, self._offset(layer, slots[run.start]))
        slices = [Written(layer, slots[i], int(self._numbers[layer, slots[i]])) for i in piece]
        tags = [self._tags[layer, slots[i]].tobytes() for i in piece]
        with self._sharing.computing:
            self._seal.open(slices, tags, [out[i].data for i in piece])


def _check_sizes(layer_bytes: int, num_layers: int, max_slots: int) -> None:
    if layer_bytes < 1 or layer_bytes % PAGE_BYTES:
        message = f"a layer of a spilled block has a multiple of {PAGE_BYTES} bytes"
        raise ConfigError(f"{message}, not {layer_bytes}")
    if num_layers < 1 or max_slots < 1 or num_layers * max_slots > MAX_SLICES:
        message = f"{num_layers} layers of {max_slots} slots"
        raise ConfigError(f"{message} are not 1..{MAX_SLICES} slices")
    if num_layers * max_slots * layer_bytes > MAX_FILE_BYTES:
        raise ConfigError(f"spilled cache blocks take at most {MAX_FILE_BYTES} bytes")


def _pieces(length: int, most: int) -> list[range]:
    """Cut 0 .. length - 1 into ranges of at most `most`."""
    return [range(start, min(start + most, length)) for start in range(0, length, most)]


def _runs(slots: Sequence[int], piece: range) -> Iterator[range]:
    """Cut a range of places in `slots` where a slot is not the one behind the slot before."""
    start = piece.start
    for i in piece[1:]:
        if slots[i] != slots[i - 1] + 1:
            yield range(start, i)
            start = i
    yield range(start, piece.stop)
