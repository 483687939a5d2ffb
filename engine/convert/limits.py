"""Bounds of a configuration (FORMAT.md section 4), checked before anything is built from it."""

from __future__ import annotations

from typing import Final

from engine.config import ModelConfig
from engine.errors import ConversionError, UnsupportedError

LIMITS: Final = {
    "layers": 1024,
    "hidden_size": 65_536,
    "heads": 1024,
    "head_dim": 1024,
    "intermediate_size": 1_048_576,
    "vocab_size": 4_194_304,
    "context": 1_048_576,
    "any": 1 << 40,
}
"""Largest value of each; a longer context than `context` is cut to it (NUMERICS N7 ends there)."""


def check_shape(config: ModelConfig) -> ModelConfig:
    """Return `config` after checking what its numbers must have in common.

    Raises:
        ConversionError: They contradict each other.
        UnsupportedError: A size is not a multiple of what the kernels work in.
    """
    if config.num_heads % config.num_kv_heads:
        raise ConversionError(
            f"{config.num_heads} heads cannot share {config.num_kv_heads} key/value heads"
        )
    for name in ("hidden_size", "head_dim"):
        size = getattr(config, name)
        if size % 16:
            raise UnsupportedError(f"{name} is {size}, not a multiple of 16")
    if not 1 <= config.vocab_size <= LIMITS["vocab_size"]:
        raise UnsupportedError(f"a vocabulary of {config.vocab_size} tokens is not supported")
    if not 0 < config.norm_eps_bits < 0x7F800000:
        raise ConversionError("the epsilon of the norms is not a positive number")
    return config
