"""Weights of which a step has one window at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.memory.weights import PlacedTensor
from engine.memory.windows import Window


class StreamedWeights(ABC):
    """What an engine needs of weights that are not all there. One thread uses it.

    Vectors are always there. `bases` holds the address of an extent, or of the beginning that it
    would have around what is there of it.
    """

    config: ModelConfig
    bases: NDArray[np.int64]
    window_bytes: int

    @abstractmethod
    def find(self, name: str) -> PlacedTensor | None:
        """Return the tensor, or None if the model has none of that name."""

    @abstractmethod
    def gather(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Bring the embedding's rows of some ids, and return what their ids are until `begin`.

        Raises:
            WeightsError: they are not those that were accepted.
            WeightsUncheckedError: they could not be read.
        """

    @abstractmethod
    def begin(self, order: Sequence[Window]) -> None:
        """Say which windows a step will enter, in this order."""

    @abstractmethod
    def enter(self, window: Window) -> None:
        """Bring the next window, and give the one before back.

        Raises:
            WeightsError: its bytes are not those that were accepted.
            WeightsUncheckedError: it could not be read.
        """

    @abstractmethod
    def end(self) -> None:
        """Give the last window back; also where the step ends before all were entered."""

    @abstractmethod
    def close(self) -> None:
        """End what reads, and close the file; a second call does nothing."""

    @property
    @abstractmethod
    def resident_bytes(self) -> int:
        """Bytes of weights in private memory at most."""

    @abstractmethod
    def lock(self) -> int:
        """Keep what is always there out of swap where the limit allows; return how many bytes."""
