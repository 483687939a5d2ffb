"""The weights of one unit: some extents of a file, under the names of a model of one layer or none.

A layer over given residuals is a model whose embedding is these residuals: the engine then runs it
on the kernels that every answer runs on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.memory.buffers import address_of, aligned_bytes
from engine.memory.weights import PlacedTensor
from engine.vqf import panels

if TYPE_CHECKING:
    from engine.vqf import VqfFile

_ONE_LAYER: Final = "layers.0."


class PartReader:
    """Reads extents of one file into private memory, each byte checked, and counts them."""

    def __init__(self, file: VqfFile, *, num_threads: int = 1) -> None:
        """Read from an open file, which stays open as long as this is used."""
        self.file = file
        self.config: ModelConfig = file.manifest.config
        self.bytes_read = 0
        self._num_threads = num_threads

    def read(self, names: Sequence[str]) -> UnitWeights:
        """Return extents as weights; their tensors have the names of the file.

        Raises:
            WeightsError: a chunk did not verify.
            WeightsUncheckedError: the file could not be read.
            FormatError: what was read breaks a rule of the format.
        """
        extents = [self.file.extent(name) for name in names]
        memories = [aligned_bytes(extent.size_bytes) for extent in extents]
        done = 0

        def count(bytes_done: int, _total: int) -> None:
            nonlocal done
            done = bytes_done

        self.file.read_extents(
            list(zip(names, [memory.data for memory in memories], strict=True)),
            num_threads=self._num_threads,
            progress=count,
        )
        self.bytes_read += done
        tensors = {
            t.name: PlacedTensor(t.name, t.kind, t.shape, base, t.offset_bytes)
            for base, extent in enumerate(extents, 1)
            for t in extent.tensors
        }
        return UnitWeights(self.config, memories, tensors)

    def layer(self, layer: int) -> UnitWeights:
        """Return layer 1 .. L as the only one of a model; errors as `read`."""
        weights = self.read([f"layers.{layer - 1}"])
        return weights.as_model(num_layers=1, layer_prefix=f"layers.{layer - 1}.")

    def embedding(self) -> UnitWeights:
        """Return the embedding as a model without layers; errors as `read`."""
        return self.read(["embedding"]).as_model(num_layers=0)

    def head(self) -> UnitWeights:
        """Return final norm and head as a model without layers; errors as `read`."""
        if self.config.tied_embeddings:
            weights = self.read(["final", "embedding"])
            return weights.as_model(num_layers=0, head="embedding")
        return self.read(["final"]).as_model(num_layers=0, head="head")


class UnitWeights:
    """Tensors in private memory, as the engine wants them."""

    def __init__(
        self,
        config: ModelConfig,
        memories: Sequence[NDArray[np.uint8]],
        tensors: dict[str, PlacedTensor],
    ) -> None:
        """Place tensors; `memories` are the bases 1, 2 .. that they name."""
        self.config = config
        self._memories = list(memories)
        self._tensors = tensors
        self.bases = np.array([0, *map(address_of, self._memories)], np.int64)

    def find(self, name: str) -> PlacedTensor | None:
        """Return the tensor, or None if there is none of that name."""
        return self._tensors.get(name)

    def as_model(
        self, *, num_layers: int, layer_prefix: str = _ONE_LAYER, head: str | None = None
    ) -> UnitWeights:
        """Return the same tensors under the names of a model of 0 or 1 layers.

        Args:
            num_layers: 0 or 1.
            layer_prefix: what the names of the layer's tensors begin with.
            head: the name of the head's matrix, None if no logits are wanted.
        """
        tensors = {}
        for name, tensor in self._tensors.items():
            known = name
            if name.startswith(layer_prefix):
                known = _ONE_LAYER + name.removeprefix(layer_prefix)
            tensors[known] = replace(tensor, name=known)
        if head is not None:
            tensors["head"] = replace(self._tensors[head], name="head")
        config = replace(self.config, num_layers=num_layers, tied_embeddings=head is None)
        weights = UnitWeights(config, self._memories, tensors)
        if head is None:
            # No logits are computed, but the program of a model has a final norm.
            weights.place("final_norm", np.ones(config.hidden_size, np.float32))
        return weights

    def over(self, states: NDArray[np.float32]) -> UnitWeights:
        """Return a model whose embedding is these residuals: its id n is row n.

        Args:
            states: float32[n, hidden], n at least 1.
        """
        config = self.config
        if "head" not in self._tensors:
            config = replace(config, vocab_size=len(states))
        weights = UnitWeights(config, self._memories, dict(self._tensors))
        weights.place("embedding", states)
        return weights

    def place(self, name: str, values: NDArray[np.float32]) -> None:
        """Add or replace a tensor, a vector or a matrix of floats."""
        data = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        if values.ndim == 2:
            data = panels.pack("F32", {"w": values}, *values.shape)
        memory = aligned_bytes(data.nbytes)
        memory[:] = data
        self._memories.append(memory)
        self.bases = np.append(self.bases, address_of(memory)).astype(np.int64)
        base = len(self._memories)
        self._tensors[name] = PlacedTensor(name, "F32", tuple(values.shape), base, 0)
