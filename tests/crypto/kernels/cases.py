"""The sets of instructions that this machine can execute, and inputs for them.

    python -m tests.crypto.kernels.cases

prints one JSON object: what `load_bulk` chose on the forced kernel path, and a digest of what it
gives on fixed inputs. So do processes on other paths and on emulated processors.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import TYPE_CHECKING

from crypto.kernels.bulk import LaneBulk
from crypto.kernels.load import load_bulk
from crypto.kernels.variants import VARIANTS, Variant, cpu_features
from simd.target import TARGET

if TYPE_CHECKING:
    from crypto.bulk import Bulk

PATH_FEATURES = {"avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"}, "avx2": {"avx2"}}


def can_run(variant: Variant) -> bool:
    """Return whether this CPU has the instructions; code for several lies in one process."""
    return (variant.needs | PATH_FEATURES.get(variant.path, set())) <= cpu_features()


@cache
def lane_bulk(name: str) -> LaneBulk:
    """Return a compiled implementation by name."""
    return LaneBulk(next(v for v in VARIANTS if v.name == name))


def pattern(length: int, salt: int) -> bytearray:
    """Return bytes that look random and are the same everywhere."""
    return bytearray(hashlib.shake_128(salt.to_bytes(4, "big")).digest(length))


def results(bulk: Bulk, length: int, count: int) -> list[object]:
    """Return what every method gives."""
    data = [pattern(length, n) for n in range(count)]
    both = [pattern(length, n) for n in range(count)]
    key, prefix = bytes(pattern(16, 100)), bytes(pattern(length % 257, 101))
    blocks = [int.from_bytes(pattern(16, 200 + n)) | (n % 2) * (2**128 - 256) for n in range(count)]
    hashed = bulk.sm3_many(prefix, data)
    tags = bulk.hmac_sm3_many(
        key * (1 + length % 6), [bytes(pattern(9, n)) for n in range(count)], data
    )
    rows = bulk.sm3_rows(prefix, b"".join(data), count)
    bulk.sm4_ctr_many(key, blocks, data)
    digests = bulk.sm4_ctr_sm3_many(key, blocks, prefix, both)
    return [hashed, tags, rows, data, both, digests]


def main() -> None:
    """Report."""
    bulk = load_bulk()
    digest = hashlib.sha256()
    for length, count in ((0, 3), (5, 17), (63, 2), (2304, 9), (10_001, 1), (4096, 16)):
        digest.update(repr(results(bulk, length, count)).encode())
    print(json.dumps({"path": TARGET.path, "name": bulk.name, "digest": digest.hexdigest()}))


if __name__ == "__main__":
    main()
