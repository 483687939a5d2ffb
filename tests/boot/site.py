"""One appliance over all its starts: disks, keys that it exported, and what clients hold of it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.appliance.service.site import windhover
from tests.boot import disks
from tests.boot.accel import Accelerator
from tests.boot.client import Answer, Client
from tests.boot.drive import Drive
from tests.boot.image import Image
from tests.boot.qemu import Machine
from tests.boot.transcript import Transcript
from tests.boot.vendor import NAME, SETUP, Vendor
from tests.firmware.tools import FIRMWARE

READY_S = 90
"""For a start up to `ready`, with KVM."""

DONE = "windhover-setup: machine done"

_MB = 1 << 20
_DATA_BYTES, _MEDIUM_BYTES = 4096 * _MB, 64 * _MB
_LOG, _ANCHOR = "/state/log", "/anchor"


class Site:
    """One appliance.

    image: what it starts from when nothing else is said. exported: the folder that the first start
    left on the medium. trust: a trust file of the auditor, made from that. reads: where the root
    was read by the last start that became ready, in order.
    """

    def __init__(
        self, folder: Path, image: Image, accelerator: Accelerator, vendor: Vendor, said: Transcript
    ) -> None:
        """Make a blank data disk; nothing is started.

        Args:
            folder: with a short name, for there are sockets in it.
            image: the good one.
            accelerator: how machines compute.
            vendor: who makes the weights.
            said: where each step is told.
        """
        self.folder, self.image, self.vendor, self.said = folder, image, vendor, said
        self.accelerator = accelerator
        self.data = disks.blank(folder / "data.img", _DATA_BYTES)
        self.exported = folder / "exported"
        self.trust = folder / "auditor.toml"
        self.reads: list[int] = []
        self._machine: Machine | None = None
        self._drive: Drive | None = None

    def start(self, image: Image | None = None, medium: Path | None = None) -> Machine:
        """Switch the machine on; what ran before loses its power."""
        self.cut()
        self._drive = Drive(self.data)
        self._machine = Machine(
            self.folder, image or self.image, self.accelerator, self._drive, medium
        )
        return self._machine

    def cut(self, coin: bytes | None = None) -> tuple[int, int]:
        """Cut the power of what runs; return as `Drive.cut` does."""
        lost = (0, 0)
        if self._machine is not None and self._drive is not None:
            lost = self._machine.cut(coin)
            self._drive.close()
        self._machine = self._drive = None
        return lost

    @property
    def client(self) -> Client:
        """A client of the machine that runs."""
        assert self._machine is not None
        key = (self.exported / "api.key").read_text().strip()
        wait_s = 20 * self.accelerator.slowness
        certificate = self.exported / "tls.crt"
        return Client(self._machine.port, certificate, key, model=NAME, timeout_s=wait_s)

    def ready(self) -> Machine:
        """Return a machine that answers: the one that runs, or a new start."""
        machine = self._machine
        if machine is None or not machine.runs or not self.client.is_ready():
            machine = self.start()
            self.until_ready(machine)
        return machine

    def until_ready(self, machine: Machine) -> float:
        """Wait until it answers through nginx and TLS; return the seconds since its start."""
        seconds = machine.wait("ready", self.client.is_ready, READY_S)
        self.reads = list(machine.root.reads)
        self.said.say(f"  ready {seconds:.0f} s after the start")
        return seconds

    def provision(self) -> None:
        """Start twice: keys are made and exported, then the weights are sealed and installed."""
        files = self.folder / "medium"
        files.mkdir()
        medium = self.folder / "medium.img"
        (files / "setup.toml").write_text(SETUP)
        (files / "trust.toml").write_text(self.vendor.trust)
        disks.make_medium(medium, files, _MEDIUM_BYTES)
        with self.said.step(
            "start 1: a blank data disk, and a medium that says it may be formatted"
        ):
            machine = self.start(medium=medium)
            machine.wait("exported keys", lambda: bool(machine.serial.find(DONE)), READY_S)
            self.cut()
            disks.read_folder(medium, "/export", self.folder / "out").rename(self.exported)
            names = ", ".join(sorted(path.name for path in self.exported.iterdir()))
            self.said.say(f"  exported: {names}")
        lines = (self.exported / "verifier-lines.toml").read_text()
        self.trust.write_text(self.vendor.trust + "\n" + lines)
        tomllib.loads(self.trust.read_text())
        with self.said.step("start 2: weights that were sealed for the exported key"):
            self.vendor.seal(self.exported / "unseal.pub.pem", files / "model.vqf")
            disks.make_medium(medium, files, _MEDIUM_BYTES)
            self.until_ready(self.start(medium=medium))

    def verify(self, answer: Answer, bundle: bytes, *words: str) -> dict[str, Any]:
        """Let the verifier of the checkout judge an answer, which must pass; return its report."""
        for name, data in (
            ("bundle", bundle), ("request", answer.request), ("response", answer.response),
        ):  # fmt: skip
            (self.folder / name).write_bytes(data)
        done = subprocess.run(
            [
                sys.executable, "-m", "verifier", "bundle", "--trust", str(self.trust), "--request",
                "request", "--response", "response", "--nonce", answer.nonce, "--json", *words,
            ],
            cwd=self.folder, check=False, capture_output=True, text=True,
            env={"PYTHONPATH": str(FIRMWARE.parent)},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def replay(self, bundle: bytes) -> str:
        """Compute an answer again on this processor, with the vendor's weights: the verdict."""
        path = self.folder / "bundle"
        path.write_bytes(bundle)
        words = ["--weights", self.vendor.signed, "--full", "--trust", self.trust, "--json"]
        verdict: str = json.loads(windhover("audit", path, *words).splitlines()[-1])["verdict"]
        return verdict

    def log_check(self) -> dict[str, Any]:
        """Read the log on a copy of the disk, whose power is off: every record and signature."""
        copy = disks.replayed(self.data, self.folder / "copy.img")
        log = disks.read_folder(copy, _LOG, self.folder / "log")
        anchor = disks.read_folder(copy, _ANCHOR, self.folder / "anchor") / "anchor"
        copy.unlink()
        out = windhover(
            "log", "check", log, "--anchor", anchor, "--trust", self.trust, "--all-signatures",
            "--json",
        )  # fmt: skip
        checked: dict[str, Any] = json.loads(out.splitlines()[-1])
        return checked
