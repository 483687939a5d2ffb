"""What a converter takes out of a source: configuration, tokenizer, and tensors in pieces.

A source of any format becomes one `Checkpoint`, whose tensors have the names and the byte layout of
a VQF file and are made only when they are asked for, some rows at a time: memory never depends on
the number of layers, nor on the size of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig, TokenizerConfig
from engine.errors import ConversionError
from engine.vqf.families import required_extents
from engine.vqf.kinds import PANEL_ROWS
from engine.vqf.manifest import ExtentPlan, TensorSpec, tensor_bytes
from engine.vqf.panels import pack

Bytes = NDArray[np.uint8]
Fields = Mapping[str, NDArray[np.generic]]

_PIECE_VALUES = 1 << 22
"""Values of a matrix that are worked on at once: 16 MiB as binary32."""


@dataclass(frozen=True, slots=True)
class Text:
    """What turns text into ids and back: ids of special tokens, tokenizer.json, chat template."""

    config: TokenizerConfig
    tokenizer_json: bytes
    template: bytes | None


@dataclass(frozen=True, slots=True)
class SourceTensor:
    """One tensor in VQF's layout: `pieces()` makes its bytes, in order."""

    kind: str
    shape: tuple[int, ...]
    pieces: Callable[[], Iterator[Bytes]]

    def whole(self) -> Bytes:
        """Make all bytes of the tensor."""
        data = np.empty(tensor_bytes(self.kind, self.shape), np.uint8)
        filled = 0
        for piece in self.pieces():
            data[filled : filled + piece.size] = piece
            filled += piece.size
        return data


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete model, ready to be written."""

    config: ModelConfig
    text: Text
    tensors: Mapping[str, SourceTensor]

    def plan(self) -> list[ExtentPlan]:
        """Return the extents of the VQF file in order."""
        extents = [
            ExtentPlan(
                name,
                tuple(
                    TensorSpec(tensor, self.tensors[tensor].kind, shape) for tensor, shape in shapes
                ),
            )
            for name, shapes in required_extents(self.config)
        ]
        return extents + [
            ExtentPlan(name, raw_bytes_length=len(data)) for name, data in self._texts().items()
        ]

    def extent(self, name: str) -> Iterator[memoryview | bytes]:
        """Make the content of one extent of `plan`, in pieces."""
        texts = self._texts()
        if name in texts:
            yield texts[name]
            return
        for extent in required_extents(self.config):
            if extent.name == name:
                for tensor, _ in extent.tensors:
                    for piece in self.tensors[tensor].pieces():
                        yield piece.data

    def weights_by_kind(self) -> dict[str, int]:
        """Count the weights of each kind of tensor."""
        counts: dict[str, int] = {}
        for tensor in self.tensors.values():
            counts[tensor.kind] = counts.get(tensor.kind, 0) + math.prod(tensor.shape)
        return dict(sorted(counts.items()))

    def _texts(self) -> dict[str, bytes]:
        texts = {"tokenizer": self.text.tokenizer_json}
        if self.text.template is not None:
            texts["template"] = self.text.template
        return texts


def matrix_pieces(
    kind: str,
    shape: tuple[int, int],
    load: Callable[[int, int], Fields],
    *,
    row_multiple: int = 1,
) -> Iterator[Bytes]:
    """Pack a matrix a few panels at a time.

    Args:
        kind: Kind in the VQF file.
        shape: Outputs and inputs.
        load: Called with (first row, number of rows), returns the fields of these rows.
        row_multiple: `load` is called with first rows that are multiples of it.

    Yields:
        Packed panels in ascending order.
    """
    rows, columns = shape
    unit = math.lcm(PANEL_ROWS, row_multiple)
    step = unit * max(1, _PIECE_VALUES // (unit * columns))
    for first in range(0, rows, step):
        count = min(step, rows - first)
        yield pack(kind, load(first, count), count, columns)


def check_finite(name: str, values: NDArray[np.generic]) -> None:
    """Refuse infinities and not-a-number among float bits (uint16 counts as bfloat16).

    Raises:
        ConversionError: There is one; the message names the tensor.
    """
    exponent = {"float32": 0x7F800000, "float16": 0x7C00, "uint16": 0x7F80}[values.dtype.name]
    bits = values.view(f"u{values.dtype.itemsize}")
    mask = bits.dtype.type(exponent)
    if ((bits & mask) == mask).any():
        raise ConversionError(f"tensor {name} holds a value that is not finite")
