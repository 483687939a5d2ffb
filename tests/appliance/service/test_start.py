"""What keeps a service from starting: each in one line, before anything was promised."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from appliance.cli.errors import describe
from appliance.log.anchor import FileAnchor
from appliance.log.log import Log
from crypto.floors import FloorStore
from crypto.keys import load_private_key
from crypto.signer import SoftwareSigner
from tests.appliance.service.site import Site, windhover

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, tiny_file: Path) -> Path:
    """A folder that a service could start from."""
    return Site(tmp_path_factory.mktemp("site"), tiny_file).folder


@pytest.fixture
def site(tmp_path: Path, template: Path) -> Site:
    """A copy of it for each test."""
    shutil.copytree(template, tmp_path / "site")
    made = Site.__new__(Site)
    made.folder = tmp_path / "site"
    return made


def other_unseal_key(site: Site) -> None:
    for name in ("unseal.pem", "unseal.pub.pem"):
        site.path(name).unlink()
    windhover("keygen", site.path("unseal.pem"), "--role", "unseal", "--no-passphrase")


def altered_weights(site: Site) -> None:
    content = bytearray(site.path("model.vqf").read_bytes())
    content[-100] ^= 1
    site.path("model.vqf").write_bytes(content)


def no_attest_key(site: Site) -> None:
    site.path("attest.pem").unlink()


def no_log(site: Site) -> None:
    shutil.rmtree(site.path("log"))


def no_anchor(site: Site) -> None:
    use_log(site)  # it has more than its first entry then
    site.path("anchor").unlink()


def other_anchor(site: Site) -> None:
    site.new_log("other", "anchor2")
    site.path("anchor2").replace(site.path("anchor"))


def other_attest_key(site: Site) -> None:
    for name in ("attest.pem", "attest.pub.pem"):
        site.path(name).unlink()
    windhover("keygen", site.path("attest.pem"), "--role", "attest", "--no-passphrase")


def no_floors(site: Site) -> None:
    use_log(site)


def lower_floors(site: Site) -> None:
    anchor = FileAnchor(site.path("anchor"))
    store = FloorStore(site.path("floors"), create=True)
    seen = anchor.read()
    assert seen is not None
    store.raise_to("tiny", 9)
    anchor.write(replace(seen, floors=store.read()))
    site.path("floors").unlink()
    FloorStore(site.path("floors"), create=True).raise_to("tiny", 2)


def no_api_keys(site: Site) -> None:
    site.path("keys.json").unlink()


def other_issuer(site: Site) -> None:
    site.configure(old='"an appliance"', new='"another"')


def no_weights(site: Site) -> None:
    site.path("model.vqf").unlink()


def old_release(site: Site) -> None:
    FloorStore(site.path("floors"), create=True).raise_to("tiny", 3)


def use_log(site: Site) -> None:
    """Open and close the log, as a start that went well does."""
    key = load_private_key(site.path("attest.pem"), passphrase=None, role="attest")
    anchor = FileAnchor(site.path("anchor"))
    Log(site.path("log"), signer=SoftwareSigner(key), issuer="an appliance", anchor=anchor).close()


@pytest.mark.parametrize(
    ("break_it", "code", "exit_code", "words"),
    [
        (other_unseal_key, "recipient", 2, "the file is not sealed for this key"),
        (altered_weights, "WeightsError", 1, "model.vqf"),
        (no_weights, "FileNotFoundError", 2, "model.vqf: No such file"),
        (no_attest_key, "missing", 2, "attest.pem"),
        (other_attest_key, "unknown-key", 1, "signed by a key that was not named"),
        (no_log, "ConfigError", 2, "there is no log; `windhover log new"),
        (no_anchor, "anchor-missing", 1, "there is no anchor for this log"),
        (other_anchor, "other-log", 1, "the anchor is that of another log"),
        (no_floors, "floors-missing", 1, "find out who removed it"),
        (lower_floors, "floors-rolled-back", 1, "an older copy was put back"),
        (old_release, "release-too-old", 1, "model.vqf"),
        (no_api_keys, "ConfigError", 2, "windhover apikey new"),
        (other_issuer, "ConfigError", 2, "attest.issuer: the log is that of 'an appliance'"),
    ],
)
def test_a_start_that_fails_says_why_in_one_line(
    site: Site, break_it: Callable[[Site], None], code: str, exit_code: int, words: str
) -> None:
    break_it(site)
    size = site.path("log").is_dir() and sum(p.stat().st_size for p in site.path("log").iterdir())
    start = site.start()
    assert start.failure is not None
    failure = describe(start.failure)
    assert words in failure.message
    assert "\n" not in failure.message
    assert failure.exit_code == exit_code
    (reason,) = start.service.state.reasons
    assert (start.service.state.phase, reason.code) == ("failed", code)
    assert reason.message == failure.message
    # nothing was written into the log, and nothing answers
    assert start.service.attestor is None
    if site.path("log").is_dir():
        assert sum(p.stat().st_size for p in site.path("log").iterdir()) == size
