"""What a step needs to hash residual rows while it computes."""

from __future__ import annotations

from typing import Final

import numpy as np

from crypto.kernels.bulk import LaneBulk
from engine.kernels import leaves as table
from engine.memory.buffers import address_of, aligned_bytes

_ALIGNMENT: Final = 64


class LeafHasher:
    """The table that `engine.kernels.leaves` reads, and a job for each thread."""

    def __init__(self, bulk: LaneBulk, prefix: bytes, num_threads: int) -> None:
        """Reserve memory.

        Args:
            bulk: hashes SM3(prefix || row).
            prefix: bytes before each row.
            num_threads: threads that will execute programs.
        """
        self.lanes = bulk.lanes
        job_bytes = -(-bulk.job_bytes // _ALIGNMENT) * _ALIGNMENT
        jobs = aligned_bytes(num_threads * job_bytes)
        jobs[:] = 0
        before = np.frombuffer(prefix, np.uint8)
        self._kept = bulk, jobs, before
        self._table = np.zeros(table.TABLE_WORDS, np.int64)
        self._table[table.ENTRY] = bulk.entry_address
        self._table[table.LANES] = bulk.lanes
        self._table[table.JOBS], self._table[table.JOB_BYTES] = address_of(jobs), job_bytes
        self._table[table.PREFIX], self._table[table.PREFIX_BYTES] = address_of(before), len(prefix)

    @property
    def address(self) -> int:
        """Where the table starts."""
        return address_of(self._table)
