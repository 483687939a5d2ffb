"""Weights that are read for each step, from a file that changes or fails under the service."""

from __future__ import annotations

import base64
import json
import os
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from crypto.keys import load_private_key
from crypto.signer import SoftwareUnwrapper
from engine.vqf import open_vqf
from engine.vqf.unlock import Unlock
from tests.appliance.failures.running import (
    Running,
    assert_closed,
    configure_production,
    log_is_whole,
    make_site,
    reasons,
    refusal,
    running,
)
from tests.appliance.failures.test_production import verified
from tests.appliance.failures.volume import ext4

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appliance.service.site import Site

pytestmark = [pytest.mark.slow]

CHANGED = {"integrity": "the weights no longer verify"}
UNREADABLE = {"weights": "the weights cannot be read any more"}


def streaming(folder: Path, weights: Path, kernels: Path, file: Path | None = None) -> Site:
    """Make a site in mode production that reads its sealed weights for each step."""
    site = make_site(folder, weights)
    configure_production(site, kernels)
    path = site.path("appliance.toml")
    lines = 'residency = "verified-stream"\nwindow_mb = 1\ndrop_page_cache = true\n[attest]'
    text = path.read_text().replace("[attest]", lines)
    if file is not None:
        shutil.move(site.path("model.vqf"), file)
        text = text.replace('"model.vqf"', f'"{file}"')
    path.write_text(text)
    return site


@pytest.fixture
def site(tmp_path: Path, tiny_file: Path, prepared_kernels: Path) -> Site:
    return streaming(tmp_path, tiny_file, prepared_kernels)


def place(site: Site, extent: str) -> int:
    """Return where the first matrix of an extent begins in the sealed file."""
    key = load_private_key(site.path("unseal.pem"), passphrase=None, role="unseal")
    with open_vqf(site.path("model.vqf"), Unlock((SoftwareUnwrapper(key),))) as file:
        found = file.extent(extent)
        matrix = next(t for t in found.tensors if len(t.shape) > 1)
        return file.preamble.data_offset + found.offset_bytes + matrix.offset_bytes


def flip(path: Path, offset: int) -> None:
    """Flip a bit of the file that is open elsewhere."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        (byte,) = os.pread(descriptor, 1, offset)
        os.pwrite(descriptor, bytes([byte ^ 1]), offset)
    finally:
        os.close(descriptor)


def content(events: list[str]) -> str:
    """Return the text of a stream."""
    texts = []
    for event in events[1:]:
        if event != "[DONE]":
            choices = json.loads(event).get("choices", ())
            texts += [choice["delta"].get("content") or "" for choice in choices]
    return "".join(texts)


class Streams:
    """Clients with a long answer each, of which all get the same text."""

    OPTIONS: Final[dict[str, Any]] = {"temperature": 0, "max_tokens": 300}

    def __init__(self, service: Running, number: int) -> None:
        self.service = service
        self.whole = list(service.events(**self.OPTIONS))
        assert self.whole[-1] == "[DONE]"
        self.streams: list[list[str]] = [[] for _ in range(number)]
        self._threads = [threading.Thread(target=self._read, args=(into,)) for into in self.streams]

    def start(self) -> None:
        """Begin, and return when all have some text."""
        for thread in self._threads:
            thread.start()
        for _ in range(1000):
            if all(len(events) > 4 for events in list(self.streams)):
                return
            time.sleep(0.01)
        pytest.fail("an answer did not begin")

    def join(self) -> None:
        """Wait until all have ended."""
        for thread in self._threads:
            thread.join()

    def _read(self, into: list[str]) -> None:
        into.extend(self.service.events(**self.OPTIONS))  # one by one, as they come

    def check(self, *codes: str) -> None:
        """Require of each an error with a statement, and only text that was right."""
        for events in self.streams:
            assert json.loads(events[-1])["error"]["code"] in codes
            assert not any('"finish_reason":"' in event for event in events)
            announced = json.loads(events[0])["announced"]
            found = self.service.get(f"/v1/attestations/{announced}").json()
            assert base64.b64decode(found["statement"])
            said = verified(self.service, announced)
            assert said["appliance_says"]["outcome"] == "error"
            assert content(self.whole).startswith(content(events[:-1]))


def is_refused(service: Running, why: dict[str, str]) -> None:
    """Require that nothing is answered any more, and that it says why."""
    assert reasons(service.wait_for(503)) == why
    for _ in range(2):
        assert_closed(service.ask())
    assert service.get("/health").status_code == 200
    assert reasons(service.status()) == why


@pytest.mark.ci
def test_a_bit_of_one_layer_flips_while_clients_are_answered(site: Site) -> None:
    with running(site) as service:
        streams = Streams(service, 3)
        announced = json.loads(streams.whole[0])["announced"]
        said = verified(service, announced)
        assert said["verdict"] == "PASS"
        assert said["appliance_says"]["residency"] == "verified-stream"
        streams.start()
        flip(site.path("model.vqf"), place(site, "layers.1"))
        streams.join()
        streams.check("integrity_error")
        is_refused(service, CHANGED)
        assert service.end()[0] == 0
    assert log_is_whole(site)["open_admissions"] == 0
    exit_code, line = refusal(site)
    assert exit_code == 1
    assert "does not have its tag" in line


@pytest.mark.ci
def test_the_file_becomes_shorter_while_clients_are_answered(site: Site) -> None:
    with running(site) as service:
        streams = Streams(service, 2)
        streams.start()
        os.truncate(site.path("model.vqf"), place(site, "layers.1"))
        streams.join()
        streams.check("engine_error")
        is_refused(service, UNREADABLE)
        assert service.end()[0] == 0
    assert log_is_whole(site)["open_admissions"] == 0


@pytest.mark.ci
def test_the_disk_goes_away_while_clients_are_answered(
    tmp_path: Path, tiny_file: Path, prepared_kernels: Path
) -> None:
    with ext4(tmp_path / "disk", 32 << 20) as disk:
        file = disk.folder / "model.vqf"
        folder = tmp_path / "site"
        folder.mkdir()
        site = streaming(folder, tiny_file, prepared_kernels, file)
        with running(site) as service:
            streams = Streams(service, 2)
            streams.start()
            disk.shut_down()
            streams.join()
            streams.check("engine_error")
            is_refused(service, UNREADABLE)
            assert service.end()[0] == 0
        assert log_is_whole(site)["open_admissions"] == 0
        disk.mount_again()
        with running(site) as service:
            assert service.ask().status_code == 200
