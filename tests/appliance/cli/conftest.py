"""A whole weight file small enough for every test to have its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.config import ModelConfig, TokenizerConfig
from engine.vqf import ExtentPlan, TensorSpec, write_vqf
from engine.vqf.families import required_extents
from engine.vqf.panels import pack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = ModelConfig(
    architecture="llama",
    num_layers=2,
    hidden_size=32,
    num_heads=2,
    num_kv_heads=1,
    head_dim=16,
    intermediate_size=64,
    vocab_size=20,
    context_length_tokens=128,
    norm_eps_bits=0x3727C5AC,
    rope_inv_freq_bits=(0x3FF0000000000000,) * 8,
    tied_embeddings=True,
    attention_bias=False,
    qk_norm=False,
)
TOKENIZER = b'{"version":"1.0"}'


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Return a plain VQF file of kind F32, with a tokenizer and without a template."""
    plan = [
        ExtentPlan(
            extent.name,
            tuple(TensorSpec(tensor.name, "F32", tensor.shape) for tensor in extent.tensors),
        )
        for extent in required_extents(CONFIG)
    ]
    specs = {extent.name: extent.tensors for extent in plan}

    def source(name: str) -> Iterator[np.ndarray | bytes]:
        if name == "tokenizer":
            yield TOKENIZER
            return
        for number, spec in enumerate(specs[name]):
            values = np.full(spec.shape, number + 1, np.float32)
            yield values if values.ndim == 1 else pack("F32", {"w": values}, *spec.shape)

    path = tmp_path / "tiny.vqf"
    text = ExtentPlan("tokenizer", raw_bytes_length=len(TOKENIZER))
    write_vqf(path, CONFIG, TokenizerConfig(None, (2,), False), [*plan, text], source)
    return path
