"""The fastest `Bulk` that this machine has, compared with the portable one before it is used.

Importing this module imports numba.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from crypto.bulk import Bulk, PortableBulk
from crypto.errors import SelfTestError
from crypto.kernels.bulk import LaneBulk
from crypto.kernels.variants import choose, cpu_features
from simd.target import TARGET

# Of the inputs that are compared: more than a piece that is decrypted at once, and one that does
# not fill a block; initial blocks that carry into every word, and that wrap.
_LENGTHS: Final = (4_500, 37)
_INITIAL_BLOCKS: Final = ((1 << 128) - 9, (1 << 96) - 5, (1 << 64) - 100, (1 << 32) - 3, 0)
_KEY: Final = bytes(range(16))
_PREFIX: Final = bytes(range(200, 255)) * 2


@cache
def load_bulk() -> Bulk:
    """Return the best `Bulk` of this process's kernel path.

    Raises:
        SelfTestError: compiled code gives another result than the portable one.
    """
    variant = choose(TARGET.path, cpu_features())
    if variant is None:
        return PortableBulk()
    bulk = LaneBulk(variant)
    compare(bulk, PortableBulk())
    return bulk


def compare(bulk: Bulk, oracle: Bulk) -> None:
    """Compare every method with an oracle's, on fixed inputs.

    Raises:
        SelfTestError: one differs.
    """
    for length in _LENGTHS:
        count = bulk.lanes + 1
        pattern = bytes((i * i >> 3 ^ i) & 0xFF for i in range(256))
        data = [(pattern[i:] * (length // 64 + 1))[:length] for i in range(count)]
        blocks = [_INITIAL_BLOCKS[i % len(_INITIAL_BLOCKS)] for i in range(count)]
        if _results(bulk, data, blocks) != _results(oracle, data, blocks):
            raise SelfTestError(f"{bulk.name}: compiled SM3 or SM4 differs from {oracle.name}")


def _results(bulk: Bulk, data: list[bytes], blocks: list[int]) -> list[object]:
    ciphered, both = ([bytearray(part) for part in data] for _ in range(2))
    prefixes = [bytes([i]) + _PREFIX for i in range(len(data))]
    bulk.sm4_ctr_many(_KEY, blocks, ciphered)
    digests = bulk.sm4_ctr_sm3_many(_KEY, blocks, _PREFIX[:1], both)
    return [
        ciphered,
        both,
        digests,
        bulk.sm3_many(_PREFIX, data),
        bulk.sm3_rows(b"", b"".join(data), len(data)),
        bulk.hmac_sm3_many(_KEY * 5, prefixes, data),
    ]
