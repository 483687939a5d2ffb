"""The configuration in a checkpoint folder's config.json.

What a model computes is defined by the `transformers` class of its `model_type`, which reads the
keys used here and no others. Keys that belong to functions of other classes, or that announce
quantised weights or code, are refused by name wherever they are switched on.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple

from engine.config import ModelConfig
from engine.convert.bits import binary32_bits
from engine.convert.files import shown
from engine.convert.limits import LIMITS, check_shape
from engine.convert.rope import Llama3Scaling, inverse_frequencies
from engine.convert.settings import Settings
from engine.errors import ConversionError, UnsupportedError


class _Family(NamedTuple):
    """Names and defaults of one `transformers` class."""

    class_prefix: str
    default_head_dim: int | None


_FAMILIES: Final = {
    "llama": _Family("Llama", None),
    "qwen2": _Family("Qwen2", None),
    "qwen3": _Family("Qwen3", 128),
}

_DEFAULT_THETA: Final = Decimal(10_000)

_USED: Final = frozenset(
    {
        "model_type",
        "architectures",
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "hidden_act",
        "max_position_embeddings",
        "rms_norm_eps",
        "tie_word_embeddings",
        "rope_theta",
        "rope_scaling",
        "rope_parameters",
        "attention_bias",
        "mlp_bias",
        "layer_types",
        "partial_rotary_factor",
        "use_sliding_window",
        "sliding_window",
        "max_window_layers",  # means nothing unless use_sliding_window is true
    }
)

_ROPE_KEYS: Final = {
    "default": {"rope_type", "type", "rope_theta", "partial_rotary_factor"},
    "linear": {"factor", "original_max_position_embeddings"},
    "llama3": {
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    },
}
"""Types of RoPE scaling and the keys of each; those of `default` belong to all."""

_REFUSED_PARTS: Final = (
    "alibi",
    "auto_map",
    "compression_config",
    "expert",
    "interleave",
    "moe",
    "mrope",
    "multiplier",
    "nextn",
    "no_rope",
    "quantization",
    "rotary",
    "router",
    "scal",
    "softcap",
    "sparse",
    "window",
)
"""A key with one of these in its name belongs to a function that is not implemented."""

_FACTORS: Final = ("multiplier", "scal")
"""A key with one of these in its name is without effect when its value is 1."""


def read_config(settings: Settings, pooling: Settings | None = None) -> ModelConfig:
    """Turn config.json into a configuration.

    Args:
        settings: The object in config.json.
        pooling: That in 1_Pooling/config.json, which models have that make vectors of texts.

    Raises:
        ConversionError: A key is missing or contradicts another.
        UnsupportedError: A key asks for something that is not implemented; the message names it.
    """
    name = settings.text("model_type")
    if name not in _FAMILIES:
        raise UnsupportedError(f"config.json: the architecture {shown(name)} is not supported")
    _refuse_unsupported(settings, name)
    heads = settings.integer("num_attention_heads", 1, LIMITS["heads"])
    hidden = settings.integer("hidden_size", 1, LIMITS["hidden_size"])
    head_dim = settings.optional_integer("head_dim", 1, LIMITS["head_dim"])
    if head_dim is None:
        head_dim = _FAMILIES[name].default_head_dim
    if head_dim is None:
        if hidden % heads:
            raise ConversionError(
                f"config.json: {hidden} dimensions do not divide into {heads} heads"
            )
        head_dim = hidden // heads
    context = settings.integer("max_position_embeddings", 1, LIMITS["any"])
    config = ModelConfig(
        architecture=name,
        num_layers=settings.integer("num_hidden_layers", 1, LIMITS["layers"]),
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=settings.optional_integer("num_key_value_heads", 1, LIMITS["heads"]) or heads,
        head_dim=head_dim,
        intermediate_size=settings.integer("intermediate_size", 1, LIMITS["intermediate_size"]),
        vocab_size=settings.integer("vocab_size", 1, LIMITS["vocab_size"]),
        context_length_tokens=min(context, LIMITS["context"]),
        norm_eps_bits=binary32_bits(settings.number("rms_norm_eps")),
        rope_inv_freq_bits=_read_rope(settings, head_dim),
        tied_embeddings=settings.optional_boolean("tie_word_embeddings") or False,
        attention_bias=name == "qwen2",
        qk_norm=name == "qwen3",
        pooling=None if pooling is None else _pooling(pooling),
    )
    return check_shape(config)


def _pooling(settings: Settings) -> str:
    """Return the one way of pooling that is switched on (sentence-transformers' names)."""
    known = {"pooling_mode_mean_tokens": "mean", "pooling_mode_lasttoken": "last"}
    modes = filter(lambda key: key.startswith("pooling_mode_"), settings.keys())
    wanted = [key for key in modes if settings.optional_boolean(key)]
    if len(wanted) != 1 or wanted[0] not in known:
        raise UnsupportedError(f"1_Pooling/config.json: {shown(wanted)} is not supported")
    return known[wanted[0]]


def _refuse_unsupported(settings: Settings, name: str) -> None:
    classes = settings.raw("architectures") or []
    prefix = _FAMILIES[name].class_prefix
    if not isinstance(classes, list) or any(
        entry not in (f"{prefix}ForCausalLM", f"{prefix}Model") for entry in classes
    ):
        raise UnsupportedError(f"config.json: architectures {shown(classes)} are not supported")
    activation = settings.optional_text("hidden_act") or "silu"
    if activation != "silu":
        raise UnsupportedError(f"config.json: hidden_act {shown(activation)} is not supported")
    # in llama and qwen3 it adds a bias to the output matrix too
    for key in ("attention_bias", "mlp_bias", "use_sliding_window"):
        if settings.optional_boolean(key):
            raise UnsupportedError(f"config.json: {key} is not supported")
    if name == "llama" and "sliding_window" in settings:
        raise UnsupportedError("config.json: sliding_window is not supported")
    layer_types = settings.raw("layer_types") or []
    if not isinstance(layer_types, list) or any(kind != "full_attention" for kind in layer_types):
        raise UnsupportedError("config.json: layer_types other than full_attention")
    if settings.optional_number("partial_rotary_factor") not in {None, Decimal(1)}:
        raise UnsupportedError("config.json: partial_rotary_factor is not supported")
    for key in sorted(settings.keys()):
        if key in _USED or not any(part in key.lower() for part in _REFUSED_PARTS):
            continue
        value = settings.raw(key)
        neutral_factor = value == 1 and any(part in key.lower() for part in _FACTORS)
        if value is True or (value and not neutral_factor):
            raise UnsupportedError(f"config.json: {shown(key)} is not supported")


def _read_rope(settings: Settings, head_dim: int) -> tuple[int, ...]:
    """Read both ways of writing RoPE's constants, of which one or both may be there."""
    theta = settings.optional_number("rope_theta")
    table = settings.raw("rope_parameters") or settings.raw("rope_scaling") or {}
    if not isinstance(table, dict):
        raise ConversionError("config.json: rope_parameters or rope_scaling is not an object")
    if any(isinstance(value, dict) for value in table.values()):
        raise UnsupportedError("config.json: rope_parameters that differ between layers")
    rope = Settings(table, "config.json: RoPE parameters")
    table_theta = rope.optional_number("rope_theta")
    if theta is not None and table_theta is not None and theta != table_theta:
        raise ConversionError("config.json: two different values of rope_theta")
    theta = theta or table_theta or _DEFAULT_THETA
    if rope.optional_number("partial_rotary_factor") not in {None, Decimal(1)}:
        raise UnsupportedError("config.json: partial_rotary_factor is not supported")
    kind = rope.optional_text("rope_type") or rope.optional_text("type") or "default"
    if kind not in _ROPE_KEYS:
        raise UnsupportedError(f"config.json: the RoPE scaling {shown(kind)} is not supported")
    for key in sorted(rope.keys()):
        if key not in _ROPE_KEYS[kind] | _ROPE_KEYS["default"]:
            raise UnsupportedError(
                f"config.json: {shown(key)} is not supported in RoPE of type {kind}"
            )
    if kind == "linear":
        return inverse_frequencies(theta, head_dim, linear_factor=rope.number("factor"))
    if kind == "llama3":
        scaling = Llama3Scaling(
            rope.number("factor"),
            rope.number("low_freq_factor"),
            rope.number("high_freq_factor"),
            rope.integer("original_max_position_embeddings", 1, 1 << 30),
        )
        return inverse_frequencies(theta, head_dim, llama3=scaling)
    return inverse_frequencies(theta, head_dim)
