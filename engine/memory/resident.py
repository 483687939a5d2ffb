"""What of streamed weights is always there: where tensors are, and the vectors themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.memory.buffers import address_of, aligned_bytes
from engine.memory.weights import PlacedTensor
from engine.vqf.kept import TEXT_EXTENTS

if TYPE_CHECKING:
    from engine.vqf import Manifest

ReadRange = Callable[[str, int, int], NDArray[np.uint8]]


class ResidentParts:
    """Vectors in private memory, matrices by their place in extents that come and go.

    Attributes:
        tensors: by name; a vector's base is an address of its own memory.
        extents: names by base; the first is none, base 0 is address 0.
        bases: int64, addresses; those of extents are 0 until somebody sets them.
        memory: the vectors.
    """

    def __init__(self, manifest: Manifest, read_range: ReadRange) -> None:
        """Read the vectors.

        Args:
            manifest: of the file.
            read_range: returns some bytes of an extent.
        """
        extents = [e for e in manifest.extents if e.name not in TEXT_EXTENTS]
        self.extents = ["", *(extent.name for extent in extents)]
        self.tensors: dict[str, PlacedTensor] = {}
        self.memory: list[NDArray[np.uint8]] = []
        for base, extent in enumerate(extents, 1):
            for t in extent.tensors:
                if len(t.shape) > 1:
                    placed = PlacedTensor(t.name, t.kind, t.shape, base, t.offset_bytes)
                else:
                    stop = t.offset_bytes + t.length_bytes
                    own = aligned_bytes(t.length_bytes)
                    own[:] = read_range(extent.name, t.offset_bytes, stop)
                    self.memory.append(own)
                    place = len(extents) + len(self.memory)
                    placed = PlacedTensor(t.name, t.kind, t.shape, place, 0)
                self.tensors[t.name] = placed
        addresses = [0] * len(self.extents) + [address_of(own) for own in self.memory]
        self.bases = np.array(addresses, np.int64)

    @property
    def num_bytes(self) -> int:
        """Bytes of the vectors."""
        return sum(own.nbytes for own in self.memory)


def layer_extent(layer: int) -> str:
    """Return the name of a layer's extent."""
    return f"layers.{layer}"
