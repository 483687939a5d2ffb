"""Small models of random weights as VQF files, for the tests of the chain."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from engine.config import ModelConfig
from engine.convert.bits import binary32_bits
from engine.convert.rope import inverse_frequencies
from engine.synth.synthesize import synthesize


def model_config(architecture: str = "llama", **changes: Any) -> ModelConfig:
    """Return a shape of five layers, 64 wide; any field can be changed."""
    settings: dict[str, Any] = {
        "architecture": architecture,
        "num_layers": 5,
        "hidden_size": 64,
        "num_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 16,
        "intermediate_size": 160,
        "vocab_size": 512,
        "context_length_tokens": 128,
        "norm_eps_bits": binary32_bits(Decimal("1e-5")),
        "tied_embeddings": architecture != "qwen3",
        "attention_bias": architecture == "qwen2",
        "qk_norm": architecture == "qwen3",
        **changes,
    }
    settings.setdefault(
        "rope_inv_freq_bits", inverse_frequencies(Decimal(10_000), settings["head_dim"])
    )
    return ModelConfig(**settings)


def write_model(
    folder: Path, architecture: str = "llama", *, kind: str = "Q8_0", seed: int = 1, **changes: Any
) -> Path:
    """Write a seeded model and return its file; the same bytes for the same arguments."""
    path = folder / f"{architecture}-{kind}-{seed}.vqf"
    synthesize(path, model_config(architecture, **changes), kind=kind, seed=seed, force=True)
    return path
