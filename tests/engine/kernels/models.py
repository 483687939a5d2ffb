"""Small random models in memory, for kernels and reference alike."""

from __future__ import annotations

from decimal import Decimal, getcontext
from typing import Any

import numpy as np

from engine.config import ModelConfig
from engine.memory.buffers import address_of, aligned_bytes
from engine.memory.weights import PlacedTensor
from engine.reference.weights import Weight
from engine.vqf import panels
from engine.vqf.families import required_extents

INTEGER_KINDS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
FLOAT_KINDS = ("F32", "F16", "BF16")


def inverse_frequencies(pairs: int, base: int = 10000) -> tuple[int, ...]:
    """Return binary64 patterns of base^(-i/pairs)."""
    getcontext().prec = 50
    values = [float(Decimal(base) ** (Decimal(-i) / Decimal(pairs))) for i in range(pairs)]
    return tuple(int(v) for v in np.array(values, np.float64).view(np.uint64))


def small_config(architecture: str = "llama", **changes: Any) -> ModelConfig:
    """Return a model of two layers, 256 wide."""
    settings: dict[str, Any] = {
        "architecture": architecture,
        "num_layers": 2,
        "hidden_size": 256,
        "num_heads": 8,
        "num_kv_heads": 2,
        "head_dim": 32,
        "intermediate_size": 512,
        "vocab_size": 250,
        "context_length_tokens": 512,
        "norm_eps_bits": int(np.float32(1e-5).view(np.uint32)),
        "rope_inv_freq_bits": inverse_frequencies(16),
        "tied_embeddings": True,
        "attention_bias": architecture == "qwen2",
        "qk_norm": architecture == "qwen3",
    }
    settings.update(changes)
    return ModelConfig(**settings)


def random_fields(rng: np.random.Generator, kind: str, rows: int, columns: int) -> dict[str, Any]:
    """Return random fields of a matrix: every code occurs, scales keep values near 1 / sqrt(columns)."""
    size = 1.5 / np.sqrt(columns)
    if kind in FLOAT_KINDS:
        w = (rng.standard_normal((rows, columns)) * size).astype(np.float32)
        if kind == "BF16":
            return {"w": (w.view(np.uint32) >> 16).astype(np.uint16)}
        return {"w": w.astype(np.float16 if kind == "F16" else np.float32)}
    block = panels.BLOCK_INPUTS[kind]
    blocks = (rows, columns // block)
    signs = rng.choice([-1.0, 1.0], blocks)
    if kind == "Q8_0":
        q = rng.integers(-128, 128, (rows, columns)).astype(np.int8)
        return {"d": (signs * size / 80).astype(np.float16), "q": q}
    bits = int(kind[1])
    codes = rng.integers(0, 2**bits, (rows, columns)).astype(np.uint8)
    step = size / 2 ** (bits - 2)
    fields: dict[str, Any] = {"q": codes, "d": (signs * rng.uniform(0.5, 1.5, blocks) * step).astype(np.float16)}
    if kind in {"Q4_1", "Q5_1"}:
        fields["m"] = (-np.abs(fields["d"].astype(np.float32)) * 2 ** (bits - 1)).astype(np.float16)
    if kind in {"Q4_K", "Q5_K"}:
        groups = (rows, columns // 32)
        fields["d"] = (fields["d"].astype(np.float32) / 32).astype(np.float16)
        fields["dmin"] = (np.abs(fields["d"].astype(np.float32)) * 2 ** (bits - 1)).astype(np.float16)
        fields["sc"] = rng.integers(0, 64, groups).astype(np.uint8)
        fields["mn"] = rng.integers(0, 64, groups).astype(np.uint8)
    if kind == "Q6_K":
        fields["d"] = (fields["d"].astype(np.float32) / 64).astype(np.float16)
        fields["sc"] = rng.integers(-128, 128, (rows, columns // 16)).astype(np.int8)
    return fields


def random_weights(config: ModelConfig, kinds: tuple[str, ...], seed: int = 0) -> dict[str, Weight]:
    """Return weights whose matrices take the kinds in turn."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Weight] = {}
    number = 0
    for extent in required_extents(config):
        for spec in extent.tensors:
            if len(spec.shape) == 1:
                w = rng.standard_normal(spec.shape).astype(np.float32) * np.float32(0.2)
                if "norm" in spec.name:
                    w = w + np.float32(1)
                weights[spec.name] = Weight("F32", {"w": w})
            else:
                kind = kinds[number % len(kinds)]
                number += 1
                weights[spec.name] = Weight(kind, random_fields(rng, kind, *spec.shape))
    return weights


class MemoryWeights:
    """Weights for the kernels, packed from the reference's."""

    def __init__(self, config: ModelConfig, weights: dict[str, Weight]) -> None:
        """Pack every tensor into memory of its own."""
        self.config = config
        self._memory = []
        self._tensors: dict[str, PlacedTensor] = {}
        for name, weight in weights.items():
            shape = weight.shape
            if len(shape) == 1:
                data = np.ascontiguousarray(weight.fields["w"], np.float32).view(np.uint8)
            else:
                data = panels.pack(weight.kind, weight.fields, *shape)
            memory = aligned_bytes(data.nbytes)
            memory[:] = data
            self._memory.append(memory)
            self._tensors[name] = PlacedTensor(name, weight.kind, shape, len(self._memory), 0)
        self.bases = np.array([0, *map(address_of, self._memory)], np.int64)

    def find(self, name: str) -> PlacedTensor | None:
        """Return the tensor of that name."""
        return self._tensors.get(name)
