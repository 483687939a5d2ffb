"""How fast chunks of weights that are read again are compared and decrypted, on so many threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from appliance.bench.cases import spread
from crypto.bulk import Bulk
from crypto.errors import UnavailableError
from crypto.gmac import Sm4Gmac
from crypto.kernels.load import load_bulk
from engine.vqf.format import CHUNK_BYTES

KINDS: Final = {
    "mark": "SM4-GMAC of a chunk, or where the library has none HMAC-SM3",
    "cipher": "SM4-CTR of a sealed chunk",
}
"""What is done to chunks of 1 MiB."""

_KEY: Final = bytes(range(32))
_SECONDS: Final = 0.15
"""At least as long is one number measured."""


@dataclass(slots=True)
class CipherSpeed:
    """One kind of work on one number of threads: bytes/s in each round."""

    kind: str
    threads: int
    bytes_per_s: list[float] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Return every number that was measured, and their median."""
        rates = spread(self.bytes_per_s)
        return {"kind": self.kind, "threads": self.threads, "bytes_per_s": rates}


def measure_ciphers(threads: tuple[int, ...], rounds: int) -> tuple[str, list[CipherSpeed]]:
    """Measure every kind of work, all of them once in each round.

    Returns:
        What did the work, and its speeds.

    Raises:
        SelfTestError: compiled kernels compute wrong results.
    """
    bulk = load_bulk()
    speeds = [CipherSpeed(kind, count) for kind in KINDS for count in threads]
    for number in range(rounds):
        for speed in speeds if number % 2 == 0 else reversed(speeds):
            speed.bytes_per_s.append(_measure(bulk, speed.kind, speed.threads))
    return bulk.name, speeds


def _measure(bulk: Bulk, kind: str, num_threads: int) -> float:
    def work(buffers: list[bytearray]) -> int:
        call = _call(bulk, kind, buffers)
        done, end_s = 0, time.perf_counter() + _SECONDS
        while time.perf_counter() < end_s:
            call()
            done += CHUNK_BYTES * len(buffers)
        return done

    own = [[bytearray(CHUNK_BYTES) for _ in range(bulk.lanes)] for _ in range(num_threads)]
    with ThreadPoolExecutor(num_threads) as pool:
        started_s = time.perf_counter()
        total = sum(pool.map(work, own))
        return total / (time.perf_counter() - started_s)


def _call(bulk: Bulk, kind: str, buffers: list[bytearray]) -> Callable[[], object]:
    if kind == "mark":
        try:
            gmac = Sm4Gmac()
        except UnavailableError:
            prefixes = [bytes(64)] * len(buffers)
            return lambda: bulk.hmac_sm3_many(_KEY, prefixes, buffers)
        return lambda: [gmac.tag(number, buffer) for number, buffer in enumerate(buffers)]
    blocks = [number << 16 for number in range(len(buffers))]
    return lambda: bulk.sm4_ctr_many(_KEY[:16], blocks, buffers)
