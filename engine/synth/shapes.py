"""Shapes of published models: facts of their config.json files, without a weight."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from engine.config import ModelConfig
from engine.convert.bits import binary32_bits
from engine.convert.limits import LIMITS, check_shape
from engine.convert.rope import inverse_frequencies
from engine.errors import ConfigError, UnsupportedError


@dataclass(frozen=True, slots=True)
class Shape:
    """What a model's published configuration says; names and units as in `ModelConfig`."""

    source: str
    """The model whose config.json states these numbers."""
    architecture: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    context_length_tokens: int
    rope_theta: int
    norm_eps: str
    tied_embeddings: bool

    def config(
        self, *, num_layers: int | None = None, context_tokens: int | None = None
    ) -> ModelConfig:
        """Return the configuration.

        Args:
            num_layers: by default the model's own number.
            context_tokens: by default the model's own context.

        Raises:
            ConfigError: a number is outside the limits of the format.
        """
        layers = self.num_layers if num_layers is None else num_layers
        context = self.context_length_tokens if context_tokens is None else context_tokens
        for name, value in (("layers", layers), ("context", context)):
            if not 1 <= value <= LIMITS[name]:
                raise ConfigError(f"{name} must be in 1 .. {LIMITS[name]}, not {value}")
        return check_shape(
            ModelConfig(
                architecture=self.architecture,
                num_layers=layers,
                hidden_size=self.hidden_size,
                num_heads=self.num_heads,
                num_kv_heads=self.num_kv_heads,
                head_dim=self.head_dim,
                intermediate_size=self.intermediate_size,
                vocab_size=self.vocab_size,
                context_length_tokens=context,
                norm_eps_bits=binary32_bits(Decimal(self.norm_eps)),
                rope_inv_freq_bits=inverse_frequencies(Decimal(self.rope_theta), self.head_dim),
                tied_embeddings=self.tied_embeddings,
                attention_bias=self.architecture == "qwen2",
                qk_norm=self.architecture == "qwen3",
            )
        )


SHAPES: Final[dict[str, Shape]] = {
    "qwen3-8b": Shape(
        source="Qwen/Qwen3-8B",
        architecture="qwen3",
        num_layers=36,
        hidden_size=4096,
        num_heads=32,
        num_kv_heads=8,
        head_dim=128,
        intermediate_size=12288,
        vocab_size=151_936,
        context_length_tokens=40_960,
        rope_theta=1_000_000,
        norm_eps="1e-6",
        tied_embeddings=False,
    ),
    "qwen3-4b": Shape(
        source="Qwen/Qwen3-4B",
        architecture="qwen3",
        num_layers=36,
        hidden_size=2560,
        num_heads=32,
        num_kv_heads=8,
        head_dim=128,
        intermediate_size=9728,
        vocab_size=151_936,
        context_length_tokens=40_960,
        rope_theta=1_000_000,
        norm_eps="1e-6",
        tied_embeddings=True,
    ),
    "qwen3-1.7b": Shape(
        source="Qwen/Qwen3-1.7B",
        architecture="qwen3",
        num_layers=28,
        hidden_size=2048,
        num_heads=16,
        num_kv_heads=8,
        head_dim=128,
        intermediate_size=6144,
        vocab_size=151_936,
        context_length_tokens=40_960,
        rope_theta=1_000_000,
        norm_eps="1e-6",
        tied_embeddings=True,
    ),
    "qwen3-0.6b": Shape(
        source="Qwen/Qwen3-0.6B",
        architecture="qwen3",
        num_layers=28,
        hidden_size=1024,
        num_heads=16,
        num_kv_heads=8,
        head_dim=128,
        intermediate_size=3072,
        vocab_size=151_936,
        context_length_tokens=40_960,
        rope_theta=1_000_000,
        norm_eps="1e-6",
        tied_embeddings=True,
    ),
    "qwen2.5-7b": Shape(
        source="Qwen/Qwen2.5-7B-Instruct",
        architecture="qwen2",
        num_layers=28,
        hidden_size=3584,
        num_heads=28,
        num_kv_heads=4,
        head_dim=128,
        intermediate_size=18_944,
        vocab_size=152_064,
        context_length_tokens=32_768,
        rope_theta=1_000_000,
        norm_eps="1e-6",
        tied_embeddings=False,
    ),
    "llama3-8b": Shape(
        source="meta-llama/Meta-Llama-3-8B",
        architecture="llama",
        num_layers=32,
        hidden_size=4096,
        num_heads=32,
        num_kv_heads=8,
        head_dim=128,
        intermediate_size=14_336,
        vocab_size=128_256,
        context_length_tokens=8192,
        rope_theta=500_000,
        norm_eps="1e-5",
        tied_embeddings=False,
    ),
    "smollm2-135m": Shape(
        source="HuggingFaceTB/SmolLM2-135M-Instruct",
        architecture="llama",
        num_layers=30,
        hidden_size=576,
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        intermediate_size=1536,
        vocab_size=49_152,
        context_length_tokens=8192,
        rope_theta=100_000,
        norm_eps="1e-5",
        tied_embeddings=True,
    ),
}

_LATER: Final = {
    "qwen3-30b-a3b": "a mixture of experts",
    "qwen3.8-27b": "a hybrid of linear and full attention",
}
"""Shapes that have a name already, and what keeps them out."""


def shape_named(name: str) -> Shape:
    """Return a shape.

    Raises:
        UnsupportedError: it is of an architecture that the engine does not run.
        ConfigError: there is none of that name.
    """
    if name in _LATER:
        raise UnsupportedError(f"{name} is {_LATER[name]}: it joins with its architecture")
    if name not in SHAPES:
        raise ConfigError(f"there is no shape {name!a}, only {', '.join(SHAPES)}")
    return SHAPES[name]
