"""A strict reader of safetensors files, single or sharded.

Nothing is mapped (a file that is cut while it is mapped kills the process), and nothing but the
rows that are asked for is read. Checkpoints in other containers are pickles and never opened.

Source: safetensors format description (huggingface/safetensors, README, section Format).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from engine.convert.files import open_regular, read_into, shown
from engine.convert.jsonfile import parse_json, read_json
from engine.errors import ConversionError, UnsupportedError

MAX_HEADER_BYTES = 100_000_000
MAX_INDEX_BYTES = 64 << 20
MAX_TENSORS = 65_536
MAX_SHARDS = 4096
MAX_DIMENSION = 1 << 24
MAX_NAME_CHARACTERS = 255

KINDS: dict[str, str] = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""Supported types and how NumPy holds them; a bfloat16 is the upper half of a binary32."""

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


class StoredTensor(NamedTuple):
    """One tensor of a file: its rows lie one after the other from `offset_bytes`."""

    name: str
    kind: str
    shape: tuple[int, ...]
    file: BinaryIO
    offset_bytes: int


class SafetensorsFolder:
    """All tensors of a checkpoint folder, whose headers have been checked completely."""

    def __init__(self, folder: Path) -> None:
        """Open `model.safetensors`, or the shards that the index names.

        Raises:
            ConversionError: A file is missing or breaks a rule of the format.
            UnsupportedError: The folder has no safetensors.
            OSError: A file cannot be opened or read.
        """
        self._files: list[BinaryIO] = []
        self._tensors: dict[str, StoredTensor] = {}
        try:
            if (folder / _SINGLE).exists():
                self._open(folder / _SINGLE)
            elif (folder / _INDEX).exists():
                self._open_shards(folder)
            else:
                raise UnsupportedError(
                    f"{folder}: neither {_SINGLE} nor {_INDEX}; other weight files are never opened"
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the folder."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all files."""
        self.close()

    @property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """All tensors by name."""
        return self._tensors

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()

    def _open_shards(self, folder: Path) -> None:
        index = read_json(folder / _INDEX, MAX_INDEX_BYTES).get("weight_map")
        if not isinstance(index, dict) or not index or len(index) > MAX_TENSORS:
            raise ConversionError(f"{folder / _INDEX}: no usable weight_map")
        shards: dict[str, set[str]] = {}
        for tensor, shard in index.items():
            if not isinstance(shard, str) or not shard.endswith(".safetensors") or "/" in shard:
                raise ConversionError(
                    f"{folder / _INDEX}: {shown(tensor)} is in no file of the folder"
                )
            shards.setdefault(shard, set()).add(tensor)
        if len(shards) > MAX_SHARDS:
            raise ConversionError(f"{folder / _INDEX}: more than {MAX_SHARDS} files")
        for shard in sorted(shards):
            if self._open(folder / shard) != shards[shard]:
                raise ConversionError(f"{folder / shard}: its tensors are not those of the index")

    def _open(self, path: Path) -> set[str]:
        try:
            file, size = open_regular(path)
        except FileNotFoundError:
            raise ConversionError(f"{path}: the file is missing") from None
        self._files.append(file)
        found = _read_header(file, path, size)
        for name in found.keys() & self._tensors.keys():
            raise ConversionError(f"{path}: tensor {name} is in another file too")
        self._tensors |= found
        return set(found)


def read_rows(tensor: StoredTensor, first: int, count: int) -> NDArray[np.generic]:
    """Read rows of a tensor; a vector is one row.

    Returns:
        float32, float16 or (bfloat16) uint16 [count, K].

    Raises:
        ConversionError: The file became shorter while it was read.
    """
    rows, columns = tensor.shape if len(tensor.shape) == 2 else (1, tensor.shape[0])
    if not 0 <= first <= first + count <= rows:
        raise ValueError("rows outside the tensor")
    data = np.empty((count, columns), KINDS[tensor.kind])
    offset = tensor.offset_bytes + first * columns * data.itemsize
    read_into(tensor.file, data, offset, f"tensor {tensor.name}")
    return data


def _read_header(file: BinaryIO, path: Path, size: int) -> dict[str, StoredTensor]:
    prefix = file.read(8)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or length > min(MAX_HEADER_BYTES, size - 8):
        raise ConversionError(f"{path}: truncated, or not a safetensors file")
    data = file.read(length)
    if len(data) != length or data[:1] != b"{":
        raise ConversionError(f"{path}: not a safetensors file")
    header = parse_json(data, f"header of {path}")
    header.pop("__metadata__", None)
    if len(header) > MAX_TENSORS:
        raise ConversionError(f"{path}: more than {MAX_TENSORS} tensors")
    spans = []
    tensors = {}
    for name, entry in header.items():
        tensor, end = _read_entry(file, path, name, entry)
        spans.append((tensor.offset_bytes, end, name))
        tensors[name] = tensor._replace(offset_bytes=8 + length + tensor.offset_bytes)
    at = 0
    for begin, end, name in sorted(spans):
        if begin != at:
            raise ConversionError(f"{path}: tensor {name} overlaps another or leaves a gap")
        at = end
    if at != size - 8 - length:
        raise ConversionError(f"{path}: its data is longer or shorter than its tensors")
    return tensors


def _read_entry(file: BinaryIO, path: Path, name: str, entry: object) -> tuple[StoredTensor, int]:
    """Check one entry of a header; the offset stays relative to the data."""
    if not name.isprintable() or len(name) > MAX_NAME_CHARACTERS:
        raise ConversionError(f"{path}: {shown(name)} is no name of a tensor")
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ConversionError(f"{path}: tensor {name} has a malformed entry")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise UnsupportedError(f"{path}: tensor {name} has the kind {shown(kind)}")
    if not _are_integers(shape, MAX_DIMENSION) or not _are_integers(offsets, 1 << 60):
        raise ConversionError(f"{path}: tensor {name} has a malformed shape or offset")
    if not 1 <= len(shape) <= 2 or 0 in shape:
        raise UnsupportedError(f"{path}: tensor {name} has the shape {shown(shape)}")
    length = math.prod(shape) * np.dtype(KINDS[kind]).itemsize
    if len(offsets) != 2 or offsets[1] - offsets[0] != length:
        raise ConversionError(f"{path}: the length of tensor {name} does not follow from its shape")
    return StoredTensor(name, kind, tuple(shape), file, offsets[0]), offsets[1]


def _are_integers(values: object, limit: int) -> bool:
    return isinstance(values, list) and all(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= limit
        for value in values
    )
