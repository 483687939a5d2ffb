"""GGUF files become checkpoints: names, permutation, kinds, and what is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from engine.convert.checkpoint import Checkpoint, SourceTensor
from engine.convert.gguf import BLOCKS, GgufFile
from engine.convert.gguf_model import read_gguf
from engine.convert.hf_model import read_folder
from engine.convert.safetensors import SafetensorsFolder
from engine.errors import ConversionError, UnsupportedError
from engine.vqf.panels import unpack, values
from tests.engine.convert.support import (
    CONVERT,
    TINY,
    Gguf,
    matrix,
    small_gguf,
    tiny_folder,
    vector,
)


def dequantised(tensor: SourceTensor) -> np.ndarray:
    """The values of a tensor as it would be stored."""
    data = tensor.whole()
    if len(tensor.shape) == 1:
        return data.view(np.float32)
    rows, columns = tensor.shape
    return values(tensor.kind, unpack(tensor.kind, data, rows, columns))


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def load(file: Gguf, path: Path) -> Checkpoint:
    with GgufFile(file.write(path)) as opened:
        return read_gguf(opened)


@pytest.mark.parametrize("name", TINY)
def test_gguf_and_safetensors_of_one_model_are_the_same(tmp_path: Path, name: str):
    folder = tiny_folder(tmp_path / name, name)
    with GgufFile(CONVERT / f"{name}-f32.gguf") as file, SafetensorsFolder(folder) as weights:
        ours, theirs = read_gguf(file), read_folder(folder, weights, "keep")
        assert ours.config == theirs.config
        assert ours.plan()[:-2] == theirs.plan()[:-2]
        assert ours.text.template == theirs.text.template
        assert ours.tensors.keys() == theirs.tensors.keys()
        for tensor, stored in ours.tensors.items():
            assert stored.whole().tobytes() == theirs.tensors[tensor].whole().tobytes()


def expected_values(path: Path) -> dict[str, np.ndarray]:
    """Every tensor as the `gguf` package dequantises it."""
    return {
        tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(
            tuple(int(size) for size in reversed(tensor.shape))
        )
        for tensor in gguf.GGUFReader(path).tensors
    }


def permuted(rows: np.ndarray, head_dim: int) -> np.ndarray:
    """What the writers of llama files do to q and k: halves of a head become pairs."""
    halves = rows.reshape(-1, 2, head_dim // 2, rows.shape[1])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def test_a_file_of_llama_cpp_with_q8_0():
    path = CONVERT / "qwen3_tiny-q8_0.gguf"
    expected = expected_values(path)
    with GgufFile(path) as file:
        tensors = read_gguf(file).tensors
        assert tensors["layers.0.q"].kind == "Q8_0"
        assert same_bits(dequantised(tensors["embedding"]), expected["token_embd.weight"])
        for i in range(3):
            for ours, theirs in [("q", "attn_q"), ("o", "attn_output"), ("down", "ffn_down")]:
                stored = dequantised(tensors[f"layers.{i}.{ours}"])
                assert same_bits(stored, expected[f"blk.{i}.{theirs}.weight"])


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_every_kind_is_imported_without_loss(tmp_path: Path, kind: str, architecture: str):
    parts = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output"}
    parts |= {"gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
    file = small_gguf(architecture, hidden=256, kinds=dict.fromkeys(parts.values(), kind))
    path = tmp_path / "m.gguf"
    file.write(path)
    expected = expected_values(path)
    with GgufFile(path) as opened:
        tensors = read_gguf(opened).tensors
        for ours, theirs in parts.items():
            stored = dequantised(tensors[f"layers.0.{ours}"])
            if architecture == "llama" and ours in {"q", "k"}:
                stored = permuted(stored, 128)
            assert tensors[f"layers.0.{ours}"].kind == kind
            assert same_bits(stored, expected[f"blk.0.{theirs}.weight"])


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_vectors_become_binary32_exactly(tmp_path: Path, kind: str):
    file = small_gguf()
    file.tensors[-1] = matrix("output_norm.weight", kind, 1, 32)
    file.tensors[-1].dims = (32,)
    path = tmp_path / "m.gguf"
    file.write(path)
    with GgufFile(path) as opened:
        stored = read_gguf(opened).tensors["final_norm"]
        expected = expected_values(path)["output_norm.weight"]
        assert same_bits(dequantised(stored), expected.astype(np.float32))


def test_frequency_factors_divide_the_frequencies(tmp_path: Path):
    plain = load(small_gguf(), tmp_path / "plain.gguf").config
    file = small_gguf()
    factors = np.array([1, 1, 2, 2, 4, 4, 8, 8], np.float32)
    file.tensors.append(vector("rope_freqs.weight", 8))
    file.tensors[-1].data = factors.tobytes()
    scaled = load(file, tmp_path / "scaled.gguf").config

    def floats(config):
        return np.array(config.rope_inv_freq_bits, np.uint64).view(np.float64)

    assert (floats(scaled) == floats(plain) / factors).all()


def test_linear_scaling_divides_the_frequencies(tmp_path: Path):
    plain = load(small_gguf(), tmp_path / "plain.gguf").config
    for keys in (
        {"rope.scaling.type": ("str", "linear"), "rope.scaling.factor": ("f32", 2.0)},
        {"rope.scale_linear": ("f32", 2.0)},
    ):
        file = small_gguf()
        file.metadata |= {f"llama.{key}": value for key, value in keys.items()}
        scaled = load(file, tmp_path / "scaled.gguf").config
        one = 1 << 52  # halving lowers the exponent field by one
        assert scaled.rope_inv_freq_bits == tuple(b - one for b in plain.rope_inv_freq_bits)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rope.scaling.type", ("str", "none")),
        ("rope.scaling.factor", ("f32", 0.0)),
        ("rope.scaling.attn_factor", ("f32", 1.0)),
        ("attention.causal", ("bool", 1)),
        ("attention.sliding_window", ("u32", 0)),
        ("expert_count", ("u32", 0)),
        ("final_logit_softcapping", ("f32", 0.0)),
        ("pooling_type", ("u32", 0)),
    ],
)
def test_settings_that_change_nothing(tmp_path: Path, key: str, value: tuple[str, Any]):
    plain = load(small_gguf(), tmp_path / "plain.gguf").config
    file = small_gguf()
    file.metadata[f"llama.{key}"] = value
    assert load(file, tmp_path / "m.gguf").config == plain


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llama.rope.scaling.type", ("str", "yarn")),
        ("llama.rope.scaling.type", ("str", "longrope")),
        ("llama.rope.scaling.yarn_log_multiplier", ("f32", 0.1)),
        ("llama.rope.scaling.attn_factor", ("f32", 1.5)),
        ("llama.attention.sliding_window", ("u32", 512)),
        ("llama.attention.causal", ("bool", 0)),
        ("llama.expert_count", ("u32", 8)),
        ("llama.expert_used_count", ("u32", 2)),
        ("llama.final_logit_softcapping", ("f32", 30.0)),
        ("llama.logit_scale", ("f32", 0.5)),
        ("llama.some_new_key", ("u32", 0)),
        ("llama.rope.dimension_count", ("u32", 8)),
        ("llama.attention.value_length", ("u32", 32)),
        ("llama.attention.head_count", ("arr:u32", [2])),
        ("llama.feed_forward_length", ("arr:u32", [32])),
        ("general.type", ("str", "adapter")),
        ("general.architecture", ("str", "gemma3")),
        ("general.quantization_version", ("u32", 1)),
        ("split.count", ("u16", 2)),
    ],
)
def test_what_is_not_supported_is_named(tmp_path: Path, key: str, value: tuple[str, Any]):
    file = small_gguf()
    file.metadata[key] = value
    with pytest.raises(UnsupportedError) as caught:
        load(file, tmp_path / "m.gguf")
    words = str(caught.value)
    assert "\n" not in words
    known = {"general.architecture": "gemma3", "general.type": "adapter"}
    named = known.get(key, value[1] if key.endswith("scaling.type") else key)
    assert named in words


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("general.architecture", None),
        ("llama.block_count", None),
        ("llama.block_count", ("u32", 0)),
        ("llama.block_count", ("u32", 2)),
        ("llama.block_count", ("u32", 2**32 - 1)),
        ("llama.block_count", ("f32", 1.0)),
        ("llama.block_count", ("str", "1")),
        ("llama.block_count", ("bool", 1)),
        ("llama.embedding_length", ("u32", 64)),
        ("llama.attention.head_count", ("u32", 3)),
        ("llama.attention.head_count_kv", ("u32", 2)),
        ("llama.attention.layer_norm_rms_epsilon", None),
        ("llama.attention.layer_norm_rms_epsilon", ("f32", 0.0)),
        ("llama.attention.layer_norm_rms_epsilon", ("f32", -1.0)),
        ("llama.attention.layer_norm_rms_epsilon", ("f32", float("nan"))),
        ("llama.attention.layer_norm_rms_epsilon", ("f64", 1e300)),
        ("llama.rope.freq_base", ("f32", 0.0)),
        ("llama.rope.freq_base", ("f32", float("inf"))),
        ("llama.rope.scaling.factor", ("f32", -2.0)),
        ("llama.vocab_size", ("u32", 265)),
    ],
)
def test_what_contradicts_itself_is_refused(
    tmp_path: Path, key: str, value: tuple[str, Any] | None
):
    file = small_gguf()
    file.metadata.pop(key, None)
    if value is not None:
        file.metadata[key] = value
    with pytest.raises(ConversionError):
        load(file, tmp_path / "m.gguf")


@pytest.mark.parametrize("name", [tensor.name for tensor in small_gguf("qwen3").tensors])
def test_a_missing_tensor_is_named(tmp_path: Path, name: str):
    file = small_gguf("qwen3")
    file.tensors = [tensor for tensor in file.tensors if tensor.name != name]
    with pytest.raises(ConversionError, match=name):
        load(file, tmp_path / "m.gguf")


@pytest.mark.parametrize(
    "name", ["blk.0.attn_output.bias", "blk.0.ffn_gate_inp.weight", "blk.1.attn_q.weight", "v.mm.0"]
)
def test_a_tensor_without_a_place_is_named(tmp_path: Path, name: str):
    file = small_gguf()
    file.tensors.append(vector(name, 32))
    with pytest.raises(UnsupportedError, match=name):
        load(file, tmp_path / "m.gguf")


def test_a_wrong_shape_is_named(tmp_path: Path):
    file = small_gguf()
    file.tensors[1] = matrix("blk.0.attn_q.weight", "F32", 16, 32)
    with pytest.raises(ConversionError, match="attn_q"):
        load(file, tmp_path / "m.gguf")


def test_a_quantised_vector_is_named(tmp_path: Path):
    file = small_gguf()
    file.tensors[-1] = matrix("output_norm.weight", "Q8_0", 1, 32)
    file.tensors[-1].dims = (32,)
    with pytest.raises(UnsupportedError, match="output_norm"):
        load(file, tmp_path / "m.gguf")


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_value_that_is_not_finite_is_refused(tmp_path: Path, kind: str):
    file = small_gguf(hidden=256, kinds={"ffn_up": kind})
    tensor = next(tensor for tensor in file.tensors if "ffn_up" in tensor.name)
    half = {"F32": 2, "Q6_K": 208}.get(kind, 0)
    infinity = b"\x80\x7f" if kind in {"F32", "BF16"} else b"\x00\x7c"
    tensor.data = tensor.data[:half] + infinity + tensor.data[half + 2 :]
    path = tmp_path / "m.gguf"
    file.write(path)
    with GgufFile(path) as opened:
        stored = read_gguf(opened).tensors["layers.0.up"]
        with pytest.raises(ConversionError, match=r"ffn_up.*finite"):
            stored.whole()


def test_an_untied_head(tmp_path: Path):
    file = small_gguf()
    file.tensors.append(matrix("output.weight", "F16", 264, 32))
    checkpoint = load(file, tmp_path / "m.gguf")
    assert not checkpoint.config.tied_embeddings
    assert checkpoint.tensors["head"].kind == "F16"
    assert [spec.name for spec in checkpoint.plan()[2].tensors] == ["final_norm", "head"]


@pytest.mark.parametrize(("number", "pooling"), [(1, "mean"), (3, "last")])
def test_how_a_text_becomes_a_vector(tmp_path: Path, number: int, pooling: str):
    file = small_gguf()
    file.metadata["llama.pooling_type"] = ("u32", number)
    assert load(file, tmp_path / "m.gguf").config.pooling == pooling


@pytest.mark.parametrize("number", [2, 4, 5])
def test_other_ways_of_pooling_are_refused(tmp_path: Path, number: int):
    file = small_gguf()
    file.metadata["llama.pooling_type"] = ("u32", number)
    with pytest.raises(UnsupportedError, match="pooling_type"):
        load(file, tmp_path / "m.gguf")


def test_the_end_of_a_text_that_becomes_a_vector(tmp_path: Path):
    file = small_gguf()
    file.metadata["llama.pooling_type"] = ("u32", 3)
    file.metadata["tokenizer.ggml.add_eos_token"] = ("bool", 1)
    text = load(file, tmp_path / "m.gguf").text
    _, end = file.metadata["tokenizer.ggml.eos_token_id"]
    assert text.config.embedding_end_id == end
