"""The values that a VQF file's weights stand for, one layer at a time, in binary64."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.vqf import open_vqf, panels
from engine.vqf.families import DECODERS
from engine.vqf.manifest import Tensor
from engine.vqf.unlock import Unlock
from he_chain.errors import PlanError

if TYPE_CHECKING:
    from engine.text.tokenizer import Tokenizer

Values = NDArray[np.float64]
_NOTHING = Unlock()


@dataclass(frozen=True)
class LayerWeights:
    """One layer: matrices float64[outputs, inputs], vectors float64[n]."""

    attention_norm: Values
    q: Values
    k: Values
    v: Values
    o: Values
    ffn_norm: Values
    gate: Values
    up: Values
    down: Values
    q_bias: Values | None = None
    k_bias: Values | None = None
    v_bias: Values | None = None
    q_norm: Values | None = None
    k_norm: Values | None = None


class ModelWeights:
    """An open VQF file; every extent's digests are checked as it is read."""

    def __init__(self, path: Path, unlock: Unlock = _NOTHING) -> None:
        """Open the file; nothing but its manifest is read yet.

        Raises:
            OSError, FormatError, KeyFileError, WeightsError: as `engine.vqf.open_vqf`.
            PlanError: the architecture is none that this package knows.
        """
        self.path = path
        self._file = open_vqf(path, unlock)
        self.config: ModelConfig = self._file.manifest.config
        self.model_digest: bytes = self._file.model_digest
        """32 bytes, SM3 over the manifest."""
        if self.config.architecture not in DECODERS:
            self._file.close()
            raise PlanError(f"architecture {self.config.architecture} is not supported")

    def __enter__(self) -> Self:
        """Use the file."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()

    def layer(self, index: int) -> LayerWeights:
        """Read one layer.

        Raises:
            IndexError: no such layer.
            WeightsError, WeightsUncheckedError: its bytes did not verify, or could not be read.
        """
        if not 0 <= index < self.config.num_layers:
            raise IndexError(f"layer {index} of {self.config.num_layers}")
        name = f"layers.{index}"
        values = {k: v.astype(np.float64) for k, v in self._extent(name).items()}
        return LayerWeights(**{key.removeprefix(f"{name}."): v for key, v in values.items()})

    def tokenizer(self) -> Tokenizer:
        """Return what turns a text into ids; FormatError where the file's is damaged."""
        from engine.text.tokenizer import Tokenizer  # noqa: PLC0415  (takes a while)

        return Tokenizer(self._file.read_bytes("tokenizer"), self._file.manifest.tokenizer)

    def embedding(self) -> NDArray[np.float32]:
        """Read the embedding: float32[vocab_size, hidden_size]."""
        return self._extent("embedding")["embedding"]

    def final_norm(self) -> Values:
        """Read the last norm's factors: float64[hidden_size]."""
        return self._extent("final", only="final_norm")["final_norm"].astype(np.float64)

    def head(self) -> NDArray[np.float32]:
        """Read the head, which may be the embedding: float32[vocab_size, hidden_size]."""
        if self.config.tied_embeddings:
            return self.embedding()
        return self._extent("final", only="head")["head"]

    def _extent(self, name: str, only: str | None = None) -> dict[str, NDArray[np.float32]]:
        """Return the values of an extent's tensors, or of one of them."""
        data = self._file.read_extent(name)
        wanted = [t for t in self._file.extent(name).tensors if only in (None, t.name)]
        return {tensor.name: _values(tensor, data) for tensor in wanted}


def _values(tensor: Tensor, extent: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return float32[shape]: exact, since every kind's values are binary32 (NUMERICS N2)."""
    data = extent[tensor.offset_bytes : tensor.offset_bytes + tensor.length_bytes]
    if len(tensor.shape) == 1:
        return data.view(np.float32)[: tensor.shape[0]]
    rows, columns = tensor.shape
    return panels.values(tensor.kind, panels.unpack(tensor.kind, data, rows, columns))
