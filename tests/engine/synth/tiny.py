"""A shape so small that a model of it is made, loaded and asked in a moment."""

from __future__ import annotations

from engine.synth.shapes import Shape

SHAPE = Shape(
    source="nobody",
    architecture="qwen3",
    num_layers=2,
    hidden_size=256,
    num_heads=4,
    num_kv_heads=2,
    head_dim=64,
    intermediate_size=256,
    vocab_size=700,
    context_length_tokens=128,
    rope_theta=10_000,
    norm_eps="1e-6",
    tied_embeddings=False,
)
"""Every kind can have its columns; the last panel of the embedding is not full."""

SMALL_ENGINE = {
    "num_threads": 1,
    "max_positions": 64,
    "max_rows": 16,
    "max_outputs": 16,
    "max_blocks": 2,
}
"""Settings of `Model` that take little memory."""
