"""One conversion of the real model for all tests that use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.admission import DEV
from engine.convert.convert import convert
from engine.model import Model
from tests.engine.golden.smollm2 import find_gguf


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct, imported from its GGUF file."""
    path = tmp_path_factory.mktemp("smollm2") / "smollm2.vqf"
    convert(find_gguf(), path)
    return path


@pytest.fixture(scope="session")
def exact(smollm2: Path) -> Iterator[Model]:
    """The model as it is served, profile wh1."""
    with Model(smollm2, policy=DEV, num_threads=2, max_positions=512) as model:
        yield model


@pytest.fixture(scope="session")
def floating(smollm2: Path) -> Iterator[Model]:
    """The same weights in profile wh1-float."""
    with Model(smollm2, policy=DEV, num_threads=2, max_positions=512, float_profile=True) as model:
        yield model
