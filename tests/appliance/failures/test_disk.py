"""Disks that are full: nothing is answered meanwhile, and it goes on where there is room again."""

from __future__ import annotations

import json
import resource
import shutil
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from appliance.service.kernel_cache import prepare
from crypto.errors import UnavailableError
from tests.appliance.cli.test_serve import DEV
from tests.appliance.failures.running import (
    LOG_AND_ANCHOR,
    Running,
    assert_closed,
    log_is_whole,
    make_site,
    reasons,
    refusal,
    running,
)
from tests.appliance.failures.volume import Volume, tmpfs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.appliance.service.site import Site

pytestmark = [pytest.mark.slow]

VOLUME_BYTES = 8 << 20
FULL = {"log": "the log cannot be written: the disk is full"}


@pytest.fixture
def site(tmp_path: Path, tiny_file: Path) -> Site:
    return make_site(tmp_path, tiny_file)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    with tmpfs(tmp_path / "volume", VOLUME_BYTES) as made:
        yield made


def move(site: Site, old: str, new: str) -> None:
    """Change a line of the configuration."""
    site.configure(DEV, old=old, new=new)


class Clients:
    """Clients that ask one question after the other, and keep what they got."""

    def __init__(self, service: Running) -> None:
        self.service = service
        self.whole: list[dict[str, Any]] = []
        self.refused: list[httpx.Response] = []
        self.streams: list[list[str]] = []
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=call) for call in (self._ask, self._ask, self._stream)
        ]

    @contextmanager
    def asking(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()

    def _ask(self) -> None:
        while not self._over.is_set():
            response = self.service.ask()
            if response.status_code == 200:
                self.whole.append(response.json()["attestation"])
            else:
                self.refused.append(response)

    def _stream(self) -> None:
        while not self._over.is_set():
            self.streams.append(list(self.service.events(max_tokens=40)))


def test_a_limit_on_file_sizes_answers_nothing_and_goes_on_when_it_is_lifted(site: Site) -> None:
    with running(site) as service:
        assert service.ask().status_code == 200
        size = max(path.stat().st_size for path in site.path("log").rglob("*") if path.is_file())
        pid = service.process.pid
        old = resource.prlimit(pid, resource.RLIMIT_FSIZE, (min(size, 512), -1))
        for _ in range(3):
            assert_closed(service.ask())
        assert reasons(service.wait_for(503)) == FULL
        assert service.get("/health").status_code == 200
        resource.prlimit(pid, resource.RLIMIT_FSIZE, old)
        assert service.ask().status_code == 200
    log_is_whole(site)


@pytest.mark.ci
def test_a_disk_that_fills_up_under_clients(site: Site, volume: Volume) -> None:
    log, anchor = volume.folder / "log", volume.folder / "anchor"
    site.new_log(str(log), str(anchor))
    move(site, LOG_AND_ANCHOR, f'log = "{log}"\nanchor = "{anchor}"')
    with running(site) as service:
        clients = Clients(service)
        with clients.asking():
            while not (clients.whole and clients.streams):
                time.sleep(0.01)
            volume.fill()
            why = service.wait_for(503)
            assert reasons(why) == FULL
            assert reasons(service.status()) == FULL
            assert service.get("/health").status_code == 200
        for response in [*clients.refused, service.ask()]:
            assert_closed(response)
        volume.free()
        service.wait_for(200)
        assert service.ask().status_code == 200
        for said in clients.whole:
            found = service.get(f"/v1/attestations/{said['id']}").json()
            assert found["statement"] == said["statement"]
        for events in clients.streams:
            assert is_attested_or_refused(service, events), events
        assert service.end()[0] == 0
    assert log_is_whole(site, log, anchor)["open_admissions"] == 0


def is_attested_or_refused(service: Running, events: list[str]) -> bool:
    """Whether a stream ended with its statement, or as an error that has one, or never began."""
    first = json.loads(events[0])
    if "announced" not in first:
        return bool(first["error"]["code"] == "not_ready") and len(events) == 1
    found = service.get(f"/v1/attestations/{first['announced']}").json()
    if events[-1] == "[DONE]":
        said = json.loads(events[-2])
        return bool(said["attestation"]["statement"] == found["statement"])
    return "error" in json.loads(events[-1]) and bool(found["statement"])


def test_a_disk_that_is_full_before_the_start(site: Site, volume: Volume) -> None:
    log, anchor = volume.folder / "log", volume.folder / "anchor"
    site.new_log(str(log), str(anchor))
    move(site, LOG_AND_ANCHOR, f'log = "{log}"\nanchor = "{anchor}"')
    volume.fill()
    exit_code, line = refusal(site)
    assert exit_code == 3
    # room for a checkpoint may be left in the last block of the log
    full = f"{log}: no room can be reserved: the disk is full"
    unanchored = f"there is no room for the anchor: {anchor} cannot be written: No space left"
    assert line.startswith((full, unanchored))
    log_is_whole(site, log, anchor)
    volume.free()
    with running(site) as service:
        assert service.ask().status_code == 200
    log_is_whole(site, log, anchor)


def test_an_anchor_and_an_access_log_without_room(site: Site, volume: Volume) -> None:
    anchor, access = volume.folder / "anchor", volume.folder / "access.jsonl"
    site.path("anchor").rename(site.path("moved"))
    shutil.copyfile(site.path("moved"), anchor)
    anchor.chmod(0o600)
    text = site.configure(DEV, old='anchor = "anchor"', new=f'anchor = "{anchor}"').read_text()
    site.path("appliance.toml").write_text(text.replace('"access.jsonl"', f'"{access}"'))
    with running(site) as service:
        assert service.ask().status_code == 200
        volume.fill()
        before = access.stat().st_size
        # what is admitted before the anchor is due is answered, and afterwards nothing
        statuses = [service.ask().status_code]
        why = service.wait_for(503)
        statuses += [service.ask().status_code for _ in range(20)]
        assert reasons(why) == FULL
        assert statuses[1:] == [503] * 20
        assert service.status()["access_log_lines_lost"] > 0
        assert access.stat().st_size < before + 4096
        volume.free()
        service.wait_for(200)
        assert service.ask().status_code == 200
        assert reasons(service.status()) == {}
    log_is_whole(site, site.path("log"), anchor)
    lines = access.read_bytes().split(b"\n")
    broken = [line for line in lines[:-1] if not is_object(line)]
    assert len(broken) <= 1
    assert is_object(lines[-2])
    assert lines[-1] == b""


def is_object(line: bytes) -> bool:
    """Whether a line of the access log is whole."""
    try:
        return isinstance(json.loads(line), dict)
    except json.JSONDecodeError:
        return False


def test_floors_without_room(site: Site, volume: Volume) -> None:
    floors = volume.folder / "floors"
    move(site, 'floors = "floors"', f'floors = "{floors}"')
    volume.fill()
    exit_code, line = refusal(site)
    assert exit_code == 3
    assert line.startswith(f"{floors} cannot be written: No space left on device")
    volume.free()
    with running(site):
        pass
    volume.fill()
    with running(site) as service:  # nothing is written where nothing has risen
        assert service.ask().status_code == 200


def test_kernels_that_cannot_be_kept(site: Site, volume: Volume) -> None:
    volume.fill()
    settings = {"XDG_CACHE_HOME": str(volume.folder / "cache")}
    exit_code, line = refusal(site, **settings)
    assert exit_code == 3
    assert line.startswith(str(volume.folder / "cache"))
    assert line.endswith("kernels cannot be kept there: No space left on device")


def test_kernels_that_cannot_be_prepared(volume: Volume) -> None:
    folder = volume.folder / "kernels"
    folder.mkdir()
    volume.fill()
    with pytest.raises(UnavailableError, match="No space"):
        prepare(folder)
    assert list(folder.iterdir()) == []
