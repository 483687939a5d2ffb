"""The manifest: value types, layout in the data area, encoding (FORMAT.md sections 4 and 5)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from crypto.cbor import encode
from crypto.labels import VQF_MANIFEST
from crypto.sm3 import Sm3
from engine.vqf.format import (
    CHUNK_BYTES,
    DIGEST_BYTES,
    PAGE_BYTES,
    TENSOR_ALIGNMENT,
    up,
)
from engine.vqf.panels import packed_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.config import ModelConfig, TokenizerConfig

_FLOAT_BYTES = 4


class TensorSpec(NamedTuple):
    """A tensor that a file is to have; `shape` has one number or two: outputs, inputs."""

    name: str
    kind: str
    shape: tuple[int, ...]


class ExtentPlan(NamedTuple):
    """An extent that a file is to have: tensors, or `raw_bytes_length` bytes."""

    name: str
    tensors: tuple[TensorSpec, ...] = ()
    raw_bytes_length: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor: `length_bytes` bytes at `offset_bytes` of the extent named `extent`."""

    name: str
    kind: str
    shape: tuple[int, ...]
    extent: str
    offset_bytes: int
    length_bytes: int


@dataclass(frozen=True, slots=True)
class Extent:
    """A run of pages: `length_bytes` of content from `offset_bytes` of the data area, filling."""

    name: str
    offset_bytes: int
    length_bytes: int
    root: bytes
    tensors: tuple[Tensor, ...]

    @property
    def size_bytes(self) -> int:
        """Length with the filling: what is read, hashed and mapped."""
        return up(self.length_bytes, PAGE_BYTES)

    @property
    def num_chunks(self) -> int:
        """Chunks that the extent is cut into."""
        return -(-self.size_bytes // CHUNK_BYTES)

    def filling(self) -> Iterator[tuple[int, int]]:
        """Yield the parts of the extent that no content uses, as (start, end)."""
        end = 0
        for tensor in self.tensors:
            yield end, tensor.offset_bytes
            end = tensor.offset_bytes + tensor.length_bytes
        yield self.length_bytes, self.size_bytes


@dataclass(frozen=True, slots=True)
class Manifest:
    """Configuration, tokenizer and everything that lies in the data area."""

    config: ModelConfig
    tokenizer: TokenizerConfig
    extents: tuple[Extent, ...]

    @property
    def data_length_bytes(self) -> int:
        """Length of the data area."""
        last = self.extents[-1]
        return last.offset_bytes + last.size_bytes

    def encode(self) -> bytes:
        """Return the manifest's one encoding."""
        config = asdict(self.config)
        if self.config.pooling is None:
            del config["pooling"]
        tokenizer: dict[str, Any] = {
            "add_bos": self.tokenizer.add_bos,
            "eos_ids": self.tokenizer.eos_ids,
        }
        if self.tokenizer.bos_id is not None:
            tokenizer["bos_id"] = self.tokenizer.bos_id
        if self.tokenizer.embedding_end_id is not None:
            tokenizer["embedding_end_id"] = self.tokenizer.embedding_end_id
        extents = [_encodable_extent(extent) for extent in self.extents]
        return encode({"config": config, "tokenizer": tokenizer, "extents": extents})


def model_digest(encoded_manifest: bytes) -> bytes:
    """Return the 32-byte identity of the model."""
    state = Sm3(VQF_MANIFEST)
    state.update(encoded_manifest)
    return state.digest()


def tensor_bytes(kind: str, shape: Sequence[int]) -> int:
    """Return the length of a tensor in the file.

    Raises:
        ValueError: a kind or shape that cannot be stored.
    """
    if len(shape) == 1:
        if kind != "F32":
            raise ValueError(f"a tensor of one dimension is of kind F32, not {kind}")
        return shape[0] * _FLOAT_BYTES
    rows, columns = shape
    return packed_bytes(kind, rows, columns)


def laid_out(
    config: ModelConfig, tokenizer: TokenizerConfig, plan: Sequence[ExtentPlan]
) -> Manifest:
    """Return the manifest of a file with these extents; its roots are 32 zero bytes.

    Raises:
        ValueError: a kind or shape that cannot be stored.
    """
    extents: list[Extent] = []
    offset = 0
    for extent_plan in plan:
        tensors: list[Tensor] = []
        length = extent_plan.raw_bytes_length
        for name, kind, shape in extent_plan.tensors:
            start = up(length, TENSOR_ALIGNMENT)
            length = start + tensor_bytes(kind, shape)
            tensors.append(Tensor(name, kind, shape, extent_plan.name, start, length - start))
        extent = Extent(extent_plan.name, offset, length, bytes(DIGEST_BYTES), tuple(tensors))
        extents.append(extent)
        offset += extent.size_bytes
    return Manifest(config, tokenizer, tuple(extents))


def _encodable_extent(extent: Extent) -> dict[str, Any]:
    """Return an extent as the map that the manifest has for it."""
    out: dict[str, Any] = {
        "name": extent.name,
        "offset": extent.offset_bytes,
        "length": extent.length_bytes,
        "root": extent.root,
    }
    if extent.tensors:
        out["tensors"] = [
            {
                "name": tensor.name,
                "kind": tensor.kind,
                "shape": tensor.shape,
                "offset": tensor.offset_bytes,
            }
            for tensor in extent.tensors
        ]
    return out
