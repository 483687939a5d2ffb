"""The configuration in a GGUF file's metadata.

Every key of the architecture's own namespace is either used, known to have no effect on the
computation, or refused by name: a key that is not understood could change what the model computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from engine.config import ModelConfig
from engine.convert.bits import binary32_bits
from engine.convert.files import shown
from engine.convert.limits import LIMITS, check_shape
from engine.convert.rope import inverse_frequencies
from engine.convert.settings import Settings
from engine.errors import ConversionError, UnsupportedError

ARCHITECTURES: Final = ("llama", "qwen2", "qwen3")

_USED = frozenset(
    {
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "attention.layer_norm_rms_epsilon",
        "rope.dimension_count",
        "rope.freq_base",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scale_linear",
        "vocab_size",
        "pooling_type",
    }
)

_POOLINGS: Final = {0: None, 1: "mean", 3: "last"}
"""By the number that GGUF has for them; 2 takes a token of its own, and 4 ranks."""

_WITHOUT_EFFECT = frozenset(
    {
        "attention.layer_norm_epsilon",  # of models without RMS norms
        "rope.scaling.finetuned",
        "rope.scaling.original_context_length",  # only yarn and longrope compute with it
        "tensor_data_layout",  # which tool wrote the file
    }
)

_NEUTRAL: dict[str, object] = {
    "attention.causal": True,
    "attention.sliding_window": 0,
    "attention.logit_softcapping": Decimal(0),
    "final_logit_softcapping": Decimal(0),
    "attention.clamp_kqv": Decimal(0),
    "attention.max_alibi_bias": Decimal(0),
    "expert_count": 0,
    "expert_used_count": 0,
    "logit_scale": Decimal(1),
    "rope.scaling.attn_factor": Decimal(1),
    "use_parallel_residual": False,
}
"""Keys of functions that are not implemented, and the value that switches each off."""


def architecture(metadata: Settings) -> str:
    """Return the architecture.

    Raises:
        UnsupportedError: It is not supported, or the file is not a whole model.
    """
    name = metadata.text("general.architecture")
    if name not in ARCHITECTURES:
        raise UnsupportedError(f"GGUF: the architecture {shown(name)} is not supported")
    content = metadata.optional_text("general.type")
    if content not in {None, "model"}:
        raise UnsupportedError(f"GGUF: the file holds a {shown(content)}, not a model")
    if (metadata.optional_integer("split.count", 0, 65_535) or 1) > 1:
        raise UnsupportedError("GGUF: the model is split over several files (split.count)")
    if metadata.optional_integer("general.quantization_version", 0, 1 << 31) not in {None, 2}:
        raise UnsupportedError("GGUF: general.quantization_version is not 2")
    return name


def read_config(
    metadata: Settings,
    *,
    vocab_size: int,
    tied_embeddings: bool,
    frequency_divisors: Sequence[Decimal] | None,
) -> ModelConfig:
    """Turn metadata into a configuration.

    Args:
        metadata: All keys of the file.
        vocab_size: Rows of the embedding.
        tied_embeddings: Whether the file has no matrix for the head.
        frequency_divisors: Values of `rope_freqs.weight`, where there is one.

    Raises:
        ConversionError: A key is missing or contradicts another.
        UnsupportedError: A key asks for something that is not implemented; the message names it.
    """
    name = architecture(metadata)
    refuse_unknown_keys(metadata, name)

    def integer(key: str, limit: str) -> int:
        full = f"{name}.{key}"
        if isinstance(metadata.raw(full), tuple):
            raise UnsupportedError(f"GGUF: {full} differs between layers")
        return metadata.integer(full, 1, LIMITS[limit])

    hidden = integer("embedding_length", "hidden_size")
    heads = integer("attention.head_count", "heads")
    kv_heads = heads
    if f"{name}.attention.head_count_kv" in metadata:
        kv_heads = integer("attention.head_count_kv", "heads")
    head_dim = metadata.optional_integer(f"{name}.attention.key_length", 1, LIMITS["head_dim"])
    if head_dim is None:
        if hidden % heads:
            raise ConversionError(f"GGUF: {hidden} dimensions do not divide into {heads} heads")
        head_dim = hidden // heads
    for key in ("attention.value_length", "rope.dimension_count"):
        if metadata.optional_integer(f"{name}.{key}", 1, 1 << 20) not in {None, head_dim}:
            raise UnsupportedError(f"GGUF: {name}.{key} differs from the head's {head_dim}")
    if metadata.optional_integer(f"{name}.vocab_size", 1, 1 << 31) not in {None, vocab_size}:
        raise ConversionError(f"GGUF: {name}.vocab_size is not the embedding's {vocab_size} rows")
    eps = metadata.number(f"{name}.attention.layer_norm_rms_epsilon")
    theta = metadata.optional_number(f"{name}.rope.freq_base")
    config = ModelConfig(
        architecture=name,
        num_layers=integer("block_count", "layers"),
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate_size=integer("feed_forward_length", "intermediate_size"),
        vocab_size=vocab_size,
        context_length_tokens=min(integer("context_length", "any"), LIMITS["context"]),
        norm_eps_bits=binary32_bits(eps),
        rope_inv_freq_bits=inverse_frequencies(
            Decimal(10_000) if theta is None else theta,
            head_dim,
            linear_factor=_linear_factor(metadata, name),
            divisors=frequency_divisors,
        ),
        tied_embeddings=tied_embeddings,
        attention_bias=name == "qwen2",
        qk_norm=name == "qwen3",
        pooling=_pooling(metadata, name),
    )
    return check_shape(config)


def refuse_unknown_keys(metadata: Settings, name: str) -> None:
    """Refuse keys `name.*` that could change the computation.

    Raises:
        UnsupportedError: There is one; the message has the first in alphabetical order.
    """
    for full in sorted(metadata.keys()):
        prefix, _, key = full.partition(".")
        if prefix != name or key in _USED or key in _WITHOUT_EFFECT:
            continue
        value = metadata.raw(full)
        if key not in _NEUTRAL or value != _NEUTRAL[key] or isinstance(value, tuple):
            raise UnsupportedError(f"GGUF: {full} is not supported")


def _pooling(metadata: Settings, name: str) -> str | None:
    """Return how a text becomes a vector, None where it does not."""
    number = metadata.optional_integer(f"{name}.pooling_type", 0, 1 << 31) or 0
    if number not in _POOLINGS:
        raise UnsupportedError(f"GGUF: {name}.pooling_type {number} is not supported")
    return _POOLINGS[number]


def _linear_factor(metadata: Settings, name: str) -> Decimal:
    """The factor of linear RoPE scaling; 1 without scaling."""
    kind = metadata.optional_text(f"{name}.rope.scaling.type")
    if kind not in {None, "none", "linear"}:
        raise UnsupportedError(f"GGUF: the RoPE scaling {shown(kind)} is not supported")
    factor = metadata.optional_number(f"{name}.rope.scaling.factor")
    if factor is None:
        factor = metadata.optional_number(f"{name}.rope.scale_linear")  # its name in old files
    # 0 stands for absent: writers store it where nothing is scaled
    if kind == "none" or not factor:
        return Decimal(1)
    return factor
