"""The kernels by name, one function each, so that numba caches each by its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from engine.kernels import attention as attention_code
from engine.kernels import layouts, leaves, linear_float, linear_integer, rope, rows
from engine.kernels.build import Kernel, body, kernel
from engine.kernels.cache_number import HALF, SINGLE, CacheNumber
from simd.code import Code, Val


def _integer_linear(layout: layouts.Layout) -> Any:
    def emit(code: Code, instruction: Val, step: Val, thread: Val) -> None:
        linear_integer.emit_linear(code, layout, instruction, step, thread)

    return body(emit)


def _float_linear(kind: str) -> Any:
    def emit(code: Code, instruction: Val, step: Val, thread: Val) -> None:
        linear_float.emit_linear(code, kind, instruction, step, thread)

    return body(emit)


def _embedding(kind: str) -> Any:
    def emit(code: Code, instruction: Val, step: Val, thread: Val) -> None:
        rows.emit_embed(code, kind, instruction, step, thread)

    return body(emit)


def _cached(emit_with: Callable[..., None], number: CacheNumber) -> Any:
    def emit(code: Code, instruction: Val, step: Val, thread: Val) -> None:
        emit_with(code, number, instruction, step, thread)

    return body(emit)


_linear_q4_0 = _integer_linear(layouts.Q4_0)
_linear_q4_1 = _integer_linear(layouts.Q4_1)
_linear_q5_0 = _integer_linear(layouts.Q5_0)
_linear_q5_1 = _integer_linear(layouts.Q5_1)
_linear_q8_0 = _integer_linear(layouts.Q8_0)
_linear_q4_k = _integer_linear(layouts.Q4_K)
_linear_q5_k = _integer_linear(layouts.Q5_K)
_linear_q6_k = _integer_linear(layouts.Q6_K)
_linear_f32 = _float_linear("F32")
_linear_f16 = _float_linear("F16")
_linear_bf16 = _float_linear("BF16")
_embed_q4_0 = _embedding("Q4_0")
_embed_q4_1 = _embedding("Q4_1")
_embed_q5_0 = _embedding("Q5_0")
_embed_q5_1 = _embedding("Q5_1")
_embed_q8_0 = _embedding("Q8_0")
_embed_q4_k = _embedding("Q4_K")
_embed_q5_k = _embedding("Q5_K")
_embed_q6_k = _embedding("Q6_K")
_embed_f32 = _embedding("F32")
_embed_f16 = _embedding("F16")
_embed_bf16 = _embedding("BF16")
_norm = body(rows.emit_norm)
_quantise = body(rows.emit_quantise)
_silu_mul = body(rows.emit_silu_mul)
_snapshot = body(rows.emit_snapshot)
_hash_leaves = body(leaves.emit_hash_leaves)
_rope_table = body(rope.emit_table)
_rotate = _cached(rope.emit_rotate, HALF)
_rotate_single = _cached(rope.emit_rotate, SINGLE)
_attention = _cached(attention_code.emit_attention, HALF)
_attention_single = _cached(attention_code.emit_attention, SINGLE)


@kernel
def linear_q4_0(instruction: int, step: int, thread: int) -> int:
    """Run `_linear_q4_0`."""
    return _linear_q4_0(instruction, step, thread)


@kernel
def linear_q4_1(instruction: int, step: int, thread: int) -> int:
    """Run `_linear_q4_1`."""
    return _linear_q4_1(instruction, step, thread)


@kernel
def linear_q5_0(instruction: int, step: int, thread: int) -> int:
    """Run `_linear_q5_0`."""
    return _linear_q5_0(instruction, step, thread)


@kernel
def linear_q5_1(instruction: int, step: int, thread: int) -> int:
    """Run `_linear_q5_1`."""
    return _linear_q5_1(instruction, step, thread)


@kernel
def linear_q8_0(instruction: int, step: int, thread: int) -> int:
    """Run `_linear_q8_0`."""
    return _linear_q8_0(instruction, step, thread)


@kernel
def linear_q4_k(instruction: int, step: int, thread: int) -> int:
    """Run `_linear_q4_k`."""
    return _linear_q4_k(instruction, step, thread)


@kernel
def linear_q5_k(instruction: int, step: int, thread: int) -> int:
    """Run `_linear_q5_k`."""
    return _linear_q5_k(instruction, step, thread)


@kernel
def linear_q6_k(instruction: int, step: int, thread: int) -> int:
    """Run `_linear_q6_k`."""
    return _linear_q6_k(instruction, step, thread)


@kernel
def linear_f32(instruction: int, step: int, thread: int) -> int:
    """Run `_linear_f32`."""
    return _linear_f32(instruction, step, thread)


@kernel
def linear_f16(instruction: int, step: int, thread: int) -> int:
    """Run `_linear_f16`."""
    return _linear_f16(instruction, step, thread)


@kernel
def linear_bf16(instruction: int, step: int, thread: int) -> int:
    """Run `_linear_bf16`."""
    return _linear_bf16(instruction, step, thread)


@kernel
def embed_q4_0(instruction: int, step: int, thread: int) -> int:
    """Run `_embed_q4_0`."""
    return _embed_q4_0(instruction, step, thread)


@kernel
def embed_q4_1(instruction: int, step: int, thread: int) -> int:
    """Run `_embed_q4_1`."""
    return _embed_q4_1(instruction, step, thread)


@kernel
def embed_q5_0(instruction: int, step: int, thread: int) -> int:
    """Run `_embed_q5_0`."""
    return _embed_q5_0(instruction, step, thread)


@kernel
def embed_q5_1(instruction: int, step: int, thread: int) -> int:
    """Run `_embed_q5_1`."""
    return _embed_q5_1(instruction, step, thread)


@kernel
def embed_q8_0(instruction: int, step: int, thread: int) -> int:
    """Run `_embed_q8_0`."""
    return _embed_q8_0(instruction, step, thread)


@kernel
def embed_q4_k(instruction: int, step: int, thread: int) -> int:
    """Run `_embed_q4_k`."""
    return _embed_q4_k(instruction, step, thread)


@kernel
def embed_q5_k(instruction: int, step: int, thread: int) -> int:
    """Run `_embed_q5_k`."""
    return _embed_q5_k(instruction, step, thread)


@kernel
def embed_q6_k(instruction: int, step: int, thread: int) -> int:
    """Run `_embed_q6_k`."""
    return _embed_q6_k(instruction, step, thread)


@kernel
def embed_f32(instruction: int, step: int, thread: int) -> int:
    """Run `_embed_f32`."""
    return _embed_f32(instruction, step, thread)


@kernel
def embed_f16(instruction: int, step: int, thread: int) -> int:
    """Run `_embed_f16`."""
    return _embed_f16(instruction, step, thread)


@kernel
def embed_bf16(instruction: int, step: int, thread: int) -> int:
    """Run `_embed_bf16`."""
    return _embed_bf16(instruction, step, thread)


@kernel
def norm(instruction: int, step: int, thread: int) -> int:
    """Run `_norm`."""
    return _norm(instruction, step, thread)


@kernel
def quantise(instruction: int, step: int, thread: int) -> int:
    """Run `_quantise`."""
    return _quantise(instruction, step, thread)


@kernel
def silu_mul(instruction: int, step: int, thread: int) -> int:
    """Run `_silu_mul`."""
    return _silu_mul(instruction, step, thread)


@kernel
def snapshot(instruction: int, step: int, thread: int) -> int:
    """Run `_snapshot`."""
    return _snapshot(instruction, step, thread)


@kernel
def hash_leaves(instruction: int, step: int, thread: int) -> int:
    """Run `_hash_leaves`."""
    return _hash_leaves(instruction, step, thread)


@kernel
def rope_table(instruction: int, step: int, thread: int) -> int:
    """Run `_rope_table`."""
    return _rope_table(instruction, step, thread)


@kernel
def rotate(instruction: int, step: int, thread: int) -> int:
    """Run `_rotate`."""
    return _rotate(instruction, step, thread)


@kernel
def rotate_single(instruction: int, step: int, thread: int) -> int:
    """Run `_rotate_single`."""
    return _rotate_single(instruction, step, thread)


@kernel
def attention_single(instruction: int, step: int, thread: int) -> int:
    """Run `_attention_single`."""
    return _attention_single(instruction, step, thread)


@kernel
def attention(instruction: int, step: int, thread: int) -> int:
    """Run `_attention`."""
    return _attention(instruction, step, thread)


LINEAR: Final[dict[str, Kernel]] = {
    "Q4_0": linear_q4_0,
    "Q4_1": linear_q4_1,
    "Q5_0": linear_q5_0,
    "Q5_1": linear_q5_1,
    "Q8_0": linear_q8_0,
    "Q4_K": linear_q4_k,
    "Q5_K": linear_q5_k,
    "Q6_K": linear_q6_k,
    "F32": linear_f32,
    "F16": linear_f16,
    "BF16": linear_bf16,
}

EMBED: Final[dict[str, Kernel]] = {
    "Q4_0": embed_q4_0,
    "Q4_1": embed_q4_1,
    "Q5_0": embed_q5_0,
    "Q5_1": embed_q5_1,
    "Q8_0": embed_q8_0,
    "Q4_K": embed_q4_k,
    "Q5_K": embed_q5_k,
    "Q6_K": embed_q6_k,
    "F32": embed_f32,
    "F16": embed_f16,
    "BF16": embed_bf16,
}
