"""A second quantisation of the tiny model, and files of bundles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.admission import DEV
from engine.convert.convert import convert
from engine.model import Model
from tests.engine.convert.support import tiny_folder


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """The weights of the tiny model in four bits."""
    folder = tmp_path_factory.mktemp("other")
    convert(tiny_folder(folder / "qwen2_tiny", "qwen2_tiny"), folder / "q4.vqf", quant="q4")
    with Model(folder / "q4.vqf", policy=DEV, num_threads=1, max_positions=512) as model:
        yield model


@pytest.fixture
def bundle_file(tmp_path: Path) -> Path:
    """Where a test writes its bundle."""
    return tmp_path / "answer.bundle"
