"""Files that no test of residency changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.memory.residency import Residency
from tests.engine.memory import wide


@pytest.fixture(scope="session")
def untied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with plain.vqf, signed.vqf and sealed.vqf; the head is a matrix of its own."""
    return wide.write_all(tmp_path_factory.mktemp("untied"), wide.CONFIG)


@pytest.fixture(scope="session")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the embedding for a head."""
    folder = tmp_path_factory.mktemp("tied")
    return wide.write_all(folder, replace(wide.CONFIG, tied_embeddings=True))


@pytest.fixture(scope="session")
def wanted(untied: Path, tied: Path) -> dict[Path, wide.Computed]:
    """What both give when all weights are in memory."""
    found = {}
    for folder in (untied, tied):
        engine = wide.engine_of(folder / "plain.vqf", Residency())
        found[folder] = wide.compute(engine)
        engine.close()
    return found


@pytest.fixture(params=["untied", "tied"])
def folder(request: pytest.FixtureRequest) -> Path:
    """Each of the two."""
    found: Path = request.getfixturevalue(request.param)
    return found
