"""Small models in memory, for kernels and reference alike.

Their numbers come from SplitMix64 and exact scalings, so that they are the same on every machine:
digests of what they compute can be compared between one process and another, and one CPU and
another.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.memory.buffers import address_of, aligned_bytes
from engine.memory.weights import PlacedTensor
from engine.reference.weights import Weight
from engine.vqf import panels
from engine.vqf.families import required_extents
from tests.engine.reference.support import INTEGER_KINDS, SplitMix64, inv_freq_bits

FLOAT_KINDS = ("F32", "F16", "BF16")
KINDS = INTEGER_KINDS + FLOAT_KINDS
FAMILIES = ("llama", "qwen2", "qwen3")
Fields = dict[str, NDArray[Any]]


def small_config(architecture: str = "llama", **changes: Any) -> ModelConfig:
    """Return a model of two layers, 256 wide; the vocabulary is no multiple of 16."""
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
        "norm_eps_bits": 0x3727C5AC,
        "tied_embeddings": True,
        "attention_bias": architecture == "qwen2",
        "qk_norm": architecture == "qwen3",
    }
    settings.update(changes)
    settings.setdefault("rope_inv_freq_bits", inv_freq_bits(10000.0, settings["head_dim"]))
    return ModelConfig(**settings)


def random_fields(source: SplitMix64, kind: str, rows: int, columns: int) -> Fields:
    """Return random fields of a matrix: every code occurs, values are near 1 / sqrt(columns)."""
    size = 2.0 ** -(columns.bit_length() // 2)
    if kind in FLOAT_KINDS:
        w = source.floats((rows, columns), 2 * size)
        if kind == "BF16":
            return {"w": (w.view(np.uint32) >> 16).astype(np.uint16)}
        return {"w": w.astype(np.float16 if kind == "F16" else np.float32)}
    blocks = (rows, columns // panels.BLOCK_INPUTS[kind])
    # Half to one and a half times the scale, of either sign.
    scale = np.abs(source.floats(blocks)) + np.float32(0.5)
    scale = scale * source.integers(0, 2, blocks).astype(np.float32) * 2 - scale
    if kind == "Q8_0":
        q = source.integers(-128, 128, (rows, columns)).astype(np.int8)
        return {"d": (scale * np.float32(size / 64)).astype(np.float16), "q": q}
    bits = int(kind[1])
    step = np.float32(size / 2 ** (bits - 2))
    fields: Fields = {"q": source.integers(0, 2**bits, (rows, columns)).astype(np.uint8)}
    if kind == "Q6_K":
        fields["d"] = (scale * step / np.float32(64)).astype(np.float16)
        fields["sc"] = source.integers(-128, 128, (rows, columns // 16)).astype(np.int8)
        return fields
    middle = np.float32(2 ** (bits - 1))
    if kind.endswith("_K"):
        fields["d"] = (scale * step / np.float32(32)).astype(np.float16)
        fields["dmin"] = (fields["d"].astype(np.float32) * middle).astype(np.float16)
        groups = (rows, columns // 32)
        fields["sc"] = source.integers(0, 64, groups).astype(np.uint8)
        fields["mn"] = source.integers(0, 64, groups).astype(np.uint8)
        return fields
    fields["d"] = (scale * step).astype(np.float16)
    if kind.endswith("_1"):
        fields["m"] = (-fields["d"].astype(np.float32) * middle).astype(np.float16)
    return fields


def random_weights(config: ModelConfig, kinds: Sequence[str], seed: int = 0) -> dict[str, Weight]:
    """Return weights whose matrices take the kinds in turn.

    Where a matrix is too narrow for a K kind it is Q4_0, where it is too narrow for that F16.
    """
    weights: dict[str, Weight] = {}
    number = 0
    for extent in required_extents(config):
        for spec in extent.tensors:
            source = SplitMix64(zlib.crc32(f"{seed} {spec.name}".encode()) << 20)
            if len(spec.shape) == 1:
                w = source.floats(spec.shape, 0.5)
                weights[spec.name] = Weight(
                    "F32", {"w": w + np.float32(1) if "norm" in spec.name else w}
                )
                continue
            kind = kinds[number % len(kinds)]
            number += 1
            while spec.shape[1] % panels.BLOCK_INPUTS[kind]:
                kind = "Q4_0" if kind.endswith("_K") else "F16"
            weights[spec.name] = Weight(kind, random_fields(source, kind, *spec.shape))
    return weights


def random_ids(config: ModelConfig, count: int, seed: int = 0) -> list[int]:
    """Return token ids, the first and the last of the vocabulary among them."""
    ids: list[int] = SplitMix64(seed + 1000).integers(0, config.vocab_size, (count,)).tolist()
    ids[:2] = [config.vocab_size - 1, 0][:count]
    return ids


class MemoryWeights:
    """Weights for the kernels, packed from the reference's."""

    def __init__(self, config: ModelConfig, weights: Mapping[str, Weight]) -> None:
        """Pack every tensor into memory of its own."""
        self.config = config
        self._memory: list[NDArray[np.uint8]] = []
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
