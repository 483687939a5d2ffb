"""The steps of a decoder that are not linear, in binary64: what `assist` leaves to the key holder.

The formulas are those of NUMERICS N5 to N9 without their roundings.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig

Values = NDArray[np.float64]


def epsilon(config: ModelConfig) -> float:
    """Return what the norms add below the root."""
    return float(np.uint32(config.norm_eps_bits).view(np.float32))


def rms_norm(x: Values, gamma: Values, eps: float) -> Values:
    """Return x over its root mean square, times gamma: float64[..., n] and [n]."""
    normed: Values = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * gamma
    return normed


def head_norm(x: Values, gamma: Values | None, head_dim: int, eps: float) -> Values:
    """Return every head of float64[..., heads * head_dim] normed; as it is without gamma."""
    if gamma is None:
        return x
    heads = x.reshape(*x.shape[:-1], -1, head_dim)
    return rms_norm(heads, gamma, eps).reshape(x.shape)


def rope(x: Values, positions: NDArray[np.int64], config: ModelConfig) -> Values:
    """Return float64[positions, heads * head_dim] turned by the angles of its positions."""
    inverse = np.array(config.rope_inv_freq_bits, np.uint64).view(np.float64)
    angles = positions[:, None, None] * inverse
    cosine, sine = np.cos(angles), np.sin(angles)
    half = config.head_dim // 2
    heads = x.reshape(len(positions), -1, config.head_dim)
    low, high = heads[..., :half], heads[..., half:]
    turned = np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)
    return turned.reshape(x.shape)


def softmax(scores: Values) -> Values:
    """Return the weights of float64[..., keys]."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: Values = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def silu(x: Values) -> Values:
    """Return x / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    value: Values = x * np.where(x < 0, small, 1.0) / (1 + small)
    return value


def binary16(x: Values) -> Values:
    """Return the nearest binary16 values."""
    with np.errstate(over="ignore"):
        rounded: Values = x.astype(np.float16).astype(np.float64)
    return rounded
