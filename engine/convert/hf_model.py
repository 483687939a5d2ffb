"""A checkpoint folder (config.json, safetensors, tokenizer.json) as a checkpoint of ours.

`keep` stores matrices as the float kinds that they are; `q8` makes every matrix Q8_0; `q4` makes
the matrices of the layers Q4_1 and leaves embedding and head at Q8_0 (reasons in `quantize`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.convert.checkpoint import (
    Bytes,
    Checkpoint,
    Fields,
    SourceTensor,
    check_finite,
    matrix_pieces,
)
from engine.convert.hf_config import read_config
from engine.convert.hf_tokenizer import read_text
from engine.convert.jsonfile import read_json
from engine.convert.quantize import GROUP, quantize
from engine.convert.safetensors import SafetensorsFolder, StoredTensor, read_rows
from engine.convert.settings import Settings
from engine.errors import ConversionError, UnsupportedError
from engine.vqf.families import required_extents

Quant = Literal["keep", "q4", "q8"]

_HEAD: Final = "lm_head.weight"

_LAYER_NAMES: Final = {
    "attention_norm": "input_layernorm.weight",
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight",
    "q_bias": "self_attn.q_proj.bias",
    "k_bias": "self_attn.k_proj.bias",
    "v_bias": "self_attn.v_proj.bias",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "ffn_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}

_RECOMPUTED: Final = ".rotary_emb.inv_freq"
"""Buffers of old checkpoints that config.json defines; `transformers` skips them as well."""


def read_folder(folder: Path, weights: SafetensorsFolder, quant: Quant) -> Checkpoint:
    """Take a model out of a checkpoint folder.

    The checkpoint reads from `weights` when its tensors are made: it must stay open until then.

    Args:
        folder: The checkpoint.
        weights: Its opened weight files.
        quant: What becomes of the matrices.

    Raises:
        ConversionError: Something is missing, damaged or contradicts something else.
        UnsupportedError: The model needs something that is not implemented; the message names it.
        OSError: A file cannot be read.
    """
    settings = Settings(read_json(folder / "config.json"), "config.json")
    pooling = folder / "1_Pooling" / "config.json"
    pooled = Settings(read_json(pooling), "1_Pooling/config.json") if pooling.exists() else None
    config = read_config(settings, pooled)
    prefix = "model." if "model.embed_tokens.weight" in weights.tensors else ""
    tensors: dict[str, SourceTensor] = {}
    used: set[str] = set()
    for extent in required_extents(config):
        for name, shape in extent.tensors:
            stored_name = _stored_name(name, prefix)
            stored = weights.tensors.get(stored_name)
            if stored is None:
                raise ConversionError(f"tensor {stored_name} is missing")
            if stored.shape != shape:
                raise ConversionError(
                    f"tensor {stored_name} has the shape {stored.shape}, config.json says {shape}"
                )
            used.add(stored_name)
            tensors[name] = _source_tensor(stored, _target_kind(stored, name, quant))
    _check_unused(weights, used, config, prefix)
    text = read_text(folder, settings, config.vocab_size, embeds=config.pooling is not None)
    return Checkpoint(config, text, tensors)


def _stored_name(name: str, prefix: str) -> str:
    if name == "head":
        return _HEAD
    if not name.startswith("layers."):
        return prefix + {"embedding": "embed_tokens.weight", "final_norm": "norm.weight"}[name]
    _, index, part = name.split(".")
    return f"{prefix}layers.{index}.{_LAYER_NAMES[part]}"


def _target_kind(stored: StoredTensor, name: str, quant: Quant) -> str:
    if len(stored.shape) == 1:
        return "F32"
    if quant == "keep":
        return stored.kind
    if stored.shape[1] % GROUP:
        raise UnsupportedError(
            f"tensor {stored.name} has {stored.shape[1]} columns, not a multiple of {GROUP}: "
            "only --quant keep can store it"
        )
    return "Q4_1" if quant == "q4" and name.startswith("layers.") else "Q8_0"


def _source_tensor(stored: StoredTensor, kind: str) -> SourceTensor:
    if len(stored.shape) == 1:
        return SourceTensor(kind, stored.shape, lambda: _vector(stored))

    def load(first: int, count: int) -> Fields:
        values = read_rows(stored, first, count)
        check_finite(stored.name, values)
        if kind == stored.kind:
            return {"w": values}
        try:
            return quantize(kind, _widened(stored.kind, values))
        except ConversionError as error:
            raise ConversionError(f"tensor {stored.name}: {error}") from None

    rows, columns = stored.shape
    return SourceTensor(kind, stored.shape, lambda: matrix_pieces(kind, (rows, columns), load))


def _vector(stored: StoredTensor) -> Iterator[Bytes]:
    values = read_rows(stored, 0, 1)
    check_finite(stored.name, values)
    yield _widened(stored.kind, values).view(np.uint8).reshape(-1)


def _widened(kind: str, values: NDArray[np.generic]) -> NDArray[np.float32]:
    """Return the values as binary32, exactly."""
    if kind == "BF16":
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float32)


def _check_unused(
    weights: SafetensorsFolder, used: set[str], config: ModelConfig, prefix: str
) -> None:
    """Refuse tensors that the architecture does not have."""
    for name, tensor in weights.tensors.items():
        if name in used or name.endswith(_RECOMPUTED):
            continue
        if name == _HEAD and config.tied_embeddings:
            _check_same(weights.tensors[_stored_name("embedding", prefix)], tensor)
            continue
        raise UnsupportedError(f"tensor {name} has no place in a model of {config.architecture}")


def _check_same(embedding: StoredTensor, head: StoredTensor) -> None:
    """A tied head that is stored nevertheless must be the embedding."""
    same = (embedding.kind, embedding.shape) == (head.kind, head.shape)
    rows = embedding.shape[0]
    step = max(1, (1 << 22) // embedding.shape[1])
    for first in range(0, rows if same else 0, step):
        count = min(step, rows - first)
        one, other = read_rows(embedding, first, count), read_rows(head, first, count)
        same = same and one.tobytes() == other.tobytes()
    if not same:
        raise ConversionError(f"config.json ties the embeddings, but {_HEAD} differs from them")
