"""What a VQF file says about its model and its tokenizer: value types without behaviour."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape and constants of one decoder model.

    `norm_eps_bits` is a binary32 pattern, `rope_inv_freq_bits` are binary64 patterns, one per
    rotated pair of dimensions, with every scaling already applied (NUMERICS N7). `pooling` says how
    a text becomes a vector (NUMERICS N14); None for a model that makes none.
    """

    architecture: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    context_length_tokens: int
    norm_eps_bits: int
    rope_inv_freq_bits: tuple[int, ...]
    tied_embeddings: bool
    attention_bias: bool
    qk_norm: bool
    pooling: str | None = None


@dataclass(frozen=True, slots=True)
class TokenizerConfig:
    """Special ids that generation needs beside tokenizer.json itself.

    `bos_id` is None when the model has none; `eos_ids` end an answer; `add_bos` says
    whether a raw prompt starts with `bos_id`. `embedding_end_id` is appended to a text that
    becomes a vector, where the model was trained so.
    """

    bos_id: int | None
    eos_ids: tuple[int, ...]
    add_bos: bool
    embedding_end_id: int | None = None
