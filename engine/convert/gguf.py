"""A strict reader of GGUF files: metadata, table of tensors, rows of tensors.

Nothing is mapped: a file that is cut while it is mapped kills the process. Reads are bounded by the
size that the file had when it was opened.

Source: GGUF specification (ggml repository, docs/gguf.md), versions 2 and 3, little-endian.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from engine.convert.files import open_regular, read_into
from engine.convert.gguf_metadata import MAX_KEY_BYTES, Cursor, read_value
from engine.errors import ConversionError, UnsupportedError

MAGIC = b"GGUF"
MAX_KEYS = 65_536
MAX_TENSORS = 65_536
MAX_NAME_BYTES = 255
MAX_DIMENSION = 1 << 24
DEFAULT_ALIGNMENT = 32

BLOCKS: dict[str, tuple[int, int]] = {
    "F32": (1, 4),
    "F16": (1, 2),
    "BF16": (1, 2),
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q5_0": (32, 22),
    "Q5_1": (32, 24),
    "Q8_0": (32, 34),
    "Q4_K": (256, 144),
    "Q5_K": (256, 176),
    "Q6_K": (256, 210),
}
"""Kind: inputs of a block, bytes of a block."""

KIND_NUMBERS: dict[int, str] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    6: "Q5_0",
    7: "Q5_1",
    8: "Q8_0",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    30: "BF16",
}

UNSUPPORTED_KINDS: dict[int, str] = {
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
}
"""Known only so that a refusal can name them."""


class GgufTensor(NamedTuple):
    """One entry of the table: shape with rows first, absolute offset and length in bytes."""

    name: str
    kind: str
    shape: tuple[int, ...]
    offset_bytes: int
    length_bytes: int


class GgufFile:
    """An open GGUF file whose head has been checked completely."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open and check.

        Raises:
            ConversionError: The file breaks a rule of the format.
            UnsupportedError: Its version, byte order or a kind of tensor is not supported.
            OSError: It cannot be opened or read.
        """
        self._file, self._size = open_regular(Path(path))
        try:
            self._read_head()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        """Return the file."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._file.close()

    @property
    def metadata(self) -> Mapping[str, object]:
        """All metadata by key."""
        return self._metadata

    @property
    def tensors(self) -> Mapping[str, GgufTensor]:
        """All tensors by name."""
        return self._tensors

    def read_rows(self, tensor: GgufTensor, first: int, count: int) -> NDArray[np.uint8]:
        """Read `count` rows of a tensor from row `first`; a vector is one row.

        Returns:
            data: uint8[count, bytes of a row].

        Raises:
            ConversionError: The file became shorter while it was read.
        """
        rows = tensor.shape[0] if len(tensor.shape) == 2 else 1
        row_bytes = tensor.length_bytes // rows
        if not 0 <= first <= first + count <= rows:
            raise ValueError("rows outside the tensor")
        data = np.empty((count, row_bytes), np.uint8)
        offset = tensor.offset_bytes + first * row_bytes
        read_into(self._file, data, offset, f"GGUF: tensor {tensor.name}")
        return data

    def _read_head(self) -> None:
        cursor = Cursor(self._file, self._size)
        if self._size < len(MAGIC) or cursor.take(4, "the magic") != MAGIC:
            raise ConversionError("not a GGUF file: it does not begin with GGUF")
        version = cursor.u32("the version")
        if version not in {2, 3}:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            order = "big-endian " if swapped in {2, 3} else ""
            raise UnsupportedError(f"{order}GGUF version {swapped if order else version}")
        num_tensors = cursor.count("the number of tensors", MAX_TENSORS, 24)
        num_keys = cursor.count("the number of keys", MAX_KEYS, 13)
        metadata: dict[str, object] = {}
        for _ in range(num_keys):
            key = cursor.name("a key", MAX_KEY_BYTES)
            if key in metadata:
                raise ConversionError(f"GGUF: key {key} occurs twice")
            metadata[key] = read_value(cursor, key)
        alignment = _alignment(metadata.get("general.alignment"))
        entries = [_read_entry(cursor) for _ in range(num_tensors)]
        data_offset = -(-cursor.offset // alignment) * alignment
        self._metadata = metadata
        self._tensors = _place(entries, data_offset, alignment, self._size)


def _alignment(value: object) -> int:
    if value is None:
        return DEFAULT_ALIGNMENT
    if not isinstance(value, int) or not 8 <= value <= 1 << 20 or value & (value - 1):
        raise ConversionError("GGUF: general.alignment is not a power of two from 8 to 1048576")
    return value


def _read_entry(cursor: Cursor) -> GgufTensor:
    """Read one entry of the table; the offset stays relative to the data."""
    name = cursor.name("a tensor's name", MAX_NAME_BYTES)
    num_dims = cursor.u32(name)
    if not 1 <= num_dims <= 4:
        raise ConversionError(f"GGUF: tensor {name} has {num_dims} dimensions")
    dims = [cursor.u64(name) for _ in range(num_dims)]
    if not all(1 <= size <= MAX_DIMENSION for size in dims):
        raise ConversionError(f"GGUF: tensor {name} has a dimension of 0 or above {MAX_DIMENSION}")
    number = cursor.u32(name)
    kind = KIND_NUMBERS.get(number)
    if kind is None:
        named = UNSUPPORTED_KINDS.get(number, f"number {number}")
        raise UnsupportedError(f"GGUF: tensor {name} has the kind {named}, which is not supported")
    inputs, block_bytes = BLOCKS[kind]
    if dims[0] % inputs:
        raise ConversionError(f"GGUF: tensor {name} of kind {kind} has rows of {dims[0]} values")
    length = math.prod(dims) // inputs * block_bytes
    return GgufTensor(name, kind, tuple(reversed(dims)), cursor.u64(name), length)


def _place(
    entries: list[GgufTensor], data_offset: int, alignment: int, size: int
) -> dict[str, GgufTensor]:
    """Make offsets absolute; no tensor may leave the file or touch another one."""
    tensors: dict[str, GgufTensor] = {}
    end = data_offset
    previous = "the head"
    for entry in sorted(entries, key=lambda entry: entry.offset_bytes):
        tensor = entry._replace(offset_bytes=data_offset + entry.offset_bytes)
        if tensor.name in tensors:
            raise ConversionError(f"GGUF: tensor {tensor.name} occurs twice")
        if entry.offset_bytes % alignment:
            raise ConversionError(f"GGUF: tensor {tensor.name} is not aligned to {alignment} bytes")
        if tensor.offset_bytes < end:
            raise ConversionError(f"GGUF: tensor {tensor.name} overlaps {previous}")
        end, previous = tensor.offset_bytes + tensor.length_bytes, tensor.name
        if end > size:
            raise ConversionError(
                f"GGUF: truncated: tensor {tensor.name} ends at byte {end}, the file at byte {size}"
            )
        tensors[tensor.name] = tensor
    return tensors
