"""A whole weight file small enough for every test to have its own, and a place to work on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.appliance.cli.workshop import Workshop, write_weights

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep floors that no option names out of the home of whoever runs the tests."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    return folder


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Return a plain VQF file."""
    path = tmp_path / "tiny.vqf"
    write_weights(path)
    return path


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """Return a workshop with a key `vendor` that signs, and `appliance` that opens."""
    shop = Workshop(tmp_path)
    shop.key("vendor", "weights")
    shop.key("appliance", "unseal")
    return shop
