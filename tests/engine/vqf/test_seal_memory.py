"""Sealing and checking a file of 200 MiB: memory for 64 MiB, or for the largest extent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import engine.vqf

# The peak of this memory: what getrusage says begins with the peak of the process that started it.
PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from crypto.signer import SoftwareSigner, SoftwareUnwrapper
from crypto.sm2 import generate
from crypto.release import Release
from engine.config import ModelConfig, TokenizerConfig
from engine.vqf import ExtentPlan, TensorSpec, open_vqf, write_vqf
from engine.vqf.families import required_extents
from engine.vqf.manifest import tensor_bytes
from engine.vqf.rewrap import rewrap_vqf
from engine.vqf.seal import seal_vqf
from engine.vqf.sign import sign_vqf
from engine.vqf.unlock import Unlock
from engine.vqf.verify import verify_all
from engine.vqf.wrap import SealFor

def peak():
    with open("/proc/self/status", encoding="ascii") as status:
        (line,) = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024

def forget_peak():
    Path("/proc/self/clear_refs").write_text("5")

folder, threads = Path(sys.argv[1]), int(sys.argv[2])
plain, sealed = folder / "plain.vqf", folder / "sealed.vqf"
key = generate()
config = ModelConfig(
    architecture="llama", num_layers=8, hidden_size=2048, num_heads=16, num_kv_heads=4,
    head_dim=128, intermediate_size=5632, vocab_size=16000, context_length_tokens=8192,
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

write_vqf(plain, config, TokenizerConfig(None, (), False), plan, source)

numbers = []
def measured(work):
    forget_peak()
    before = peak()
    work()
    numbers.append(peak() - before)

with open_vqf(plain) as file:
    size = file.preamble.data_length
    measured(lambda: seal_vqf(file, sealed, SealFor((key.public_key,)), num_threads=threads))
    release = Release(file.model_digest, "big", 1, 0, None, (0, 1, 0))
unlock = Unlock((SoftwareUnwrapper(key),))
with open_vqf(sealed, unlock) as file:
    measured(lambda: sign_vqf(file, [SoftwareSigner(generate())], release))
with open_vqf(sealed, unlock) as file:
    measured(lambda: rewrap_vqf(file, add=[generate().public_key]))
with open_vqf(sealed, unlock) as file:
    measured(lambda: verify_all(file, num_threads=threads))
print(size, *numbers)
"""

MIB = 1 << 20
THREADS = 3


@pytest.mark.slow
@pytest.mark.ci
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path), str(THREADS)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(engine.vqf.__file__).parents[2],
        )
    finally:
        for path in tmp_path.iterdir():
            path.unlink()
    size, seal, sign, rewrap, verify = map(int, done.stdout.split())
    assert size > 200 * MIB
    # 64 MiB of extents together, of which none is as long; a seal verifies its source first
    assert 32 * MIB < verify < (64 + 12 + 2 * THREADS) * MIB
    assert seal < (64 + 12 + 2 * THREADS) * MIB
    assert sign < 12 * MIB
    assert rewrap < 12 * MIB
