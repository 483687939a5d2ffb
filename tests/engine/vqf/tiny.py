"""A model of one layer whose every byte follows from names: the example of FORMAT.md."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.config import ModelConfig, TokenizerConfig
from engine.vqf import ExtentPlan, TensorSpec
from engine.vqf.kinds import KINDS
from engine.vqf.panels import pack

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = ModelConfig(
    architecture="llama",
    num_layers=1,
    hidden_size=32,
    num_heads=2,
    num_kv_heads=1,
    head_dim=16,
    intermediate_size=64,
    vocab_size=20,
    context_length_tokens=128,
    norm_eps_bits=0x3727C5AC,  # 1e-5
    rope_inv_freq_bits=(0x3FF0000000000000, 0x3F847AE147AE147B),  # 1 and 0.01
    tied_embeddings=False,
    attention_bias=False,
    qk_norm=False,
)
TOKENIZER = TokenizerConfig(bos_id=1, eos_ids=(2,), add_bos=False)
TOKENIZER_JSON = b'{"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}}\n'
TEMPLATE = b"{% for message in messages %}{{ message.content }}{% endfor %}\n"

PLAN = (
    ExtentPlan("embedding", (TensorSpec("embedding", "Q8_0", (20, 32)),)),
    ExtentPlan(
        "layers.0",
        (
            TensorSpec("layers.0.attention_norm", "F32", (32,)),
            TensorSpec("layers.0.q", "Q4_0", (32, 32)),
            TensorSpec("layers.0.k", "Q4_1", (16, 32)),
            TensorSpec("layers.0.v", "Q5_0", (16, 32)),
            TensorSpec("layers.0.o", "Q5_1", (32, 32)),
            TensorSpec("layers.0.ffn_norm", "F32", (32,)),
            TensorSpec("layers.0.gate", "Q4_0", (64, 32)),
            TensorSpec("layers.0.up", "F16", (64, 32)),
            TensorSpec("layers.0.down", "Q8_0", (32, 64)),
        ),
    ),
    ExtentPlan(
        "final",
        (TensorSpec("final_norm", "F32", (32,)), TensorSpec("head", "BF16", (20, 32))),
    ),
    ExtentPlan("tokenizer", raw_bytes_length=len(TOKENIZER_JSON)),
    ExtentPlan("template", raw_bytes_length=len(TEMPLATE)),
)
RAW = {"tokenizer": TOKENIZER_JSON, "template": TEMPLATE}


def bytes_of(name: str, length: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the first `length` bytes of SHAKE128 of a name."""
    return np.frombuffer(hashlib.shake_128(name.encode()).digest(length), np.uint8).copy()


def fields_of(name: str, kind: str, rows: int, columns: int) -> dict[str, Any]:
    """Return the fields of a matrix, each from SHAKE128 of `name/field`; floats are exact."""
    layout = KINDS[kind]
    blocks = columns // layout.block_inputs
    out: dict[str, Any] = {}
    for field in layout.head:
        shape = (rows, blocks * field.repeats)
        data = bytes_of(f"{name}/{field.name}", math.prod(shape)).reshape(shape)
        if field.element in ("u1", "i1"):
            out[field.name] = data.view(field.element)
        elif field.element == "<u2":  # BF16: an eighth of a signed byte has no more than 8 bits
            eighths = data.view(np.int8).astype(np.float32) / np.float32(8)
            out[field.name] = (eighths.view(np.uint32) >> 16).astype(np.uint16)
        else:
            signed = data.view(np.int8).astype(np.float32)
            out[field.name] = (signed / np.float32(64)).astype(field.element)
    if layout.group:
        codes = bytes_of(f"{name}/q", rows * columns).reshape(rows, columns)
        mask = (1 << layout.code_bits) - 1
        out["q"] = codes & np.uint8(mask) if layout.code_bits else codes.view(np.int8)
    return out


def tensor_data(spec: TensorSpec) -> Any:
    """Return the bytes of a tensor as a file has them."""
    if len(spec.shape) == 1:
        return fields_of(spec.name, "F32", *spec.shape, 1)["w"].reshape(-1)
    return pack(spec.kind, fields_of(spec.name, spec.kind, *spec.shape), *spec.shape)


def source(extent_name: str) -> Iterator[Any]:
    """Yield the buffers of an extent, as `write_vqf` wants them."""
    if extent_name in RAW:
        yield RAW[extent_name]
        return
    (plan,) = [extent for extent in PLAN if extent.name == extent_name]
    for spec in plan.tensors:
        yield tensor_data(spec)
