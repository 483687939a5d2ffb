"""An evaluator that is watched: seconds by operation, and the levels that the work went through."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

from he_chain.backends.base import Ciphertext, Evaluator, Plain, Values
from he_chain.records.record import MAX_LEVELS

_Result = TypeVar("_Result")


class Watched:
    """An `Evaluator` around another one; results are the other's, to the bit."""

    def __init__(self, evaluator: Evaluator) -> None:
        """Watch this one."""
        self._inner = evaluator
        self.parameters = evaluator.parameters
        self.primes = evaluator.primes
        self.counts = evaluator.counts
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._levels: list[tuple[int, int]] = []

    def take(self) -> tuple[dict[str, float], tuple[tuple[int, int], ...]]:
        """Return seconds by operation and the trace of levels since the last call."""
        taken = dict(self._seconds), tuple(self._levels)
        self._seconds, self._levels = defaultdict(float), []
        return taken

    def encode(self, values: Values | float, level: int, scale: float) -> Plain:
        """As of the watched one."""
        return self._timed("encodes", lambda: self._inner.encode(values, level, scale))

    def add(self, x: Ciphertext, y: Ciphertext) -> Ciphertext:
        """As of the watched one."""
        return self._seen("other", lambda: self._inner.add(x, y))

    def sub(self, x: Ciphertext, y: Ciphertext) -> Ciphertext:
        """As of the watched one."""
        return self._seen("other", lambda: self._inner.sub(x, y))

    def add_plain(self, x: Ciphertext, y: Plain) -> Ciphertext:
        """As of the watched one."""
        return self._seen("other", lambda: self._inner.add_plain(x, y))

    def sub_plain(self, x: Ciphertext, y: Plain) -> Ciphertext:
        """As of the watched one."""
        return self._seen("other", lambda: self._inner.sub_plain(x, y))

    def mul_plain(self, x: Ciphertext, y: Plain) -> Ciphertext:
        """As of the watched one."""
        return self._seen("ct_pt", lambda: self._inner.mul_plain(x, y))

    def mul(self, x: Ciphertext, y: Ciphertext) -> Ciphertext:
        """As of the watched one."""
        return self._seen("ct_ct", lambda: self._inner.mul(x, y))

    def rescale(self, x: Ciphertext) -> Ciphertext:
        """As of the watched one."""
        return self._seen("rescales", lambda: self._inner.rescale(x))

    def to_level(self, x: Ciphertext, level: int) -> Ciphertext:
        """As of the watched one."""
        return self._seen("other", lambda: self._inner.to_level(x, level))

    def rotate(self, x: Ciphertext, steps: int) -> Ciphertext:
        """As of the watched one."""
        return self._seen("rotations", lambda: self._inner.rotate(x, steps))

    def dump(self, x: Ciphertext) -> bytes:
        """As of the watched one."""
        return self._timed("other", lambda: self._inner.dump(x))

    def load(self, data: bytes) -> Ciphertext:
        """As of the watched one."""
        return self._seen("other", lambda: self._inner.load(data))

    def _timed(self, kind: str, compute: Callable[[], _Result]) -> _Result:
        start = time.perf_counter()
        try:
            return compute()
        finally:
            self._seconds[kind] += time.perf_counter() - start

    def _seen(self, kind: str, compute: Callable[[], Ciphertext]) -> Ciphertext:
        """Return a result whose level goes into the trace; a full trace takes no more."""
        result = self._timed(kind, compute)
        if self._levels and self._levels[-1][0] == result.level:
            self._levels[-1] = (result.level, self._levels[-1][1] + 1)
        elif len(self._levels) < MAX_LEVELS:
            self._levels.append((result.level, 1))
        return result
