"""Single units give the states of the whole model, in steps of any size, from few bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.audit import execute
from engine.audit.answered import Answered
from engine.audit.execute import run_choices, run_embedding, run_layer
from engine.audit.replay import replay
from engine.audit.unit_weights import PartReader
from engine.convert.convert import convert
from engine.errors import NonFiniteError, WeightsError
from engine.forward import Engine
from engine.memory.full import FullWeights
from engine.sampling.parameters import SamplingParameters
from engine.vqf import VqfFile, open_vqf
from tests.engine.convert.support import tiny_folder
from tests.engine.kernels.models import random_ids

FAMILIES = ("llama_tiny", "qwen2_tiny", "qwen3_tiny")
SAMPLING = SamplingParameters(seed=4, temperature_millionths=900_000)


@pytest.fixture(scope="module", params=FAMILIES)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """A small model of each family."""
    folder = tmp_path_factory.mktemp(request.param)
    convert(tiny_folder(folder / request.param, request.param), folder / "w.vqf")
    with open_vqf(folder / "w.vqf") as file:
        yield file


@pytest.fixture(scope="module")
def whole(file: VqfFile) -> tuple[Answered, np.ndarray, tuple[int, ...]]:
    """An answer of any ids, all its states, and what follows from each."""
    ids = tuple(random_ids(file.manifest.config, 90))
    answered = Answered(ids[:40], ids[40:], SAMPLING)
    columns: list[np.ndarray] = []
    with closing(Engine(FullWeights(file), num_threads=2, max_positions=128)) as engine:
        found = replay(engine, answered, observe=lambda _f, states, _l: columns.append(states))
    return answered, np.concatenate(columns, axis=1), found.choices


@pytest.mark.parametrize("rows", [512, 16, 1])
def test_units_give_the_states_of_the_model(
    file: VqfFile, whole, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "_MAX_ROWS", rows)
    monkeypatch.setattr(execute, "_MAX_LOGIT_ROWS", min(rows, 7))
    answered, states, choices = whole
    reader = PartReader(file)
    for layer in range(1, len(states)):
        weights = reader.layer(layer)
        for t in (0, 1, 63, 88):
            below = states[layer - 1, : t + 1]
            found = run_layer(weights, below, num_threads=1)
            assert found.tobytes() == states[layer, t].tobytes()
    at = [88, 0, 40, 40]
    embedded = run_embedding(reader.embedding(), [answered.ids[t] for t in at], num_threads=1)
    assert embedded.tobytes() == states[0, at].tobytes()
    places = list(range(39, 89))
    drawn = run_choices(reader.head(), states[-1, places], places, answered, num_threads=1)
    assert tuple(drawn) == choices


def test_bytes_read_are_those_of_the_extents(file: VqfFile) -> None:
    sizes = {extent.name: extent.size_bytes for extent in file.manifest.extents}
    head = ["final", "embedding"] if file.manifest.config.tied_embeddings else ["final"]
    for read, names in (
        (lambda reader: reader.layer(2), ["layers.1"]),
        (lambda reader: reader.embedding(), ["embedding"]),
        (lambda reader: reader.head(), head),
    ):
        reader = PartReader(file)
        read(reader)
        assert reader.bytes_read == sum(sizes[name] for name in names)


def test_a_changed_state_changes_the_result(file: VqfFile, whole) -> None:
    _, states, _ = whole
    below = states[0, :20].copy()
    below[7, 3] += np.float32(0.25)
    layer = PartReader(file).layer(1)
    assert run_layer(layer, below, num_threads=1).tobytes() != states[1, 19].tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_states_that_are_not_finite_are_refused(file: VqfFile, whole, value: float) -> None:
    answered, states, _ = whole
    below = states[0, :20].copy()
    below[7, 3] = value
    reader = PartReader(file)
    with pytest.raises(NonFiniteError):
        run_layer(reader.layer(1), below, num_threads=1)
    last = states[-1, 39:41].copy()
    last[0, 0] = value
    with pytest.raises(NonFiniteError):
        run_choices(reader.head(), last, [39, 40], answered, num_threads=1)


def test_a_damaged_layer_is_not_used(file: VqfFile, tmp_path: Path) -> None:
    extent = file.extent("layers.1")
    data = bytearray(file.path.read_bytes())
    data[file.preamble.data_offset + extent.offset_bytes + 5] ^= 1
    damaged = tmp_path / "damaged.vqf"
    damaged.write_bytes(data)
    with open_vqf(damaged) as other, pytest.raises(WeightsError):
        PartReader(other).layer(2)
