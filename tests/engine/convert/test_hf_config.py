"""config.json: both ways of writing RoPE, defaults, and what is refused by name."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any

import pytest

from engine.config import ModelConfig
from engine.convert.hf_config import read_config
from engine.convert.jsonfile import parse_json
from engine.convert.rope import Llama3Scaling, inverse_frequencies
from engine.convert.settings import Settings
from engine.errors import ConversionError, UnsupportedError

BASE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-05,
    "vocab_size": 512,
    "rope_theta": 500000.0,
}
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def read(_without: tuple[str, ...] = (), **changes: Any) -> ModelConfig:
    value = {key: item for key, item in BASE.items() if key not in _without} | changes
    return read_config(
        Settings(parse_json(json.dumps(value).encode(), "config.json"), "config.json")
    )


def qwen(model_type: str, **changes: Any) -> ModelConfig:
    name = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}[model_type]
    return read(model_type=model_type, architectures=[name], **changes)


def test_a_plain_llama():
    config = read()
    assert config == ModelConfig(
        architecture="llama",
        num_layers=2,
        hidden_size=64,
        num_heads=4,
        num_kv_heads=4,
        head_dim=16,
        intermediate_size=160,
        vocab_size=512,
        context_length_tokens=4096,
        norm_eps_bits=0x3727C5AC,
        rope_inv_freq_bits=inverse_frequencies(Decimal(500_000), 16),
        tied_embeddings=False,
        attention_bias=False,
        qk_norm=False,
    )


def test_families_differ_in_bias_and_norms():
    qwen2, qwen3 = qwen("qwen2"), qwen("qwen3", head_dim=32)
    assert (qwen2.attention_bias, qwen2.qk_norm) == (True, False)
    assert (qwen3.attention_bias, qwen3.qk_norm, qwen3.head_dim) == (False, True, 32)
    assert qwen("qwen3").head_dim == 128  # the default of the class, not hidden / heads


def test_both_ways_of_writing_the_same_rope():
    plain = read().rope_inv_freq_bits
    parameters = {"rope_type": "default", "rope_theta": 500000}
    assert read(("rope_theta",), rope_parameters=parameters).rope_inv_freq_bits == plain
    assert read(rope_parameters=parameters).rope_inv_freq_bits == plain
    assert read(rope_scaling=None).rope_inv_freq_bits == plain
    assert read(rope_scaling={"type": "default"}).rope_inv_freq_bits == plain
    scaling = Llama3Scaling(Decimal(8), Decimal(1), Decimal(4), 32)
    expected = inverse_frequencies(Decimal(500_000), 16, llama3=scaling)
    assert read(rope_scaling={"rope_type": "llama3", **LLAMA3}).rope_inv_freq_bits == expected
    parameters = {"rope_type": "llama3", "rope_theta": 500000.0, **LLAMA3}
    assert read(("rope_theta",), rope_parameters=parameters).rope_inv_freq_bits == expected
    expected = inverse_frequencies(Decimal(500_000), 16, linear_factor=Decimal("2.5"))
    for key in ("type", "rope_type"):
        assert read(rope_scaling={key: "linear", "factor": 2.5}).rope_inv_freq_bits == expected


def test_theta_has_its_default():
    expected = inverse_frequencies(Decimal(10_000), 16)
    assert read(("rope_theta",)).rope_inv_freq_bits == expected


def test_numbers_are_taken_from_their_text():
    # as a binary64 first, this epsilon would round to its neighbour in binary32
    middle = (Decimal(1) + Decimal(2) ** -24) * Decimal(2) ** -17
    text = json.dumps(BASE).replace("1e-05", str(middle + Decimal(2) ** -100))
    settings = Settings(parse_json(text.encode(), "config.json"), "config.json")
    assert (
        read_config(settings).norm_eps_bits == struct.unpack("<I", struct.pack("<f", 2**-17))[0] + 1
    )
    theta = read(("rope_theta",), rope_theta=10_000.1).rope_inv_freq_bits
    assert theta == inverse_frequencies(Decimal("10000.1"), 16)


def test_a_context_beyond_the_definition_is_cut():
    assert read(max_position_embeddings=10_485_760).context_length_tokens == 1_048_576


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_interleaved": False, "is_llama_config": True, "transformers.js_config": {"a": 1}},
        {"attention_bias": False, "mlp_bias": False, "pretraining_tp": 1, "use_cache": True},
        {"quantization_config": None, "num_experts": 0, "use_mrope": False},
        {"logit_scale": 1.0, "residual_multiplier": 1},
        {"partial_rotary_factor": 1.0, "layer_types": ["full_attention", "full_attention"]},
        {"architectures": None},
        {"architectures": ["LlamaModel"]},
        {"hidden_act": "silu"},
    ],
)
def test_settings_that_change_nothing(changes: dict[str, Any]):
    assert read(**changes) == read()


def test_a_sliding_window_that_is_switched_off():
    window = {"sliding_window": 32768, "use_sliding_window": False, "max_window_layers": 28}
    assert qwen("qwen2", **window) == qwen("qwen2")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "mistral"}, "mistral"),
        ({"model_type": "qwen3_moe"}, "qwen3_moe"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "LlamaForSequenceClassification"),
        ({"architectures": ["Qwen2ForCausalLM"]}, "Qwen2ForCausalLM"),
        ({"architectures": [{}]}, "architectures"),
        ({"architectures": "LlamaForCausalLM"}, "architectures"),
        ({"layer_types": [[]]}, "layer_types"),
        ({"num_experts\n": 8}, "num_experts"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"attention_bias": True}, "attention_bias"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"sliding_window": 4096}, "sliding_window"),
        ({"layer_types": ["sliding_attention"]}, "layer_types"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 1}}}, "between layers"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
        ({"rope_scaling": {"type": "dynamic", "factor": 4.0}}, "dynamic"),
        ({"rope_scaling": {"type": "longrope"}}, "longrope"),
        ({"rope_scaling": {"factor": 4.0}}, "factor"),
        ({"rope_parameters": {"rope_type": "default", "mrope_section": [1]}}, "mrope_section"),
        ({"rope_scaling": {"type": "linear", "factor": 2, "attention_factor": 2}}, "attention_f"),
        ({"rope_interleaved": True}, "rope_interleaved"),
        ({"num_experts": 8}, "num_experts"),
        ({"num_local_experts": 1}, "num_local_experts"),
        ({"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
        ({"embedding_multiplier": 12.0}, "embedding_multiplier"),
        ({"logits_scaling": 8.0}, "logits_scaling"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
        ({"compression_config": {"a": 1}}, "compression_config"),
        ({"auto_map": {"AutoModel": "x.y"}}, "auto_map"),
        ({"hidden_size": 72, "num_attention_heads": 1, "head_dim": 16}, "hidden_size"),
        ({"head_dim": 24}, "head_dim"),
    ],
)
def test_what_is_not_supported_is_named(changes: dict[str, Any], named: str):
    with pytest.raises(UnsupportedError, match=named) as caught:
        read(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["model_type", "hidden_size", "rms_norm_eps", "vocab_size"])
def test_a_missing_key_is_named(key: str):
    with pytest.raises(ConversionError, match=f"{key} is missing"):
        read((key,))


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": "64"},
        {"hidden_size": 64.0},
        {"hidden_size": True},
        {"hidden_size": 0},
        {"hidden_size": 10**30},
        {"num_hidden_layers": 1025},
        {"num_attention_heads": 5},
        {"num_key_value_heads": 3},
        {"rms_norm_eps": 0},
        {"rms_norm_eps": -1e-5},
        {"rms_norm_eps": 1e39},
        {"rms_norm_eps": "1e-5"},
        {"rope_theta": 0.5},
        {"rope_scaling": 5},
        {"rope_scaling": {"type": "linear"}},
        {"rope_scaling": {"type": "linear", "factor": 0}},
        {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
        {"rope_parameters": {"rope_theta": 10000.0}},
        {"tie_word_embeddings": 1},
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, Any]):
    with pytest.raises(ConversionError):
        read(**changes)


@pytest.mark.parametrize("key", sorted(LLAMA3))
def test_llama3_scaling_needs_all_its_constants(key: str):
    scaling = {name: value for name, value in LLAMA3.items() if name != key}
    with pytest.raises(ConversionError, match=f"{key} is missing"):
        read(rope_scaling={"rope_type": "llama3", **scaling})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[1]",
        b"null",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 1}}',
        b"{" + b'"a":{' * 100_000,
        b'{"a": ' + b"9" * 10_000 + b"}",
        b'{"a": 1e999999999999999999999}',
        b'{"a": "\xff"}',
        b"\xef\xbb\xbf{}",
    ],
)
def test_json_is_strict(data: bytes):
    with pytest.raises(ConversionError) as caught:
        parse_json(data, "config.json")
    assert "\n" not in str(caught.value)


def pooled(**modes: bool) -> ModelConfig:
    settings = Settings({f"pooling_mode_{name}": on for name, on in modes.items()}, "pooling")
    return read_config(Settings(parse_json(json.dumps(BASE).encode(), "c"), "c"), settings)


def test_how_a_text_becomes_a_vector():
    assert read().pooling is None
    assert pooled(mean_tokens=True, cls_token=False).pooling == "mean"
    assert pooled(lasttoken=True, mean_tokens=False).pooling == "last"


@pytest.mark.parametrize(
    "modes", [{}, {"cls_token": True}, {"mean_tokens": True, "lasttoken": True}]
)
def test_other_ways_of_pooling_are_refused(modes: dict[str, bool]):
    with pytest.raises(UnsupportedError, match="1_Pooling"):
        pooled(**modes)
