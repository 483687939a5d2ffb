"""N10: the decoder of the llama, qwen2 and qwen3 families.

T rows of one step, L layers, H query heads, G key/value heads, D head dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from engine.config import ModelConfig
from engine.errors import ContextLengthError, WeightsError
from engine.reference.arrays import F32, Floats, quiet
from engine.reference.attention import attention
from engine.reference.cache import Cache, CacheType, empty_cache
from engine.reference.finite import require_finite
from engine.reference.functions import silu_mul
from engine.reference.linear import linear
from engine.reference.norm import rmsnorm
from engine.reference.rope import RopeTable, rope_table, rotate
from engine.reference.weights import Weight
from engine.vqf.families import required_extents
from engine.vqf.panels import Groups


class Forward(NamedTuple):
    """What one step computed.

    Attributes:
        logits: float32[T, vocab], or float32[1, vocab] of the last row only.
        residuals: float32[L + 1, T, hidden], x(t, l).
        cache: the given cache extended by this step's positions.
    """

    logits: F32
    residuals: F32
    cache: Cache


class ReferenceModel:
    """One model, ready to compute."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Mapping[str, Weight],
        *,
        cache_type: CacheType = np.float16,
    ) -> None:
        """Check the tensors against the configuration and bring the matrices into the form of N2.

        Args:
            config: shape and constants.
            weights: by the names of a VQF file; `head` only where it is not tied.
            cache_type: float16 of profile `wh1` (N9), float32 of `wh1-float` (N13).

        Raises:
            WeightsError: a tensor is missing, not expected, or of another shape.
        """
        expected = {t.name: t.shape for extent in required_extents(config) for t in extent.tensors}
        if missing := expected.keys() - weights.keys():
            raise WeightsError(f"missing tensors: {', '.join(sorted(missing))}")
        if unexpected := weights.keys() - expected.keys():
            raise WeightsError(f"unexpected tensors: {', '.join(sorted(unexpected))}")
        for name, shape in expected.items():
            if weights[name].shape != shape:
                raise WeightsError(f"tensor {name} has shape {weights[name].shape}, not {shape}")
        self.config = config
        self._cache_type = cache_type
        self._embedding = weights["embedding"]
        self._vectors = {
            name: weights[name].vector() for name, shape in expected.items() if len(shape) == 1
        }
        self._matrices: dict[str, Groups | F32] = {
            name: weights[name].matrix()
            for name, shape in expected.items()
            if len(shape) == 2 and (name != "embedding" or config.tied_embeddings)
        }

    def forward(
        self, ids: Sequence[int], cache: Cache | None = None, *, last_only: bool = False
    ) -> Forward:
        """Compute one step: a whole prompt, a chunk of it, or one token.

        Args:
            ids: T >= 1 token ids.
            cache: what earlier steps returned; None begins a sequence.
            last_only: compute the logits of the last row alone.

        Raises:
            ValueError: no ids, or an id outside the vocabulary.
            ContextLengthError: the positions do not fit into the context.
            NonFiniteError: a value that must be finite is not (N12).
        """
        config = self.config
        cache = empty_cache(config, self._cache_type) if cache is None else cache
        start = cache.num_positions
        if not ids or not all(0 <= token < config.vocab_size for token in ids):
            raise ValueError(f"ids must be from 0 to {config.vocab_size - 1}, at least one")
        if start + len(ids) > config.context_length_tokens:
            raise ContextLengthError(start + len(ids), 0, config.context_length_tokens)
        with quiet():
            table = rope_table(
                np.arange(start, start + len(ids), dtype=np.int64), config.rope_inv_freq_bits
            )
            x = self._embedding.rows(np.array(ids, dtype=np.int64))
            require_finite(x, "embedding")
            residuals, keys, values = [x], [], []
            for layer in range(config.num_layers):
                x, k, v = self._layer(layer, x, table, cache)
                require_finite(x, f"residual after layer {layer + 1}")
                residuals.append(x)
                keys.append(k)
                values.append(v)
            logits = self._logits(x[-1:] if last_only else x)
        return Forward(logits, np.stack(residuals), Cache(np.stack(keys), np.stack(values)))

    def _layer(
        self, layer: int, x: F32, table: RopeTable, cache: Cache
    ) -> tuple[F32, Floats, Floats]:
        """One layer: x float32[T, hidden] after it, and its keys and values in the cache."""
        config = self.config
        rows = x.shape[0]
        h = rmsnorm(x, self._vectors[f"layers.{layer}.attention_norm"], config.norm_eps_bits)
        q = self._linear(layer, "q", h).reshape(rows, config.num_heads, config.head_dim)
        k = self._linear(layer, "k", h).reshape(rows, config.num_kv_heads, config.head_dim)
        v = self._linear(layer, "v", h).reshape(rows, config.num_kv_heads, config.head_dim)
        if config.qk_norm:
            q = rmsnorm(q, self._vectors[f"layers.{layer}.q_norm"], config.norm_eps_bits)
            k = rmsnorm(k, self._vectors[f"layers.{layer}.k_norm"], config.norm_eps_bits)
        q, k = rotate(q, table), rotate(k, table)
        require_finite(q, f"query in layer {layer + 1}")
        require_finite(k, f"key in layer {layer + 1}")
        keys = _extend(cache.keys[layer], k, f"key in layer {layer + 1}")
        values = _extend(cache.values[layer], v, f"value in layer {layer + 1}")
        attended = attention(q, keys, values, cache.num_positions)
        x = x + self._linear(layer, "o", attended.reshape(rows, config.num_heads * config.head_dim))
        h = rmsnorm(x, self._vectors[f"layers.{layer}.ffn_norm"], config.norm_eps_bits)
        h = silu_mul(self._linear(layer, "gate", h), self._linear(layer, "up", h))
        return x + self._linear(layer, "down", h), keys, values

    def _linear(self, layer: int, name: str, x: F32) -> F32:
        tensor = f"layers.{layer}.{name}"
        return linear(x, self._matrices[tensor], self._vectors.get(f"{tensor}_bias"))

    def _logits(self, x: F32) -> F32:
        h = rmsnorm(x, self._vectors["final_norm"], self.config.norm_eps_bits)
        logits = linear(h, self._matrices["embedding" if self.config.tied_embeddings else "head"])
        require_finite(logits, "logits")
        return logits


def _extend(cached: Floats, new: F32, name: str) -> Floats:
    """N9: round float32[T, G, D] to the cache's type and append it to [n, G, D]."""
    rounded = new.astype(cached.dtype)
    require_finite(rounded, name)
    return np.concatenate((cached, rounded))
