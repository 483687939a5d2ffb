"""Which extents and tensors a file of each architecture has (FORMAT.md section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from engine.config import ModelConfig

DECODERS: Final = ("llama", "qwen2", "qwen3")


class TensorShape(NamedTuple):
    """A tensor that must be there, and its shape."""

    name: str
    shape: tuple[int, ...]


class RequiredExtent(NamedTuple):
    """An extent that must be there and its tensors in order."""

    name: str
    tensors: tuple[TensorShape, ...]


def required_extents(config: ModelConfig) -> list[RequiredExtent]:
    """Return the extents with tensors, in file order; `tokenizer` and `template` follow them.

    Args:
        config: a configuration of one of `DECODERS`.
    """
    hidden, vocab = config.hidden_size, config.vocab_size
    final = [TensorShape("final_norm", (hidden,))]
    if not config.tied_embeddings:
        final.append(TensorShape("head", (vocab, hidden)))
    return [
        RequiredExtent("embedding", (TensorShape("embedding", (vocab, hidden)),)),
        *(_decoder_layer(config, index) for index in range(config.num_layers)),
        RequiredExtent("final", tuple(final)),
    ]


def _decoder_layer(config: ModelConfig, index: int) -> RequiredExtent:
    """Return the extent of one decoder layer."""
    hidden, inner = config.hidden_size, config.intermediate_size
    heads = config.num_heads * config.head_dim
    kv_heads = config.num_kv_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "attention_norm": (hidden,),
        "q": (heads, hidden),
        "k": (kv_heads, hidden),
        "v": (kv_heads, hidden),
        "o": (hidden, heads),
    }
    if config.attention_bias:
        shapes |= {"q_bias": (heads,), "k_bias": (kv_heads,), "v_bias": (kv_heads,)}
    if config.qk_norm:
        shapes |= {"q_norm": (config.head_dim,), "k_norm": (config.head_dim,)}
    shapes |= {
        "ffn_norm": (hidden,),
        "gate": (inner, hidden),
        "up": (inner, hidden),
        "down": (hidden, inner),
    }
    extent = f"layers.{index}"
    return RequiredExtent(
        extent, tuple(TensorShape(f"{extent}.{name}", shape) for name, shape in shapes.items())
    )
