"""Dense decoders: Llama (Touvron et al. 2023), Qwen2 (bias), Qwen3 (q/k norm)."""

from __future__ import annotations

from engine.models.graph import Graph


def write_forward(g: Graph) -> None:
    """Write embedding, layers and head."""
    g.rope_table()
    x = g.embed("embedding")
    for layer in range(g.config.num_layers):
        g.layer_starts(layer)
        g.snapshot(layer, x)
        write_layer(g, layer, f"layers.{layer}.")
    g.snapshot(g.config.num_layers, x)
    h = g.rms_norm(x, "final_norm", outputs_only=True)
    g.head(h, "embedding" if g.config.tied_embeddings else "head")


def write_layer(g: Graph, layer: int, name: str) -> None:
    """Write one transformer layer; x is the residual stream."""
    x = g.residual
    h = g.rms_norm(x, name + "attention_norm")
    q, k, v = g.linear_each(h, [name + "q", name + "k", name + "v"])
    o = g.attention(layer, q, k, v, q_norm=name + "q_norm", k_norm=name + "k_norm")
    g.add_linear(x, o, name + "o")
    h = g.rms_norm(x, name + "ffn_norm")
    gate, up = g.linear_each(h, [name + "gate", name + "up"])
    g.add_linear(x, g.silu_mul(gate, up), name + "down")
