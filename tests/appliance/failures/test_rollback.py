"""Older copies that were put back: a start refuses them, and says what to do."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.appliance.cli.test_serve import DEV
from tests.appliance.failures.running import log_is_whole, make_site, refusal, running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appliance.service.site import Site

pytestmark = [pytest.mark.slow]

NEW_LOG = "or begin a new log with `windhover log new`, whose id says so to everybody"


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory, tiny_file: Path) -> tuple[Site, str]:
    """A site whose service has answered, copies of everything from before, and what was said."""
    site = make_site(tmp_path_factory.mktemp("site"), tiny_file)
    with running(site) as service:
        service.ask()
    for name in ("log", "anchor", "floors"):
        copy(site, name, f"old-{name}")
    with running(site) as service:
        said: str = service.ask().json()["attestation"]["id"]
    for name in ("log", "anchor", "floors"):
        copy(site, name, f"new-{name}")
    return site, said


@pytest.fixture
def site(used: tuple[Site, str]) -> Site:
    """The same, as it was in the end."""
    for name in ("log", "anchor", "floors"):
        copy(used[0], f"new-{name}", name)
    return used[0]


def copy(site: Site, source: str, target: str) -> None:
    """Put something in the place of something."""
    shutil.rmtree(site.path(target), ignore_errors=True)
    site.path(target).unlink(missing_ok=True)
    if site.path(source).is_dir():
        shutil.copytree(site.path(source), site.path(target))
    else:
        shutil.copy2(site.path(source), site.path(target))


def entries(site: Site) -> int:
    """Return the number of entries of the log."""
    number: int = log_is_whole(site)["entries"]
    return number


@pytest.mark.ci
def test_an_older_log_beside_the_anchor(site: Site) -> None:
    newest = entries(site)
    copy(site, "old-log", "log")
    before = {path: path.read_bytes() for path in site.path("log").iterdir()}
    for words in ((), ("--check",)):
        exit_code, line = refusal(site, *words)
        assert exit_code == 1
        assert f"the anchor has seen {newest} entries, here are " in line
        assert "restore the newer one" in line
        assert NEW_LOG in line
    assert {path: path.read_bytes() for path in site.path("log").iterdir()} == before
    # what the line says helps
    copy(site, "new-log", "log")
    with running(site) as service:
        assert service.ask().status_code == 200


def test_an_older_anchor_beside_the_log_is_one_that_had_no_time_to_follow(
    site: Site, used: tuple[Site, str]
) -> None:
    copy(site, "old-anchor", "anchor")
    with running(site) as service:
        assert service.get(f"/v1/attestations/{used[1]}").status_code == 200
    newest = site.path("anchor").read_bytes()
    assert newest != site.path("old-anchor").read_bytes()
    log_is_whole(site)


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ("anchor", f"there is no anchor for this log: put it back, {NEW_LOG}"),
        ("log", "there is no log; `windhover log new"),
        ("floors", "find out who removed it and put it back"),
    ],
)
def test_a_part_that_is_gone(site: Site, lost: str, words: str) -> None:
    site.path(lost).rename(site.path("away"))
    exit_code, line = refusal_in_production(site)
    shutil.rmtree(site.path("away"), ignore_errors=True)
    site.path("away").unlink(missing_ok=True)
    assert exit_code in (1, 2)
    assert words in line


def test_a_log_of_another_history(site: Site) -> None:
    copy(site, "old-log", "log")
    copy(site, "old-anchor", "anchor")
    with running(site) as service:
        for _ in range(3):
            service.ask()
    copy(site, "new-anchor", "anchor")
    exit_code, line = refusal(site)
    assert exit_code == 1
    assert "log and anchor are of two histories" in line
    assert NEW_LOG in line


def test_the_anchor_of_another_log(site: Site) -> None:
    site.new_log("another", "another-anchor")
    copy(site, "another-anchor", "anchor")
    exit_code, line = refusal(site)
    assert exit_code == 1
    assert "the anchor is that of another log: name the one that belongs to this log" in line


def refusal_in_production(site: Site) -> tuple[int, str]:
    """Look at a site in mode production, which has nothing to compile for that."""
    site.configure()
    try:
        return refusal(site, "--check")
    finally:
        site.configure(DEV)
