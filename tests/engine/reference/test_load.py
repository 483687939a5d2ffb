from __future__ import annotations

import numpy as np
import pytest

from engine.config import TokenizerConfig
from engine.errors import FormatError, WeightsError
from engine.reference.decoder import ReferenceModel
from engine.reference.load import load_model
from engine.reference.weights import Weight, float_profile
from engine.vqf import ExtentPlan, TensorSpec, write_vqf
from engine.vqf.families import required_extents
from engine.vqf.panels import pack
from tests.engine.reference.support import load_checkpoint, random_fields, same_bits

KINDS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F32", "F16", "BF16")
TOKENIZER = b'{"version": "1.0"}'


@pytest.fixture(scope="module")
def qwen2():
    """The tiny checkpoint with its matrices replaced by random ones of every kind in turn."""
    checkpoint = load_checkpoint("qwen2_tiny")
    weights = dict(checkpoint.weights)
    for i, (name, weight) in enumerate(sorted(weights.items())):
        if len(weight.shape) == 2:
            kind = KINDS[i % len(KINDS)]
            weights[name] = Weight(kind, random_fields(kind, *weight.shape, i))
    return checkpoint._replace(weights=weights)


@pytest.fixture
def vqf(qwen2, tmp_path):
    def stored(weight: Weight) -> bytes:
        if len(weight.shape) == 1:
            return weight.fields["w"].tobytes()
        return pack(weight.kind, weight.fields, *weight.shape).tobytes()

    extents = {extent.name: extent.tensors for extent in required_extents(qwen2.config)}
    plan = [
        ExtentPlan(
            name, tuple(TensorSpec(t.name, qwen2.weights[t.name].kind, t.shape) for t in tensors)
        )
        for name, tensors in extents.items()
    ]
    plan.append(ExtentPlan("tokenizer", raw_bytes_length=len(TOKENIZER)))

    def source(name):
        if name == "tokenizer":
            return iter([TOKENIZER])
        return (stored(qwen2.weights[tensor.name]) for tensor in extents[name])

    path = tmp_path / "tiny.vqf"
    write_vqf(path, qwen2.config, TokenizerConfig(None, (1,), False), plan, source)
    return path


def test_a_loaded_model_computes_what_its_weights_compute(qwen2, vqf):
    ids = [3, 1, 4, 1, 5]
    found = load_model(vqf).forward(ids)
    expected = ReferenceModel(qwen2.config, qwen2.weights).forward(ids)
    assert same_bits(found.logits, expected.logits)
    assert same_bits(found.residuals, expected.residuals)


def test_the_float_profile_reads_the_values(qwen2, vqf):
    ids = [3, 1, 4]
    found = load_model(vqf, "wh1-float").forward(ids)
    values = float_profile(qwen2.weights)
    expected = ReferenceModel(qwen2.config, values, cache_type=np.float32).forward(ids)
    assert same_bits(found.logits, expected.logits)
    assert not same_bits(found.logits, load_model(vqf).forward(ids).logits)


def test_a_changed_byte_is_refused(vqf):
    data = bytearray(vqf.read_bytes())
    marker = np.frombuffer(data, dtype=np.uint8).nonzero()[0]
    data[marker[len(marker) // 2]] ^= 1
    vqf.write_bytes(data)
    with pytest.raises(WeightsError):
        load_model(vqf)


def test_what_is_no_vqf_file_is_refused(tmp_path):
    path = tmp_path / "other"
    path.write_bytes(b"GGUF" + bytes(8192))
    with pytest.raises(FormatError):
        load_model(path)
