"""Keys that go away, a clock that is behind, a second process: said, and nothing is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appliance.log.anchor import FileAnchor
from appliance.log.clock import now_ms
from appliance.log.create import create_log
from crypto.keys import load_private_key
from crypto.signer import SoftwareSigner
from tests.appliance.cli.test_serve import DEV
from tests.appliance.failures.running import (
    LOG_AND_ANCHOR,
    assert_closed,
    make_site,
    reasons,
    refusal,
    running,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appliance.service.site import Site

pytestmark = [pytest.mark.slow]

HOUR_MS = 3_600_000


@pytest.fixture
def site(tmp_path: Path, tiny_file: Path) -> Site:
    return make_site(tmp_path, tiny_file)


@pytest.mark.ci
def test_a_key_file_that_goes_away_and_comes_back(site: Site) -> None:
    with running(site) as service:
        assert service.ask().status_code == 200
        site.path("keys.json").rename(site.path("away.json"))
        assert reasons(service.wait_for(503)) == {"keys": "the file of API keys cannot be used"}
        assert_closed(service.ask())
        assert service.get("/health").status_code == 200
        site.path("away.json").rename(site.path("keys.json"))
        service.wait_for(200)
        assert service.ask().status_code == 200


@pytest.mark.ci
def test_a_clock_behind_the_log_is_not_ready(site: Site) -> None:
    key = load_private_key(site.path("attest.pem"), passphrase=None, role="attest")
    create_log(
        site.path("later"),
        signer=SoftwareSigner(key),
        issuer="an appliance",
        anchor=FileAnchor(site.path("later-anchor")),
        clock=lambda: now_ms() + HOUR_MS,
    )
    site.configure(DEV, old=LOG_AND_ANCHOR, new='log = "later"\nanchor = "later-anchor"')
    with running(site) as service:
        behind = {"log": "the log cannot be written: clock"}
        assert reasons(service.wait_for(503)) == behind
        assert reasons(service.status()) == behind
        assert_closed(service.ask())
        assert service.get("/health").status_code == 200


def test_a_second_service_does_not_write_the_same_log(site: Site) -> None:
    with running(site) as service:
        exit_code, line = refusal(site)
        assert exit_code == 3
        assert line == f"another process writes the log in {site.path('log')}"
        assert service.ask().status_code == 200
