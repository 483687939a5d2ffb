"""The copy of a site has the same weights and keys, and writes nothing of the site."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from appliance.bench.pressure.site import LIMITS, SERVED_KEYS, copy_site
from appliance.log.files import LogFiles
from appliance.service.key_file import read_keys
from appliance.service.settings import Settings
from engine.errors import ConfigError
from tests.appliance.service.site import Site

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, tiny_file: Path) -> Site:
    """A site, whose configuration has relative paths."""
    return Site(tmp_path_factory.mktemp("site"), tiny_file)


def contents(folder: Path) -> dict[str, str]:
    """Return the digest of every file."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_copy(site: Site, tmp_path: Path) -> None:
    before = contents(site.folder)
    made = copy_site(site.path("appliance.toml"), tmp_path / "copy", context_tokens=512)
    ours, theirs = Settings.read(made.config), Settings.read(site.path("appliance.toml"))
    assert ours.model.file == theirs.model.file.resolve()
    assert ours.attest.key == theirs.attest.key.resolve()
    assert ours.attest.issuer == theirs.attest.issuer
    assert ours.model.context_tokens == 512
    assert {name: getattr(ours.limits, name) for name in LIMITS} == LIMITS
    folder = tmp_path / "copy"
    assert ours.attest.log == made.log == folder / "log"
    assert ours.model.floors == folder / "floors"
    assert ours.log.file == folder / "access.jsonl"
    assert LogFiles(made.log).log_id != LogFiles(theirs.attest.log).log_id
    assert contents(site.folder) == before
    keys = read_keys(ours.auth.keys)
    assert [entry.name for entry in keys] == [*SERVED_KEYS, "operator"]
    assert len({entry.principal for entry in keys}) == len(keys)
    assert [entry.shared for entry in keys] == [name == "shared" for name in SERVED_KEYS] + [False]
    assert "status" in keys[-1].scopes
    assert all("status" not in entry.scopes for entry in keys[:-1])


def test_a_copy_is_not_replaced(site: Site, tmp_path: Path) -> None:
    copy_site(site.path("appliance.toml"), tmp_path, context_tokens=0)
    with pytest.raises(ConfigError, match="is not empty"):
        copy_site(site.path("appliance.toml"), tmp_path, context_tokens=0)
