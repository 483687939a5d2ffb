"""Weights as kernels see them: a base address an extent, a kind, a shape and an offset a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig


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
