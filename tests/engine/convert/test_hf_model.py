"""Checkpoint folders: names, kinds, quantisation, and what is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from engine.convert.checkpoint import Checkpoint, SourceTensor
from engine.convert.hf_model import Quant, read_folder
from engine.convert.quantize import quantize
from engine.convert.safetensors import SafetensorsFolder
from engine.errors import ConversionError, UnsupportedError
from engine.vqf.panels import pack, unpack, values
from tests import altered
from tests.engine.convert.support import (
    TINY,
    edit_json,
    encode_safetensors,
    read_safetensors,
    tiny_folder,
)

FILE = "model.safetensors"


def dequantised(tensor: SourceTensor) -> np.ndarray:
    data = tensor.whole()
    if len(tensor.shape) == 1:
        return data.view(np.float32)
    rows, columns = tensor.shape
    return values(tensor.kind, unpack(tensor.kind, data, rows, columns))


def read(folder: Path, quant: Quant = "keep") -> Checkpoint:
    with SafetensorsFolder(folder) as weights:
        checkpoint = read_folder(folder, weights, quant)
        made = {name: tensor.whole() for name, tensor in checkpoint.tensors.items()}
    tensors = {
        name: SourceTensor(tensor.kind, tensor.shape, lambda data=made[name]: iter([data]))
        for name, tensor in checkpoint.tensors.items()
    }
    return Checkpoint(checkpoint.config, checkpoint.text, tensors)


def edit_tensors(folder: Path, edit: Any) -> None:
    """Rewrite the weight file after `edit` has changed {name: (dtype, shape, bytes)}."""
    tensors = read_safetensors(folder / FILE)
    edit(tensors)
    (folder / FILE).write_bytes(encode_safetensors(tensors))


@pytest.mark.parametrize("name", TINY)
def test_tensors_are_kept_as_they_are(tmp_path: Path, name: str):
    folder = tiny_folder(tmp_path / name, name)
    expected = load_file(folder / FILE)
    tensors = read(folder).tensors
    pairs = {"embedding": "model.embed_tokens.weight", "final_norm": "model.norm.weight"}
    pairs |= {"layers.2.down": "model.layers.2.mlp.down_proj.weight"}
    pairs |= {"layers.1.q": "model.layers.1.self_attn.q_proj.weight"}
    if name == "qwen2_tiny":
        pairs |= {
            "head": "lm_head.weight",
            "layers.0.k_bias": "model.layers.0.self_attn.k_proj.bias",
        }
    if name == "qwen3_tiny":
        pairs |= {"layers.0.q_norm": "model.layers.0.self_attn.q_norm.weight"}
    for ours, theirs in pairs.items():
        assert tensors[ours].kind == "F32"
        assert dequantised(tensors[ours]).tobytes() == expected[theirs].tobytes()


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_half_precision_is_kept_exactly(tmp_path: Path, kind: str):
    folder = tiny_folder(tmp_path / "m", "qwen3_tiny")
    wide = load_file(folder / FILE)

    def halve(tensors: dict) -> None:
        for name, (_, shape, _data) in tensors.items():
            if kind == "F16":
                half = wide[name].astype(np.float16)
                wide[name] = half.astype(np.float32)
            else:
                half = (wide[name].view(np.uint32) >> np.uint32(16)).astype(np.uint16)
                wide[name] = (half.astype(np.uint32) << np.uint32(16)).view(np.float32)
            tensors[name] = (kind, shape, half.tobytes())

    edit_tensors(folder, halve)
    tensors = read(folder).tensors
    assert {tensor.kind for tensor in tensors.values()} == {kind, "F32"}
    stored = dequantised(tensors["layers.0.up"])
    assert stored.tobytes() == wide["model.layers.0.mlp.up_proj.weight"].tobytes()
    norm = dequantised(tensors["layers.0.q_norm"])
    assert norm.tobytes() == wide["model.layers.0.self_attn.q_norm.weight"].tobytes()
    # quantising half precision is quantising the values
    for quant, stored_kind in (("q4", "Q4_1"), ("q8", "Q8_0")):
        up = wide["model.layers.0.mlp.up_proj.weight"]
        expected = pack(stored_kind, quantize(stored_kind, up), *up.shape)
        assert (read(folder, quant).tensors["layers.0.up"].whole() == expected).all()


@pytest.mark.parametrize(
    ("quant", "layers", "ends"), [("q4", "Q4_1", "Q8_0"), ("q8", "Q8_0", "Q8_0")]
)
def test_which_kind_each_matrix_gets(tmp_path: Path, quant: Quant, layers: str, ends: str):
    tensors = read(tiny_folder(tmp_path / "m", "qwen2_tiny"), quant).tensors
    for name, tensor in tensors.items():
        if len(tensor.shape) == 1:
            assert tensor.kind == "F32"
        else:
            assert tensor.kind == (layers if name.startswith("layers.") else ends)


@pytest.mark.parametrize(("quant", "limit"), [("q4", 0.075), ("q8", 0.0065)])
def test_quantised_matrices_are_near_the_originals(tmp_path: Path, quant: Quant, limit: float):
    folder = tiny_folder(tmp_path / "m", "llama_tiny")
    exact, stored = read(folder).tensors, read(folder, quant).tensors
    for name, tensor in stored.items():
        x, y = dequantised(exact[name]).astype(np.float64), dequantised(tensor).astype(np.float64)
        assert np.sqrt(((x - y) ** 2).mean() / (x**2).mean()) < limit


def test_names_without_the_prefix(tmp_path: Path):
    folder = tiny_folder(tmp_path / "m", "qwen3_tiny")
    before = read(folder)

    def strip(tensors: dict) -> None:
        for name in list(tensors):
            tensors[name.removeprefix("model.")] = tensors.pop(name)

    edit_tensors(folder, strip)
    edit_json(folder / "config.json", architectures=["Qwen3Model"])
    after = read(folder)
    assert after.config == before.config
    for name, tensor in before.tensors.items():
        assert after.tensors[name].whole().tobytes() == tensor.whole().tobytes()


def test_buffers_that_are_recomputed_are_skipped(tmp_path: Path):
    folder = tiny_folder(tmp_path / "m", "llama_tiny")
    buffer = {"model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", (8,), bytes(32))}
    edit_tensors(folder, lambda tensors: tensors.update(buffer))
    assert "layers.0.q" in read(folder).tensors


def test_a_tied_head_may_be_stored_if_it_is_the_embedding(tmp_path: Path):
    folder = tiny_folder(tmp_path / "m", "qwen3_tiny")
    embedding = read_safetensors(folder / FILE)["model.embed_tokens.weight"]
    edit_tensors(folder, lambda tensors: tensors.update({"lm_head.weight": embedding}))
    assert "head" not in read(folder).tensors
    kind, shape, data = embedding
    other = (kind, shape, altered.last_byte(data))
    edit_tensors(folder, lambda tensors: tensors.update({"lm_head.weight": other}))
    with pytest.raises(ConversionError, match="lm_head"):
        read(folder)


@pytest.mark.parametrize(
    "name",
    [
        "model.embed_tokens.weight",
        "model.norm.weight",
        "lm_head.weight",
        "model.layers.0.input_layernorm.weight",
        "model.layers.2.self_attn.v_proj.bias",
    ],
)
def test_a_missing_tensor_is_named(tmp_path: Path, name: str):
    folder = tiny_folder(tmp_path / "m", "qwen2_tiny")
    edit_tensors(folder, lambda tensors: tensors.pop(name))
    with pytest.raises(ConversionError, match=name.removeprefix("model.")):
        read(folder)


@pytest.mark.parametrize(
    "name",
    ["model.layers.3.mlp.up_proj.weight", "model.layers.0.self_attn.o_proj.bias", "score.weight"],
)
def test_a_tensor_without_a_place_is_named(tmp_path: Path, name: str):
    folder = tiny_folder(tmp_path / "m", "qwen2_tiny")
    edit_tensors(folder, lambda tensors: tensors.update({name: ("F32", (64,), bytes(256))}))
    with pytest.raises(UnsupportedError, match=name):
        read(folder)


def test_a_wrong_shape_is_named(tmp_path: Path):
    folder = tiny_folder(tmp_path / "m", "qwen2_tiny")
    edit_json(folder / "config.json", vocab_size=511)
    with pytest.raises(ConversionError, match=r"embed_tokens.*\(512, 64\).*\(511, 64\)"):
        read(folder)


def test_columns_that_do_not_fill_groups_can_only_be_kept(tmp_path: Path):
    folder = tiny_folder(tmp_path / "m", "qwen2_tiny")
    edit_json(folder / "config.json", intermediate_size=144)

    def cut(tensors: dict) -> None:
        for name, (kind, shape, data) in tensors.items():
            if "gate_proj" in name or "up_proj" in name:
                tensors[name] = (kind, (144, 64), data[: 144 * 64 * 4])
            if "down_proj" in name:
                array = np.frombuffer(data, np.float32).reshape(shape)
                tensors[name] = (kind, (64, 144), array[:, :144].tobytes())

    edit_tensors(folder, cut)
    assert read(folder).tensors["layers.0.down"].shape == (64, 144)
    with pytest.raises(UnsupportedError, match=r"down_proj.*--quant keep"):
        read(folder, "q4")


@pytest.mark.parametrize("quant", ["keep", "q8", "q4"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["model.layers.1.mlp.up_proj.weight", "model.norm.weight"])
def test_a_value_that_is_not_finite_is_refused(tmp_path: Path, quant: Quant, value, name: str):
    folder = tiny_folder(tmp_path / "m", "qwen2_tiny")

    def damage(tensors: dict) -> None:
        kind, shape, data = tensors[name]
        tensors[name] = (kind, shape, data[:-4] + np.float32(value).tobytes())

    edit_tensors(folder, damage)
    with pytest.raises(ConversionError, match=f"{name}.*finite"):
        read(folder, quant)


def test_a_weight_too_large_for_the_scales_is_named(tmp_path: Path):
    folder = tiny_folder(tmp_path / "m", "qwen2_tiny")
    name = "model.layers.1.mlp.up_proj.weight"

    def damage(tensors: dict) -> None:
        kind, shape, data = tensors[name]
        tensors[name] = (kind, shape, data[:-4] + np.float32(1e9).tobytes())

    edit_tensors(folder, damage)
    with pytest.raises(ConversionError, match=f"{name}.*too large"):
        read(folder, "q4")
    assert read(folder, "keep").config.num_layers == 3


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, file: str):
    folder = tiny_folder(tmp_path / "m", "qwen2_tiny")
    (folder / file).unlink()
    with pytest.raises((ConversionError, UnsupportedError), match=file):
        read(folder)
