"""Models that the tests of generation share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.admission import DEV
from engine.convert.convert import convert
from engine.forward import Engine
from engine.model import Model
from engine.reference.decoder import ReferenceModel
from tests.engine.convert.support import tiny_folder
from tests.engine.kernels.models import MemoryWeights, random_weights
from tests.engine.support import CONFIG, KINDS, MAX_BLOCKS, MAX_POSITIONS, Definition


@pytest.fixture(scope="session")
def definition() -> Definition:
    """The definition over the small model's weights."""
    return Definition(ReferenceModel(CONFIG, random_weights(CONFIG, KINDS)))


@pytest.fixture(scope="session")
def small_weights() -> MemoryWeights:
    """The small model's weights as kernels read them."""
    return MemoryWeights(CONFIG, random_weights(CONFIG, KINDS))


@pytest.fixture(scope="session")
def shared_engine(small_weights: MemoryWeights) -> Iterator[Engine]:
    """The small model on two threads."""
    engine = Engine(
        small_weights,
        num_threads=2,
        max_rows=48,
        max_outputs=8,
        max_positions=MAX_POSITIONS,
        max_blocks=MAX_BLOCKS,
    )
    yield engine
    engine.close()


@pytest.fixture
def engine(shared_engine: Engine) -> Iterator[Engine]:
    """The same, for a test that gives back every cache block that it took."""
    assert shared_engine.blocks.num_free == MAX_BLOCKS
    yield shared_engine
    assert shared_engine.blocks.num_free == MAX_BLOCKS


@pytest.fixture(scope="session")
def tiny_vqf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny Qwen2 checkpoint with a tokenizer of 419 tokens and a chat template, as VQF."""
    folder = tmp_path_factory.mktemp("tiny")
    convert(tiny_folder(folder / "qwen2_tiny", "qwen2_tiny"), folder / "tiny.vqf")
    return folder / "tiny.vqf"


@pytest.fixture(scope="session")
def _model(tiny_vqf: Path) -> Iterator[Model]:
    with Model(tiny_vqf, policy=DEV, num_threads=2, max_positions=512, max_rows=64) as model:
        yield model


@pytest.fixture
def model(_model: Model) -> Iterator[Model]:
    """The tiny checkpoint, ready to answer; a test gives back every cache block that it took."""
    assert _model.engine.blocks.num_free == _model.engine.blocks.max_blocks
    yield _model
    assert _model.engine.blocks.num_free == _model.engine.blocks.max_blocks
