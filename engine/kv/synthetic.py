"""Cached positions that nobody computed, to measure what a long context costs.

What attends to them gets numbers that mean nothing and cost the same. There is no residual stream
of such positions, so a sequence that has them has no trace.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.errors import ConfigError
from engine.kv.cache import BLOCK_POSITIONS, SequenceCache

_SIGN_AND_FRACTION: Final = np.uint16(0x83FF)
_EXPONENT: Final = np.uint16(0x3000)
"""binary16 of an eighth up to a quarter, of either sign."""


def append_synthetic(cache: SequenceCache, num_blocks: int, *, seed: int = 0) -> None:
    """Append whole blocks of random keys and values, the same for the same seed and place.

    Args:
        cache: whose blocks are all full; its keys and values are binary16.
        num_blocks: how many blocks of 64 positions.
        seed: of the numbers.

    Raises:
        ConfigError: a block is not full, or there is no room.
        EngineError, SpillError: as of `SequenceCache.reserve`.
    """
    if not cache.is_at_boundary:
        raise ConfigError("synthetic positions stand behind full blocks only")
    for _ in range(num_blocks):
        place = cache.num_blocks
        cache.reserve(BLOCK_POSITIONS)
        memory = cache.pool.memory(cache.blocks[-1]).view(np.uint16)
        generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, place]))
        memory[:] = generator.integers(0, 1 << 16, memory.size, np.uint16)
        np.bitwise_and(memory, _SIGN_AND_FRACTION, out=memory)
        np.bitwise_or(memory, _EXPONENT, out=memory)
        cache.advance(BLOCK_POSITIONS)
