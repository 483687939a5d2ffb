"""A model whose matrices are longer than a small window, in all forms of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine.config import ModelConfig, TokenizerConfig
from engine.forward import Engine, Piece
from engine.memory.load import load_weights
from engine.memory.residency import Residency
from engine.vqf import ExtentPlan, TensorSpec, VqfFile, open_vqf, panels, write_vqf
from engine.vqf.families import required_extents
from engine.vqf.unlock import Unlock
from tests.engine.kernels.models import random_ids, random_weights, small_config
from tests.engine.vqf import vectors
from tests.engine.vqf.conftest import sealed_copy, signed_copy

KINDS = ("Q8_0", "Q4_1", "F16")
CONFIG: ModelConfig = small_config(
    num_layers=3,
    hidden_size=256,
    num_heads=4,
    num_kv_heads=2,
    head_dim=64,
    intermediate_size=512,
    vocab_size=5003,
    context_length_tokens=256,
    tied_embeddings=False,
    attention_bias=True,
)
FORMS = ("plain", "signed", "sealed")


def write(path: Path, config: ModelConfig) -> Path:
    """Write a plain file."""
    weights = random_weights(config, KINDS)
    plan = [
        ExtentPlan(
            extent.name,
            tuple(TensorSpec(t.name, weights[t.name].kind, t.shape) for t in extent.tensors),
        )
        for extent in required_extents(config)
    ]
    tensors = {extent.name: extent.tensors for extent in plan}
    plan.append(ExtentPlan("tokenizer", raw_bytes_length=2))

    def source(name: str) -> Iterator[Any]:
        if name == "tokenizer":
            yield b"{}"
            return
        for tensor in tensors[name]:
            weight = weights[tensor.name]
            if len(tensor.shape) == 1:
                yield np.ascontiguousarray(weight.fields["w"], np.float32).tobytes()
            else:
                yield panels.pack(weight.kind, weight.fields, *tensor.shape)

    write_vqf(path, config, TokenizerConfig(1, (2,), False), plan, source)
    return path


def write_all(folder: Path, config: ModelConfig) -> Path:
    """Write all forms into a folder."""
    plain = write(folder / "plain.vqf", config)
    signed_copy(plain, folder / "signed.vqf", "signer_1")
    sealed_copy(folder / "signed.vqf", folder / "sealed.vqf", "alice")
    return folder


def opened(path: Path) -> VqfFile:
    """Open a file of any form."""
    return open_vqf(path, vectors.unlock("alice") if path.stem == "sealed" else Unlock())


class Computed(NamedTuple):
    """What an engine gives for a prompt in pieces and some tokens: all bits."""

    leaves: bytes
    logits: bytes


def engine_of(path: Path, residency: Residency, *, threads: int = 2, **limits: int) -> Engine:
    """Return an engine over a file, which it closes."""
    file = opened(path)
    weights = load_weights(file, residency, num_threads=threads)
    if residency.mode == "full":
        file.close()
    sizes = {"max_rows": 32, "max_outputs": 4, "max_positions": 128, **limits}
    return Engine(weights, num_threads=threads, **sizes)


def compute(engine: Engine, seed: int = 1) -> Computed:
    """Compute a prompt in two pieces beside another one, and five tokens."""
    config = engine.config
    ids = np.array(random_ids(config, 60, seed), np.int32)
    one, two = engine.new_cache(), engine.new_cache()
    leaves, logits = [], []
    try:
        pieces = [[Piece(one, ids[:20])], [Piece(one, ids[20:31], 1), Piece(two, ids[40:48])]]
        pieces += [[Piece(one, ids[n : n + 1], 1)] for n in range(31, 36)]
        for piece in pieces:
            result = engine.step(piece, leaves=True)
            assert result.leaves is not None
            leaves.append(result.leaves.tobytes())
            logits.append(result.logits.tobytes())
    finally:
        one.release()
        two.release()
    return Computed(b"".join(leaves), b"".join(logits))
