"""Converting a checkpoint of the shape of an 8B model needs one layer plus 500 MB at most.

A slice of that shape is generated: as many layers as a test asks for, and the whole vocabulary.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.engine.convert.support import byte_alphabet

CHECKOUT = Path(__file__).resolve().parents[3]
HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 4096, 14336, 32, 8, 128, 128256
LAYER = {
    "input_layernorm.weight": (HIDDEN,),
    "self_attn.q_proj.weight": (HEADS * HEAD_DIM, HIDDEN),
    "self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
    "self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
    "self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD_DIM),
    "post_attention_layernorm.weight": (HIDDEN,),
    "mlp.gate_proj.weight": (INNER, HIDDEN),
    "mlp.up_proj.weight": (INNER, HIDDEN),
    "mlp.down_proj.weight": (HIDDEN, INNER),
}
LAYER_BYTES = 2 * sum(int(np.prod(shape)) for shape in LAYER.values())

MEASURE = """
import resource, sys
from pathlib import Path
from engine.convert.convert import convert
convert(Path(sys.argv[1]), Path(sys.argv[2]), quant=sys.argv[3])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def make_folder(folder: Path, num_layers: int, vocab_size: int) -> Path:
    """Write a checkpoint of random bfloat16 weights."""
    folder.mkdir()
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "num_hidden_layers": num_layers,
        "vocab_size": vocab_size,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "tie_word_embeddings": True,
        "eos_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    names = [*byte_alphabet(), *(f"token{i}" for i in range(256, vocab_size))]
    model = {"type": "BPE", "vocab": {name: i for i, name in enumerate(names)}, "merges": []}
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    tokenizer = {"version": "1.0", "model": model, "pre_tokenizer": step, "decoder": step}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    shapes = {"model.embed_tokens.weight": (vocab_size, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for i in range(num_layers):
        shapes |= {f"model.layers.{i}.{name}": shape for name, shape in LAYER.items()}
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    rng = np.random.default_rng(8)
    block = rng.standard_normal(8 << 20, np.float32).view(np.uint32) >> np.uint32(16)
    data = block.astype(np.uint16).tobytes()
    with (folder / "model.safetensors").open("wb") as file:
        encoded = json.dumps(header).encode()
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for start in range(0, at, len(data)):
            file.write(data[: min(len(data), at - start)])
    return folder


def peak_bytes(folder: Path, quant: str) -> int:
    target = folder / "out.vqf"
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder), str(target), quant],
        capture_output=True,
        check=True,
        cwd=CHECKOUT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    target.unlink()
    return int(run.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("quant", ["keep", "q8"])
def test_memory_does_not_depend_on_the_number_of_layers(tmp_path: Path, quant: str):
    peaks = []
    for num_layers in (1, 4):
        folder = make_folder(tmp_path / str(num_layers), num_layers, VOCAB)
        peaks.append(peak_bytes(folder, quant))
        (folder / "model.safetensors").unlink()
    assert max(peaks) < LAYER_BYTES + 500_000_000
    assert abs(peaks[1] - peaks[0]) < 30_000_000


@pytest.mark.slow
def test_memory_of_the_search_for_scales(tmp_path: Path):
    folder = make_folder(tmp_path / "m", 1, 4096)
    assert peak_bytes(folder, "q4") < LAYER_BYTES + 500_000_000
