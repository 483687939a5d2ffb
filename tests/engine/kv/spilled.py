"""What the tests of spilled blocks share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crypto.bulk import Bulk, PortableBulk
from engine.kv.spill import SpillFile
from engine.memory.buffers import mapped_pages

LAYER_BYTES = 8192
NUM_LAYERS = 5
MAX_SLOTS = 6


class Recording(PortableBulk):
    """Keeps the initial blocks of whatever is encrypted or decrypted."""

    def __init__(self) -> None:
        self.blocks: list[int] = []

    def sm4_ctr_many(self, key: bytes, initial_blocks: Sequence[int], buffers: Any) -> None:
        self.blocks.extend(initial_blocks)
        super().sm4_ctr_many(key, initial_blocks, buffers)


class WithLanes(PortableBulk):
    """Wants several inputs in a call, as kernels do."""

    lanes = 3  # type: ignore[assignment,misc]


def spill_file(folder: Path, bulk: Bulk | None = None, **options: Any) -> SpillFile:
    """Return a small file."""
    sizes = {"layer_bytes": LAYER_BYTES, "num_layers": NUM_LAYERS, "max_slots": MAX_SLOTS}
    return SpillFile(folder, bulk=bulk or PortableBulk(), **(sizes | options))


def block(number: int, num_bytes: int = NUM_LAYERS * LAYER_BYTES) -> NDArray[np.uint8]:
    """Return content that differs between numbers and between pages."""
    return np.random.default_rng(number).integers(0, 256, num_bytes, np.uint8)


def layer_of(content: NDArray[np.uint8], layer: int) -> NDArray[np.uint8]:
    """Return the slice of a block in a layer."""
    return content[layer * LAYER_BYTES : (layer + 1) * LAYER_BYTES]


def stored(file: SpillFile, *numbers: int) -> list[int]:
    """Store blocks and return their slots."""
    slots = []
    for number in numbers:
        slots.append(file.allocate())
        file.store(slots[-1], block(number, file.block_bytes))
    return slots


def room(num_slots: int, layer_bytes: int = LAYER_BYTES) -> NDArray[np.uint8]:
    """Return memory to load to, which is not zeros."""
    out = mapped_pages(num_slots * layer_bytes).reshape(num_slots, layer_bytes)
    out.fill(0xA5)
    return out


def link(file: SpillFile) -> Path:
    """Return where the file can be opened, by this process alone."""
    return Path(f"/proc/self/fd/{file._file.descriptor}")


def disk_offset(file: SpillFile, layer: int, slot: int) -> int:
    """Return where rule D1 puts a slice."""
    return (layer * file.max_slots + slot) * file.layer_bytes


def read_disk(file: SpillFile, layer: int, slot: int) -> bytes:
    """Return what lies in the file."""
    with link(file).open("rb") as stream:
        stream.seek(disk_offset(file, layer, slot))
        return stream.read(file.layer_bytes)


def write_disk(file: SpillFile, layer: int, slot: int, data: bytes, start: int = 0) -> None:
    """Put something else there."""
    with link(file).open("r+b") as stream:
        stream.seek(disk_offset(file, layer, slot) + start)
        stream.write(data)
