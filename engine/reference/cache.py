"""Keys and values of the positions computed so far."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.config import ModelConfig
from engine.reference.arrays import Floats

CacheType = type[np.float16] | type[np.float32]


class Cache(NamedTuple):
    """float16[L, n, G, D] keys (after N7) and values; never changed in place.

    float32 where the model was made with that cache type.
    """

    keys: Floats
    values: Floats

    @property
    def num_positions(self) -> int:
        """How many positions the cache holds."""
        count: int = self.keys.shape[1]
        return count


def empty_cache(config: ModelConfig, cache_type: CacheType = np.float16) -> Cache:
    """Return a cache without positions."""
    shape = (config.num_layers, 0, config.num_kv_heads, config.head_dim)
    return Cache(np.zeros(shape, dtype=cache_type), np.zeros(shape, dtype=cache_type))
