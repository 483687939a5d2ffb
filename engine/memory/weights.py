"""Weights as kernels see them: a base address an extent, a kind, a shape and an offset a tensor."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.errors import WeightsError


@dataclass(frozen=True, slots=True)
class PlacedTensor:
    """One tensor: `base` is its extent's index in the table of bases."""

    name: str
    kind: str
    shape: tuple[int, ...]
    base: int
    offset_bytes: int


class Weights(Protocol):
    """What a model needs of its weights, however they are kept."""

    config: ModelConfig
    bases: NDArray[np.int64]

    def find(self, name: str) -> PlacedTensor | None:
        """Return the tensor, or None if the model has none of that name."""
        ...


def read_vector(weights: Weights, name: str) -> NDArray[np.float32]:
    """Return a copy of a vector, float32[n].

    Raises:
        WeightsError: there is no vector of that name.
    """
    tensor = weights.find(name)
    if tensor is None or len(tensor.shape) != 1:
        raise WeightsError(f"the model has no vector {name}")
    address = int(weights.bases[tensor.base]) + tensor.offset_bytes
    data = ctypes.string_at(address, tensor.shape[0] * 4)
    return np.frombuffer(data, "<f4").astype(np.float32)
