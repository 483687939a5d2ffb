"""Whole models: one digest everywhere, every kind answers, memory stays small."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crypto.errors import WriteError
from engine.admission import DEV
from engine.config import ModelConfig
from engine.errors import ConfigError
from engine.forward import Piece
from engine.generate import generate
from engine.model import Model
from engine.sampling.parameters import SamplingParameters
from engine.sequence import Request
from engine.synth import weights
from engine.synth.shapes import SHAPES
from engine.synth.synthesize import synthesize
from engine.vqf import open_vqf
from engine.vqf.kinds import KINDS
from tests.engine.synth.tiny import SHAPE, SMALL_ENGINE

CHECKOUT = Path(__file__).resolve().parents[3]
GOLDEN = "ff8411975ba032899dfc6b4aa1596e1f2c999eb75dc8165ed7f499beff3d5932"
MIB = 1 << 20

MEASURE = """
import sys
from pathlib import Path
import concurrent.futures.thread, numpy.random
from engine.synth.shapes import SHAPES
from engine.synth.synthesize import synthesize
def peak():  # of this program alone: ru_maxrss begins with what the parent had
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
before = peak()
done = synthesize(Path(sys.argv[1]), SHAPES["smollm2-135m"].config(num_layers=1), kind="F16")
print(done.file_bytes, peak() - before)
"""


def test_one_digest_on_every_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole, pieces = tmp_path / "whole.vqf", tmp_path / "pieces.vqf"
    done = synthesize(whole, SHAPE.config(), seed=7)
    assert done.model_digest.hex() == GOLDEN
    monkeypatch.setattr(weights, "PIECE_BYTES", 1)
    synthesize(pieces, SHAPE.config(), seed=7)
    assert pieces.read_bytes() == whole.read_bytes()
    with open_vqf(whole) as file:
        assert file.model_digest == done.model_digest


def test_a_deeper_model_begins_like_a_shallow_one(tmp_path: Path):
    contents = []
    for num_layers in (1, 3):
        path = tmp_path / f"{num_layers}.vqf"
        synthesize(path, SHAPE.config(num_layers=num_layers))
        with open_vqf(path) as file:
            contents.append({e.name: e.root for e in file.manifest.extents})
    shallow, deep = contents
    assert shallow.items() <= deep.items()
    assert len({*deep.values()}) == len(deep)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_every_kind_answers(tmp_path: Path, kind: str):
    path = tmp_path / "model.vqf"
    synthesize(path, SHAPE.config(), kind=kind)
    with Model(path, policy=DEV, **SMALL_ENGINE) as model:
        ids = model.chat_ids([{"role": "user", "content": "babe?"}], now_unix_s=0)[:16]
        cache = model.engine.new_cache()
        step = model.engine.step([Piece(cache, np.array(ids, np.int32), len(ids))])
        cache.release()
        assert np.isfinite(step.logits).all()
        assert 1 < step.logits.std() < 4
        # No token stands out whatever was said.
        assert np.unique(step.logits.argmax(axis=1)).size > len(set(ids)) // 2
        request = Request(tuple(ids), 6, SamplingParameters(temperature_millionths=0))
        first, second = generate(model, request), generate(model, request)
    assert first.token_ids == second.token_ids
    assert first.text


@pytest.mark.parametrize(
    "config",
    [
        SHAPES["smollm2-135m"].config(num_layers=1),
        replace(SHAPE, architecture="qwen2").config(),
    ],
    ids=["llama, tied", "qwen2"],
)
def test_other_architectures_answer(tmp_path: Path, config: ModelConfig):
    path = tmp_path / "model.vqf"
    synthesize(path, config)
    with Model(path, policy=DEV, **SMALL_ENGINE) as model:
        request = Request((40, 41), 4, SamplingParameters(temperature_millionths=0))
        assert len(set(generate(model, request).token_ids)) > 1


def test_memory_does_not_hold_the_model(tmp_path: Path):
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path / "m.vqf")],
        capture_output=True,
        check=True,
        cwd=CHECKOUT,
    )
    file_bytes, grown_bytes = map(int, run.stdout.split())
    assert file_bytes > 60 * MIB
    assert grown_bytes < 56 * MIB


def test_a_target_that_exists(tmp_path: Path):
    path = tmp_path / "m.vqf"
    path.write_bytes(b"precious")
    with pytest.raises(WriteError, match="exists"):
        synthesize(path, SHAPE.config())
    assert path.read_bytes() == b"precious"
    synthesize(path, SHAPE.config(), force=True)
    with open_vqf(path) as file:
        assert file.manifest.config == SHAPE.config()


def test_nothing_is_left_of_a_model_that_was_not_finished(tmp_path: Path):
    def interrupt(done: int, total: int) -> None:
        if done * 2 > total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        synthesize(tmp_path / "m.vqf", SHAPE.config(), progress=interrupt)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "Q9"}, "no kind 'Q9'"),
        ({"seed": -1}, "seed must be in"),
        ({"seed": 1 << 64}, "seed must be in"),
    ],
)
def test_requests_that_make_no_sense(tmp_path: Path, settings: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        synthesize(tmp_path / "m.vqf", SHAPE.config(), **settings)
    assert not [*tmp_path.iterdir()]


def test_columns_that_a_kind_cannot_have(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"tensor embedding: .* columns come in 256"):
        synthesize(tmp_path / "m.vqf", SHAPES["smollm2-135m"].config(), kind="Q4_K")
