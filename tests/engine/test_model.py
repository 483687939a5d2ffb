"""A model from a VQF file: the numbers of other implementations, and what a file is refused for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.admission import DEV
from engine.convert.convert import convert
from engine.errors import ConfigError, FormatError, TemplateError, UnsupportedError, WeightsError
from engine.forward import Piece
from engine.generate import generate
from engine.model import Model, usable_cores
from engine.reference.load import load_model
from engine.sampling.parameters import SamplingParameters
from engine.sequence import Request
from engine.vqf import ExtentPlan, TensorSpec, open_vqf, write_vqf
from tests.engine.convert.support import REFERENCE, TINY, tiny_folder
from tests.engine.support import bits, kernel_threads

GREEDY = SamplingParameters(temperature_millionths=0)
MESSAGES = [{"role": "user", "content": "Hello, world!"}]


def copy_with(source: Path, target: Path, extent: str, content: bytes | None) -> Path:
    """Copy a VQF file with another text extent, or without it."""
    with open_vqf(source) as file:
        plan, contents = [], dict[str, list[bytes]]()
        for e in file.manifest.extents:
            if e.name == extent and content is None:
                continue
            if e.tensors:
                data = file.read_extent(e.name)
                specs = tuple(TensorSpec(t.name, t.kind, t.shape) for t in e.tensors)
                plan.append(ExtentPlan(e.name, specs))
                contents[e.name] = [
                    data[t.offset_bytes : t.offset_bytes + t.length_bytes].tobytes()
                    for t in e.tensors
                ]
            else:
                raw = content if e.name == extent and content else file.read_bytes(e.name)
                plan.append(ExtentPlan(e.name, raw_bytes_length=len(raw)))
                contents[e.name] = [raw]
        tokenizer = file.manifest.tokenizer
        write_vqf(target, file.manifest.config, tokenizer, plan, lambda name: iter(contents[name]))
    return target


@pytest.mark.parametrize("name", TINY)
def test_other_implementations_compute_the_same(tmp_path: Path, name: str):
    convert(tiny_folder(tmp_path / name, name), tmp_path / "model.vqf")
    golden = np.load(REFERENCE / name / "golden.npz")
    ids = golden["input_ids"].reshape(-1)
    expected = golden["logits"].reshape(len(ids), -1)
    settings = {"num_threads": 2, "max_positions": 256, "max_rows": 64, "max_outputs": 64}
    with Model(tmp_path / "model.vqf", policy=DEV, float_profile=True, **settings) as model:
        cache = model.engine.new_cache()
        found = model.engine.step([Piece(cache, ids.astype(np.int32), len(ids))]).logits
        assert np.abs(found - expected).max() < 1e-3
        cache.release()
        greedy = golden["greedy_ids"].reshape(-1).tolist()
        answer = generate(model, Request(tuple(ids.tolist()), len(greedy), GREEDY))
        assert list(answer.token_ids) == greedy


def test_a_file_gives_the_bits_of_the_definition(model: Model, tiny_vqf: Path):
    ids = model.chat_ids(MESSAGES, now_unix_s=0)
    expected = load_model(tiny_vqf).forward(ids, last_only=True)
    cache = model.engine.new_cache()
    result = model.engine.step([Piece(cache, np.array(ids, np.int32), 1)], trace=True)
    assert bits(result.logits) == bits(expected.logits)
    assert result.residuals is not None
    assert bits(result.residuals) == bits(expected.residuals)
    cache.release()


def test_a_model_knows_its_file(model: Model, tiny_vqf: Path):
    with open_vqf(tiny_vqf) as file:
        assert model.model_digest == file.model_digest
        assert model.config == file.manifest.config
        assert model.tokenizer_config == file.manifest.tokenizer
        tensors = [e.size_bytes for e in file.manifest.extents if e.tensors]
    assert model.resident_bytes == sum(tensors)


def test_a_conversation_becomes_the_ids_of_its_template(model: Model):
    text = "<|im_start|>user\nHello, world!<|im_end|>\n<|im_start|>assistant\n"
    ids = model.chat_ids(MESSAGES, now_unix_s=0)
    assert b"".join(map(model.tokenizer.token_bytes, ids)).decode() == text
    assert [i for i in ids if i >= 410] == [411, 412, 411]


def test_progress_ends_at_the_whole(tiny_vqf: Path):
    calls: list[tuple[int, int]] = []
    with Model(
        tiny_vqf,
        policy=DEV,
        num_threads=1,
        progress=lambda done, total: calls.append((done, total)),
    ):
        pass
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1][0] == calls[-1][1] > 0


def test_the_default_is_a_thread_for_each_usable_core(tiny_vqf: Path):
    before = kernel_threads()
    with Model(tiny_vqf, policy=DEV, max_positions=64) as model:
        assert model.engine.num_threads == usable_cores()
        assert kernel_threads() == before + usable_cores() - 1
    assert kernel_threads() == before


@pytest.mark.parametrize("num_threads", [0, -1, 257])
def test_a_number_of_threads_out_of_range(tiny_vqf: Path, num_threads: int):
    with pytest.raises(ConfigError, match="threads"):
        Model(tiny_vqf, policy=DEV, num_threads=num_threads)


def test_a_missing_file(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        Model(tmp_path / "none.vqf", policy=DEV)


def test_a_file_of_another_kind(tmp_path: Path):
    (tmp_path / "x.vqf").write_bytes(b"GGUF" * 5000)
    with pytest.raises(FormatError):
        Model(tmp_path / "x.vqf", policy=DEV)


def test_a_changed_weight_is_found_before_anything_is_computed(tmp_path: Path, tiny_vqf: Path):
    with open_vqf(tiny_vqf) as file:
        layer = file.read_extent("layers.1").tobytes()
    data = bytearray(tiny_vqf.read_bytes())
    data[data.index(layer) + len(layer) // 2] ^= 1
    damaged = tmp_path / "damaged.vqf"
    damaged.write_bytes(data)
    before = kernel_threads()
    with pytest.raises(WeightsError, match=r"layers\.1"):
        Model(damaged, policy=DEV)
    assert kernel_threads() == before


@pytest.mark.parametrize("extent", ["tokenizer", "template"])
def test_text_that_makes_no_sense(tmp_path: Path, tiny_vqf: Path, extent: str):
    wrong = b'{"model": 1}' if extent == "tokenizer" else b"{% if %}"
    path = copy_with(tiny_vqf, tmp_path / "wrong.vqf", extent, wrong)
    with pytest.raises((UnsupportedError, TemplateError)):
        Model(path, policy=DEV)


def test_a_tokenizer_with_more_tokens_than_the_embedding(tmp_path: Path, tiny_vqf: Path):
    with open_vqf(tiny_vqf) as file:
        document = json.loads(file.read_bytes("tokenizer"))
    document["added_tokens"].append({"id": 512, "content": "<|late|>", "special": True})
    content = json.dumps(document).encode()
    path = copy_with(tiny_vqf, tmp_path / "late.vqf", "tokenizer", content)
    with pytest.raises(UnsupportedError, match="id 512, but the embedding only 512 rows"):
        Model(path, policy=DEV)


def test_without_a_template_only_raw_prompts(tmp_path: Path, tiny_vqf: Path):
    path = copy_with(tiny_vqf, tmp_path / "plain.vqf", "template", None)
    with Model(path, policy=DEV, num_threads=1) as model:
        assert model.template is None
        with pytest.raises(TemplateError, match="no chat template"):
            model.chat_ids(MESSAGES, now_unix_s=0)
        ids = model.tokenizer.encode_raw("Hello")
        assert len(generate(model, Request(tuple(ids), 2, GREEDY)).token_ids) == 2
