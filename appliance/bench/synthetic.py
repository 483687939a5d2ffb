"""Weights of the shape of an 8B model with few layers, made in memory, to measure what width costs.

The shape is that of Llama 3 8B (Dubey et al. 2024, table 3). One random panel is repeated through
each matrix: speed does not depend on values, and a layer is made in milliseconds.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.memory.buffers import address_of, aligned_bytes
from engine.memory.weights import PlacedTensor
from engine.vqf.families import required_extents
from engine.vqf.kinds import PANEL_ROWS
from engine.vqf.panels import pack, packed_bytes

LAYERS_8B: Final = 32
KINDS: Final = ("Q4_0", "Q4_1", "Q8_0")

_SEED: Final = 20260101
_ONE: Final = 0x3FF0000000000000
_NORM_EPS: Final = 0x3727C5AC


def config_8b(num_layers: int, *, context_tokens: int = 8192) -> ModelConfig:
    """Return the shape with fewer layers; rotation frequencies are all 1, which costs the same."""
    return ModelConfig(
        architecture="llama",
        num_layers=num_layers,
        hidden_size=4096,
        num_heads=32,
        num_kv_heads=8,
        head_dim=128,
        intermediate_size=14336,
        vocab_size=128256,
        context_length_tokens=context_tokens,
        norm_eps_bits=_NORM_EPS,
        rope_inv_freq_bits=(_ONE,) * 64,
        tied_embeddings=False,
        attention_bias=False,
        qk_norm=False,
    )


class SyntheticWeights:
    """Weights for an engine, every matrix of one kind."""

    def __init__(self, config: ModelConfig, kind: str) -> None:
        """Make all tensors of a configuration.

        Args:
            config: the shape.
            kind: one of `KINDS`.
        """
        self.config = config
        self._memory: list[NDArray[np.uint8]] = []
        self._tensors: dict[str, PlacedTensor] = {}
        rng = np.random.default_rng(_SEED)
        panels: dict[int, NDArray[np.uint8]] = {}
        for extent in required_extents(config):
            for name, shape in extent.tensors:
                if len(shape) == 1:
                    self._place(name, "F32", shape, np.ones(shape, np.float32).view(np.uint8))
                    continue
                columns = shape[1]
                if columns not in panels:
                    panels[columns] = _random_panel(rng, kind, columns)
                self._place(name, kind, shape, panels[columns])
        self.bases = np.array([0, *map(address_of, self._memory)], np.int64)

    def find(self, name: str) -> PlacedTensor | None:
        """Return the tensor, or None if the model has none of that name."""
        return self._tensors.get(name)

    @property
    def resident_bytes(self) -> int:
        """Bytes of weights in memory."""
        return sum(memory.nbytes for memory in self._memory)

    def _place(
        self, name: str, kind: str, shape: tuple[int, ...], pattern: NDArray[np.uint8]
    ) -> None:
        size = packed_bytes(kind, *shape) if len(shape) == 2 else pattern.nbytes
        memory = aligned_bytes(size)
        memory.reshape(-1, pattern.nbytes)[:] = pattern
        self._memory.append(memory)
        self._tensors[name] = PlacedTensor(name, kind, shape, len(self._memory), 0)


def _random_panel(rng: np.random.Generator, kind: str, columns: int) -> NDArray[np.uint8]:
    """Return a panel of 16 rows with random codes; values are about 1 / sqrt(columns)."""
    groups = (PANEL_ROWS, columns // 32)
    levels = 256 if kind == "Q8_0" else 16
    scale = np.full(groups, 3.5 / (levels * columns**0.5), np.float16)
    codes = rng.integers(0, levels, (PANEL_ROWS, columns)).astype(np.uint8)
    fields: dict[str, NDArray[np.generic]] = {"q": codes, "d": scale}
    if kind == "Q8_0":
        fields["q"] = codes.view(np.int8)
    if kind == "Q4_1":
        fields["m"] = (scale * np.float16(-7.5)).astype(np.float16)
    return pack(kind, fields, PANEL_ROWS, columns)
