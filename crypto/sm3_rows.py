"""SM3 of many equally long inputs at once: the rows of an array.

Every tree over activations is hashed here. Letters: n rows of k elements.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from crypto.bulk import Bulk, PortableBulk
from crypto.sm3 import DIGEST_BYTES

# Less than that is hashed before another thread would have begun.
_SHARE_BYTES: Final = 1 << 17


class RowHasher:
    """Hashes rows with a `Bulk`, on several threads where there is enough to share.

    Any thread may call, several at once.
    """

    def __init__(self, bulk: Bulk, *, num_threads: int = 1) -> None:
        """Use a bulk.

        Args:
            bulk: what hashes.
            num_threads: most threads that one call works on, the caller's among them.

        Raises:
            ValueError: there is no thread.
        """
        if num_threads < 1:
            raise ValueError(f"there must be at least one thread, not {num_threads}")
        self.bulk = bulk
        self.num_threads = num_threads
        # Its threads start with the first rows that are shared.
        self._others = ThreadPoolExecutor(num_threads - 1, "rows") if num_threads > 1 else None

    def hash_rows(self, prefix: bytes, rows: NDArray[Any]) -> NDArray[np.uint8]:
        """Return SM3(prefix || row) for every row.

        Args:
            prefix: bytes before each row.
            rows: [n, k] of any plain dtype; a row is the bytes of its elements, little-endian.

        Returns:
            uint8[n, 32]

        Raises:
            ValueError: the array has not two dimensions, or its elements are not plain
                little-endian values.
        """
        if rows.ndim != 2:
            raise ValueError(f"rows must have 2 dimensions, not {rows.ndim}")
        if rows.dtype.hasobject or rows.dtype != rows.dtype.newbyteorder("<"):
            raise ValueError(f"rows must hold little-endian values, not {rows.dtype}")
        data = np.ascontiguousarray(rows)
        num_rows, row_bytes = data.shape[0], data.shape[1] * data.dtype.itemsize
        plain = data.reshape(-1).view(np.uint8).reshape(num_rows, row_bytes)
        digests = bytearray().join(self._parts(prefix, plain))
        return np.frombuffer(digests, np.uint8).reshape(num_rows, DIGEST_BYTES)

    def hash_pairs(
        self, prefix: bytes, left: NDArray[np.uint8], right: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        """Return SM3(prefix || left row || right row) for every row.

        Args:
            prefix: bytes before each pair.
            left: uint8[n, 32]
            right: uint8[n, 32]

        Returns:
            uint8[n, 32]

        Raises:
            ValueError: the shapes or dtypes are not as above.
        """
        shape = (left.shape[0], DIGEST_BYTES)
        if left.shape != shape or right.shape != shape:
            raise ValueError(
                f"digests must be two arrays [n, 32], not {left.shape} and {right.shape}"
            )
        if left.dtype != np.uint8 or right.dtype != np.uint8:
            raise ValueError(f"digests must be uint8, not {left.dtype} and {right.dtype}")
        return self.hash_rows(prefix, np.concatenate((left, right), axis=1))

    def close(self) -> None:
        """End the other threads; what is hashed later stays on the caller's."""
        others, self._others = self._others, None
        if others is not None:
            others.shutdown()

    def _parts(self, prefix: bytes, rows: NDArray[np.uint8]) -> list[bytearray]:
        """Return the digests of consecutive parts of the rows, each made by one thread."""
        others, num_rows = self._others, rows.shape[0]
        wanted = min(self.num_threads, max(1, rows.nbytes // _SHARE_BYTES))
        # Parts of whole lanes: the last one of a part would idle otherwise.
        groups = -(-num_rows // (wanted * self.bulk.lanes))
        step = max(1, groups * self.bulk.lanes)
        parts = [rows[start : start + step] for start in range(0, num_rows, step)]
        if others is None or len(parts) < 2:
            return [self._digests(prefix, rows)]
        running = [others.submit(self._digests, prefix, part) for part in parts[1:]]
        first = self._digests(prefix, parts[0])
        return [first, *(part.result() for part in running)]

    def _digests(self, prefix: bytes, rows: NDArray[np.uint8]) -> bytearray:
        return self.bulk.sm3_rows(prefix, rows.data, rows.shape[0])


PORTABLE: Final = RowHasher(PortableBulk())
