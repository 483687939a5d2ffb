"""Writing a model of the shape of an 8B one, layer by layer: what is in memory is one tensor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import engine.vqf

# The peak of this memory: what getrusage says begins with the peak of the process that started it.
PROGRAM = """
import sys
import numpy as np
from engine.config import ModelConfig, TokenizerConfig
from engine.vqf import ExtentPlan, TensorSpec, open_vqf, write_vqf
from engine.vqf.families import required_extents
from engine.vqf.manifest import tensor_bytes

path, layers = sys.argv[1], int(sys.argv[2])
config = ModelConfig(
    architecture="llama", num_layers=layers, hidden_size=4096, num_heads=32, num_kv_heads=8,
    head_dim=128, intermediate_size=14336, vocab_size=16000, context_length_tokens=8192,
    norm_eps_bits=0x3727C5AC, rope_inv_freq_bits=(0x3FF0000000000000,), tied_embeddings=True,
    attention_bias=False, qk_norm=False,
)
plan = [
    ExtentPlan(extent.name, tuple(
        TensorSpec(name, "F32" if len(shape) == 1 else "Q4_0", shape)
        for name, shape in extent.tensors
    ))
    for extent in required_extents(config)
]
plan.append(ExtentPlan("tokenizer", raw_bytes_length=2))
specs = {extent.name: extent.tensors for extent in plan}

def source(name):
    if name == "tokenizer":
        yield b"{}"
    for spec in specs[name]:
        yield np.resize(np.arange(251, dtype=np.uint8), tensor_bytes(spec.kind, spec.shape))

def peak():
    with open("/proc/self/status", encoding="ascii") as status:
        (line,) = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024

imported = peak()
write_vqf(path, config, TokenizerConfig(None, (), False), plan, source)
written = peak()
with open_vqf(path) as file:
    largest = max(t.length_bytes for e in file.manifest.extents for t in e.tensors)
print(imported, written, largest, file.manifest.data_length_bytes)
"""


def measured(path: Path, layers: int) -> list[int]:
    """Return peak memory after importing and after writing, the largest tensor, the data area."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(path), str(layers)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(engine.vqf.__file__).parents[2],
        )
    finally:
        path.unlink(missing_ok=True)
    return [int(number) for number in done.stdout.split()]


@pytest.mark.slow
@pytest.mark.ci
def test_memory_does_not_grow_with_layers(tmp_path: Path) -> None:
    two = measured(tmp_path / "two.vqf", 2)
    four = measured(tmp_path / "four.vqf", 4)
    for imported, written, largest, _ in (two, four):
        # the source holds a tensor while numpy makes it, and the writer one MiB beside it
        assert largest < written - imported < 3 * largest + (16 << 20)
    assert four[3] - two[3] > 230 << 20
    assert abs(four[1] - two[1]) < 8 << 20
