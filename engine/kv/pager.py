"""Cached positions that are in a file, brought back for a step layer by layer (rule D13)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crypto.bulk import Bulk
from engine.config import ModelConfig
from engine.kv.blocks import BlockPool, layer_bytes
from engine.kv.budget import KvBudget, share_out
from engine.kv.cache import SequenceCache
from engine.kv.layer_reader import LayerReader
from engine.kv.spill import SpillFile
from engine.memory.buffers import address_of


class _Places(NamedTuple):
    """Entries of one block table, and the rows of the buffers that they are to point to."""

    table: NDArray[np.int64]
    entries: NDArray[np.int64]
    rows: NDArray[np.int64]


class Pager:
    """A pool of blocks of which some are in a file. One thread uses it."""

    def __init__(
        self,
        config: ModelConfig,
        folder: Path,
        *,
        max_blocks: int,
        memory_blocks: int,
        reader_bytes: int,
        number_bytes: int,
        bulk: Bulk,
        num_threads: int,
    ) -> None:
        """Make the file, with room on the disk for all blocks.

        Raises:
            ConfigError, SpillError, SelfTestError: as `SpillFile`.
        """
        self._layer_bytes = layer_bytes(config, number_bytes)
        self._file = SpillFile(
            folder,
            layer_bytes=self._layer_bytes,
            num_layers=config.num_layers,
            max_slots=max_blocks,
            bulk=bulk,
            num_threads=num_threads,
            reserve=True,
        )
        self._reader = LayerReader(self._file, budget_bytes=reader_bytes)
        self.pool = BlockPool(
            config,
            max_blocks=max_blocks,
            number_bytes=number_bytes,
            memory_blocks=memory_blocks,
            spill=self._file,
        )
        self._places: list[_Places] = []

    def begin(self, caches: Sequence[SequenceCache]) -> bool:
        """Begin a step of some sequences; return whether `layer` is to be called for each layer.

        Raises:
            ConfigError: more blocks are in the file than the buffers hold.
        """
        self._places = []
        if not self.pool.num_spilled:
            return False
        slots = []
        for cache in caches:
            numbers = np.array(cache.blocks, np.int64)
            cache.table[: len(numbers)] = self.pool.addresses[numbers]
            slots.append(self.pool.slots[numbers])
        wanted = np.unique(np.concatenate(slots))
        wanted = wanted[wanted >= 0]
        for cache, own in zip(caches, slots, strict=True):
            entries = np.flatnonzero(own >= 0)
            if len(entries):
                rows = np.searchsorted(wanted, own[entries])
                self._places.append(_Places(cache.table, entries, rows))
        if not self._places:
            return False
        self._reader.begin(wanted.tolist())
        return True

    def layer(self, layer: int) -> None:
        """Bring one layer; layers come in ascending order, from 0.

        Raises:
            SpillError, SpillIntegrityError: it could not be read, or is not what was written.
        """
        # Kernels add where the layer is in a block; a row of the buffers is nothing but the layer.
        first = address_of(self._reader.layer(layer)) - layer * self._layer_bytes
        for places in self._places:
            places.table[places.entries] = first + places.rows * self._layer_bytes

    def end(self) -> None:
        """End the step, finished or not."""
        self._places = []
        self._reader.end()

    def close(self) -> None:
        """Wipe the keys and delete the file."""
        self._reader.close()
        self._file.close()


def open_pager(
    budget: KvBudget,
    config: ModelConfig,
    *,
    max_blocks: int,
    max_rows: int,
    max_outputs: int,
    number_bytes: int,
    bulk: Bulk,
    num_threads: int,
) -> Pager | None:
    """Return a pager within a budget; None where everything fits into memory.

    Raises:
        ConfigError: the budget is too small.
        SpillError, SelfTestError: as `Pager`.
    """
    shares = share_out(
        budget.budget_bytes,
        num_layers=config.num_layers,
        layer_bytes=layer_bytes(config, number_bytes),
        max_blocks=max_blocks,
        max_rows=max_rows,
        max_outputs=max_outputs,
    )
    if not shares.reader_bytes:
        return None
    return Pager(
        config,
        budget.folder,
        max_blocks=max_blocks,
        memory_blocks=shares.memory_blocks,
        reader_bytes=shares.reader_bytes,
        number_bytes=number_bytes,
        bulk=bulk,
        num_threads=num_threads,
    )
