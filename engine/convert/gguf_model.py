"""A GGUF file as a checkpoint: its tensors under VQF's names, blocks imported without loss.

In files of the architecture `llama` the rows of q and k are permuted, so that the rotation can pair
neighbours: row (head, i, j) of the file is dimension j * D/2 + i of the head, j in 0..1. VQF pairs
the halves (NUMERICS N7), so the permutation is undone here.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

import numpy as np

from engine.config import ModelConfig
from engine.convert.checkpoint import (
    Bytes,
    Checkpoint,
    Fields,
    SourceTensor,
    check_finite,
    matrix_pieces,
)
from engine.convert.gguf import GgufFile, GgufTensor
from engine.convert.gguf_blocks import parse_blocks
from engine.convert.gguf_config import architecture, read_config
from engine.convert.gguf_tokenizer import read_text
from engine.convert.limits import LIMITS
from engine.convert.settings import Settings
from engine.errors import ConversionError, UnsupportedError
from engine.vqf.families import required_extents

FREQUENCY_DIVISORS: Final = "rope_freqs.weight"

_MODEL_NAMES: Final = {
    "embedding": "token_embd.weight",
    "final_norm": "output_norm.weight",
    "head": "output.weight",
}

_LAYER_NAMES: Final = {
    "attention_norm": "attn_norm.weight",
    "q": "attn_q.weight",
    "k": "attn_k.weight",
    "v": "attn_v.weight",
    "o": "attn_output.weight",
    "q_bias": "attn_q.bias",
    "k_bias": "attn_k.bias",
    "v_bias": "attn_v.bias",
    "q_norm": "attn_q_norm.weight",
    "k_norm": "attn_k_norm.weight",
    "ffn_norm": "ffn_norm.weight",
    "gate": "ffn_gate.weight",
    "up": "ffn_up.weight",
    "down": "ffn_down.weight",
}

_PERMUTED: Final = frozenset({"q", "k"})


def read_gguf(file: GgufFile) -> Checkpoint:
    """Take a model out of an open GGUF file.

    The checkpoint reads from `file` when its tensors are made: it must stay open until then.

    Raises:
        ConversionError: Something is missing, damaged or contradicts something else.
        UnsupportedError: The model needs something that is not implemented; the message names it.
    """
    metadata = Settings(file.metadata, "GGUF")
    architecture(metadata)
    embedding = file.tensors.get(_MODEL_NAMES["embedding"])
    if embedding is None or len(embedding.shape) != 2:
        raise ConversionError(f"GGUF: tensor {_MODEL_NAMES['embedding']} is missing")
    config = read_config(
        metadata,
        vocab_size=embedding.shape[0],
        tied_embeddings=_MODEL_NAMES["head"] not in file.tensors,
        frequency_divisors=_read_divisors(file),
    )
    tensors: dict[str, SourceTensor] = {}
    used = {FREQUENCY_DIVISORS}
    for extent in required_extents(config):
        for name, shape in extent.tensors:
            stored_name = _stored_name(name)
            stored = file.tensors.get(stored_name)
            if stored is None:
                raise ConversionError(f"GGUF: tensor {stored_name} is missing")
            if stored.shape != shape:
                raise ConversionError(
                    f"GGUF: tensor {stored_name} has the shape {stored.shape}, not {shape}"
                )
            used.add(stored_name)
            tensors[name] = _source_tensor(file, stored, config, name.rpartition(".")[2])
    for stored_name in file.tensors:
        if stored_name not in used:
            raise UnsupportedError(
                f"GGUF: tensor {stored_name} has no place in a model of {config.architecture}"
            )
    text = read_text(metadata, config.vocab_size, embeds=config.pooling is not None)
    return Checkpoint(config, text, tensors)


def _stored_name(name: str) -> str:
    if not name.startswith("layers."):
        return _MODEL_NAMES[name]
    _, index, part = name.split(".")
    return f"blk.{index}.{_LAYER_NAMES[part]}"


def _source_tensor(
    file: GgufFile, stored: GgufTensor, config: ModelConfig, part: str
) -> SourceTensor:
    if len(stored.shape) == 1:
        if stored.kind not in {"F32", "F16", "BF16"}:
            raise UnsupportedError(f"GGUF: vector {stored.name} has the kind {stored.kind}")
        return SourceTensor("F32", stored.shape, lambda: _vector(file, stored))
    permuted = config.architecture == "llama" and part in _PERMUTED
    pair_dim = config.head_dim if permuted else 1

    def load(first: int, count: int) -> Fields:
        data = file.read_rows(stored, first, count)
        if permuted:
            data = _undo_permutation(data, config.head_dim)
        return _checked(stored.name, parse_blocks(stored.kind, data))

    rows, columns = stored.shape
    return SourceTensor(
        stored.kind,
        stored.shape,
        lambda: matrix_pieces(stored.kind, (rows, columns), load, row_multiple=pair_dim),
    )


def _undo_permutation(data: Bytes, head_dim: int) -> Bytes:
    """Bring rows [heads, D/2, 2] into the order [heads, 2, D/2]; data: uint8[rows, row bytes]."""
    pairs = data.reshape(-1, head_dim // 2, 2, data.shape[1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(data.shape)


def _vector(file: GgufFile, stored: GgufTensor) -> Iterator[Bytes]:
    (values,) = _checked(
        stored.name, parse_blocks(stored.kind, file.read_rows(stored, 0, 1))
    ).values()
    if stored.kind == "BF16":
        wide = (values.astype(np.uint32) << np.uint32(16)).view("<f4")
    else:
        wide = values.astype("<f4")
    yield wide.view(np.uint8).reshape(-1)


def _checked(name: str, fields: Fields) -> Fields:
    """Return the fields after refusing scales, minima and weights that are not finite."""
    for field in ("d", "m", "dmin", "w"):
        if field in fields:
            check_finite(name, fields[field])
    return fields


def _read_divisors(file: GgufFile) -> list[Decimal] | None:
    """Read the frequency divisors, exactly."""
    stored = file.tensors.get(FREQUENCY_DIVISORS)
    if stored is None:
        return None
    if len(stored.shape) != 1 or stored.kind != "F32" or stored.shape[0] > LIMITS["head_dim"]:
        raise UnsupportedError(f"GGUF: {FREQUENCY_DIVISORS} is not a short vector of F32")
    values = file.read_rows(stored, 0, 1).view("<f4")[0]
    check_finite(FREQUENCY_DIVISORS, values)
    return [Decimal(float(value)) for value in values]
