"""What mode production insists on before it serves; each refusal is one line that helps."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.appliance.failures.running import configure_production, make_site, refusal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appliance.service.site import Site

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, tiny_file: Path, prepared_kernels: Path) -> Site:
    made = make_site(tmp_path_factory.mktemp("site"), tiny_file)
    configure_production(made, prepared_kernels)
    return made


@pytest.mark.ci
def test_kernels_that_are_not_complete_or_could_be_written(
    site: Site, prepared_kernels: Path, tmp_path: Path
) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(prepared_kernels, kernels)
    configure_production(site, kernels)
    for path in (kernels, *kernels.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    exit_code, line = refusal(site)
    assert exit_code == 2
    assert "this process could write it" in line
    assert "take the write bits away" in line
    next(kernels.rglob("pool._run-*.nbi")).unlink()
    for path in (*kernels.rglob("*"), kernels):
        path.chmod(path.stat().st_mode & ~0o222)
    exit_code, line = refusal(site)
    for path in (kernels, *kernels.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    assert exit_code == 2
    assert "is not among the prepared kernels" in line
    assert "`windhover compile-cache DIR` prepares a folder anew" in line
    shutil.rmtree(kernels)
    exit_code, line = refusal(site)
    assert exit_code == 2
    assert line == (
        f"{kernels}: there are no prepared kernels; `windhover compile-cache DIR` prepares a folder"
    )
    configure_production(site, prepared_kernels)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("attest.pem", "attest.pem"),
        ("unseal.pem", "unseal.pem"),
        ("keys.json", "keys.json"),
        ("anchor", "anchor"),
    ],
)
def test_files_that_others_could_read_or_change(site: Site, name: str, words: str) -> None:
    path = site.path(name)
    path.chmod(0o660)
    try:
        exit_code, line = refusal(site)
    finally:
        path.chmod(0o600)
    assert exit_code in (1, 2)
    assert words in line
    assert "chmod 600" in line


def test_files_of_another_user(site: Site) -> None:
    for name in ("attest.pem", "keys.json"):
        path = site.path(name)
        try:
            os.chown(path, 12345, -1)
        except OSError as error:
            pytest.skip(f"a file cannot be given to another user here: {error.strerror}")
        try:
            exit_code, line = refusal(site)
        finally:
            os.chown(path, os.getuid(), -1)
        assert exit_code == 2
        assert str(path) in line


def test_what_mode_dev_allows_is_refused(site: Site, prepared_kernels: Path) -> None:
    for words in ("allow_unsigned = true", "allow_unlocked = true"):
        with site.path("appliance.toml").open("a") as stream:
            stream.write(f"[dev]\n{words}\n")
        exit_code, line = refusal(site)
        configure_production(site, prepared_kernels)
        assert exit_code == 2
        assert "only mode dev leaves anything out" in line


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('role = "weights"', 'role = "weights"\nnot_after = "2020-01-01T00:00:00Z"', "has expired"),
        (
            'role = "weights"',
            'role = "weights"\nnot_before = "2999-01-01T00:00:00Z"',
            "not valid yet",
        ),
        ("[lines.tiny]", "[lines.tiny]\nminimum_release = 3", "release 2 of line tiny is below 3"),
    ],
)
def test_weights_that_nobody_vouches_for_any_more(
    site: Site, old: str, new: str, words: str
) -> None:
    trust = site.path("trust.toml")
    before = trust.read_text()
    assert before.count(old) == 1
    trust.write_text(before.replace(old, new))
    try:
        exit_code, line = refusal(site)
    finally:
        trust.write_text(before)
    assert exit_code == 1
    assert line.startswith(str(site.path("model.vqf")))
    assert words in line
