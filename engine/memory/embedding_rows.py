"""The rows of the embedding that a step needs, copied together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.memory.buffers import address_of, mapped_pages
from engine.memory.weights import PlacedTensor
from engine.vqf.kinds import PANEL_ROWS
from engine.vqf.panels import packed_bytes


class EmbeddingRows:
    """Panels of the embedding, one behind the other, as the kernel for embeddings reads them."""

    def __init__(self, tensor: PlacedTensor) -> None:
        """Start without any."""
        self.tensor = tensor
        self.panel_bytes = packed_bytes(tensor.kind, PANEL_ROWS, tensor.shape[1])
        self.memory = mapped_pages(0)

    @property
    def base(self) -> int:
        """What the base of the embedding's extent is, while the kernel runs."""
        return address_of(self.memory) - self.tensor.offset_bytes

    def place(self, ids: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Make room for the panels of some ids.

        Returns:
            where each panel begins in the extent, ascending; it is to be copied to `row` of its
            place. And int32[n], what the ids are in this memory.
        """
        panels, places = np.unique(ids // PANEL_ROWS, return_inverse=True)
        if self.memory.nbytes < len(panels) * self.panel_bytes:
            self.memory = mapped_pages(len(panels) * self.panel_bytes)
        starts = self.tensor.offset_bytes + panels.astype(np.int64) * self.panel_bytes
        return starts, (places.reshape(-1) * PANEL_ROWS + ids % PANEL_ROWS).astype(np.int32)

    def row(self, place: int) -> NDArray[np.uint8]:
        """Return the memory of one panel."""
        return self.memory[place * self.panel_bytes : (place + 1) * self.panel_bytes]
