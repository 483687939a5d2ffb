"""Make a float checkpoint of a quantised Llama model, so that quantisers can be compared on it.

usage: python -m tests.engine.golden.float_checkpoint MODEL.gguf FOLDER [--shuffle SEED]

The weights of a GGUF file, dequantised by the `gguf` package, become a folder with config.json,
safetensors in binary32, tokenizer and chat template, as `windhover convert` takes it.

Weights that were quantised in groups once lie on the grid of those groups, and a quantiser with the
same groups finds them again almost without loss, which says nothing about it. `--shuffle` therefore
renames the dimensions of the residual stream, of each feed-forward layer and of the value heads by
random permutations. The model computes the same function, but a group now holds weights of many old
groups, with as many scales: values as a trained model has them, on no grid.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import save_file

from engine.convert.gguf import GgufFile
from engine.convert.gguf_model import read_gguf

Weights = dict[str, np.ndarray]

_MODEL = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def read_weights(path: Path, heads: dict[str, int]) -> Weights:
    """Return the dequantised tensors under the names of transformers, rotation halves apart.

    `heads` gives the number of heads in the matrices q and k, whose rows a GGUF file permutes.
    """
    weights = {}
    for tensor in gguf.GGUFReader(path).tensors:
        shape = [int(size) for size in tensor.shape][::-1]
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape)
        if tensor.name in _MODEL:
            weights[_MODEL[tensor.name]] = values
            continue
        _, layer, part, _ = tensor.name.split(".")
        if part in heads:
            pairs = values.reshape(heads[part], -1, 2, shape[1])
            values = pairs.swapaxes(1, 2).reshape(shape)
        weights[f"model.layers.{layer}.{_LAYER[part]}.weight"] = values
    return weights


def shuffle(weights: Weights, head_dim: int, seed: int) -> Weights:
    """Return the same function with its inner dimensions in another order."""
    rng = np.random.default_rng(seed)
    stream = rng.permutation(weights["model.norm.weight"].size)
    shuffled = dict(weights)
    for name, values in weights.items():
        reads = name.endswith(
            ("q_proj.weight", "k_proj.weight", "v_proj.weight", "gate_proj.weight")
        )
        if reads or name.endswith(("up_proj.weight", "embed_tokens.weight")):
            shuffled[name] = values[:, stream]
        elif values.ndim == 1 or name.endswith(("o_proj.weight", "down_proj.weight")):
            shuffled[name] = values[stream]
    for name in [name for name in weights if name.endswith("v_proj.weight")]:
        layer = name.removesuffix("self_attn.v_proj.weight")
        _shuffle_values(shuffled, layer + "self_attn.", head_dim, rng)
        inner = rng.permutation(len(shuffled[layer + "mlp.gate_proj.weight"]))
        for part in ("gate_proj", "up_proj"):
            shuffled[f"{layer}mlp.{part}.weight"] = shuffled[f"{layer}mlp.{part}.weight"][inner]
        down = shuffled[layer + "mlp.down_proj.weight"]
        shuffled[layer + "mlp.down_proj.weight"] = down[:, inner]
    return {name: np.ascontiguousarray(values) for name, values in shuffled.items()}


def _shuffle_values(weights: Weights, prefix: str, head_dim: int, rng: np.random.Generator) -> None:
    """Reorder the dimensions of each value head, and the inputs of o that come from it."""
    v, o = weights[prefix + "v_proj.weight"], weights[prefix + "o_proj.weight"]
    groups = len(v) // head_dim
    orders = np.stack([rng.permutation(head_dim) for _ in range(groups)])
    rows = (orders + np.arange(groups)[:, None] * head_dim).reshape(-1)
    weights[prefix + "v_proj.weight"] = v[rows]
    num_heads = o.shape[1] // head_dim
    shared = np.repeat(orders, num_heads // groups, axis=0)
    columns = (shared + np.arange(num_heads)[:, None] * head_dim).reshape(-1)
    weights[prefix + "o_proj.weight"] = o[:, columns]


def write_folder(path: Path, folder: Path, seed: int | None) -> None:
    """Write the checkpoint; `seed` of the shuffle, None for the order of the file."""
    with GgufFile(path) as file:
        checkpoint = read_gguf(file)
        theta = float(file.metadata["llama.rope.freq_base"])
    config, text = checkpoint.config, checkpoint.text
    weights = read_weights(path, {"attn_q": config.num_heads, "attn_k": config.num_kv_heads})
    if seed is not None:
        weights = shuffle(weights, config.head_dim, seed)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors")
    settings = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "max_position_embeddings": config.context_length_tokens,
        "rms_norm_eps": float(np.array(config.norm_eps_bits, np.uint32).view(np.float32)),
        "rope_theta": theta,
        "tie_word_embeddings": config.tied_embeddings,
        "eos_token_id": list(text.config.eos_ids),
    }
    (folder / "config.json").write_text(json.dumps(settings, indent=1) + "\n")
    (folder / "tokenizer.json").write_bytes(text.tokenizer_json)
    template = (text.template or b"").decode()
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shuffle", type=int)
    arguments = parser.parse_args()
    write_folder(arguments.gguf, arguments.folder, arguments.shuffle)


if __name__ == "__main__":
    main()
