"""A model of several chunks: a small layer, an embedding and a tokenizer of any length."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.config import ModelConfig, TokenizerConfig
from engine.vqf import ExtentPlan, TensorSpec, VqfFile, write_vqf
from tests.engine.vqf import tiny

PANEL_BYTES = 1024
"""Sixteen rows of the embedding."""

MIB = 1 << 20
NAMES = ("embedding", "layers.0", "final", "tokenizer", "template")
PATTERN = hashlib.shake_128(b"a pattern that stands in the plain data").digest(64)


def config(panels: int) -> ModelConfig:
    return ModelConfig(
        architecture="llama",
        num_layers=1,
        hidden_size=32,
        num_heads=2,
        num_kv_heads=1,
        head_dim=16,
        intermediate_size=64,
        vocab_size=16 * panels,
        context_length_tokens=128,
        norm_eps_bits=0x3727C5AC,
        rope_inv_freq_bits=(0x3FF0000000000000,),
        tied_embeddings=True,
        attention_bias=False,
        qk_norm=False,
    )


def plan(panels: int, tokenizer_bytes: int) -> list[ExtentPlan]:
    final = ExtentPlan("final", (TensorSpec("final_norm", "F32", (32,)),))
    return [
        ExtentPlan("embedding", (TensorSpec("embedding", "F16", (16 * panels, 32)),)),
        tiny.PLAN[1],
        final,
        ExtentPlan("tokenizer", raw_bytes_length=tokenizer_bytes),
        ExtentPlan("template", raw_bytes_length=len(tiny.TEMPLATE)),
    ]


def write(path: Path, panels: int, tokenizer_bytes: int, *, seed: str = "") -> bytes:
    """Write the plain file and return its model_digest."""

    def source(name: str) -> Iterator[Any]:
        if name == "embedding":
            data = bytearray(hashlib.shake_128(seed.encode()).digest(PANEL_BYTES * panels))
            data[256:320] = PATTERN
            yield data
        elif name == "tokenizer":
            text = b" ".join(b"%d" % number for number in range(tokenizer_bytes // 4 + 99))
            yield text[:tokenizer_bytes]
        elif name == "final":
            yield tiny.tensor_data(TensorSpec("final_norm", "F32", (32,)))
        else:
            yield from tiny.source(name)

    return write_vqf(
        path, config(panels), TokenizerConfig(1, (2,), False), plan(panels, tokenizer_bytes), source
    )


def contents(file: VqfFile, threads: int = 1) -> list[bytes]:
    """Return all extents."""
    sizes = [(name, bytearray(file.extent(name).size_bytes)) for name in NAMES]
    return [array.tobytes() for array in file.read_extents(sizes, num_threads=threads)]


class StoppedError(Exception):
    """Raised in the middle of the work by a test."""
