"""What hashes and decrypts the bytes of a file: compiled kernels where they earn their start."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from crypto.bulk import PortableBulk

if TYPE_CHECKING:
    from crypto.bulk import Bulk

_WORTH_KERNELS_BYTES: Final = 64 << 20
"""Importing numba takes a second, in which `PortableBulk` has read this much."""


def bulk_for(size_bytes: int) -> Bulk:
    """Return what is fastest for a file of this size.

    Raises:
        SelfTestError: the compiled kernels compute wrong results.
    """
    if size_bytes < _WORTH_KERNELS_BYTES:
        return PortableBulk()
    from crypto.kernels.load import load_bulk  # noqa: PLC0415  (takes numba)

    return load_bulk()


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))
