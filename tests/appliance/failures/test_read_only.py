"""Disks that take nothing: read-only before the start or under the service, and broken ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.appliance.cli.test_serve import DEV
from tests.appliance.failures.running import (
    LOG_AND_ANCHOR,
    assert_closed,
    log_is_whole,
    make_site,
    reasons,
    refusal,
    running,
)
from tests.appliance.failures.volume import ext4, tmpfs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appliance.service.site import Site

pytestmark = [pytest.mark.slow]

VOLUME_BYTES = 8 << 20
STOPPED = {"log": "the log cannot be written: failed"}


@pytest.fixture
def site(tmp_path: Path, tiny_file: Path) -> Site:
    return make_site(tmp_path, tiny_file)


def test_a_log_that_is_read_only_at_the_start(site: Site, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "volume", VOLUME_BYTES) as volume:
        log = volume.folder / "log"
        site.new_log(str(log), "other-anchor")
        site.configure(DEV, old=LOG_AND_ANCHOR, new=f'log = "{log}"\nanchor = "other-anchor"')
        volume.allow_writing(False)
        exit_code, line = refusal(site)
        assert exit_code == 2
        assert line == f"{log}/lock cannot be made: Read-only file system"
        volume.allow_writing(True)
        with running(site) as service:
            assert service.ask().status_code == 200
        log_is_whole(site, log, site.path("other-anchor"))


@pytest.mark.ci
def test_an_anchor_that_becomes_read_only_stops_the_log(site: Site, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "volume", VOLUME_BYTES) as volume:
        anchor = volume.folder / "anchor"
        site.new_log("other", str(anchor))
        site.configure(DEV, old=LOG_AND_ANCHOR, new=f'log = "other"\nanchor = "{anchor}"')
        with running(site) as service:
            volume.allow_writing(False)
            said = service.ask().json()["attestation"]
            assert reasons(service.wait_for(503)) == STOPPED
            for _ in range(3):
                assert_closed(service.ask())
            status = service.status()
            assert status["ready"] is False
            assert status["log"]["state"] == "failed"
            cause = f"{anchor} cannot be written: Read-only file system"
            assert status["log"]["failure"] == cause
            # what was answered before is there
            found = service.get(f"/v1/attestations/{said['id']}").json()
            assert found["statement"] == said["statement"]
            # and it goes on being closed when there is room again: what is not known is not trusted
            volume.allow_writing(True)
            assert_closed(service.ask())
            assert service.end()[0] == 0
        with running(site) as service:
            assert service.ask().status_code == 200
            found = service.get(f"/v1/attestations/{said['id']}").json()
            assert found["statement"] == said["statement"]
        log_is_whole(site, site.path("other"), anchor)


def test_a_disk_that_breaks_under_the_log(site: Site, tmp_path: Path) -> None:
    with ext4(tmp_path / "volume", VOLUME_BYTES) as volume:
        log = volume.folder / "log"
        site.new_log(str(log), "other-anchor")
        site.configure(DEV, old=LOG_AND_ANCHOR, new=f'log = "{log}"\nanchor = "other-anchor"')
        with running(site) as service:
            said = service.ask().json()["attestation"]
            volume.shut_down()
            response = service.ask()
            assert response.status_code in (500, 503)
            assert response.json().keys() == {"error"}
            assert reasons(service.wait_for(503))
            for _ in range(3):
                assert_closed(service.ask())
            assert service.get("/health").status_code == 200
            service.end()
        exit_code, line = refusal(site)
        assert exit_code in (2, 3)
        assert str(log) in line
        volume.mount_again()
        with running(site) as service:
            assert service.ask().status_code == 200
            found = service.get(f"/v1/attestations/{said['id']}").json()
            assert found["statement"] == said["statement"]
        assert log_is_whole(site, log, site.path("other-anchor"))["open_admissions"] == 0
