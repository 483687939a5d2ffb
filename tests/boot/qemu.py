"""A machine that QEMU makes: it runs, it is asked from outside, its power is cut."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.boot.accel import Accelerator
from tests.boot.drive import Drive, DriveServer
from tests.boot.image import Image
from tests.boot.serial import Serial

QEMU = "qemu-system-x86_64"
MEMORY_MB = 2048


class Machine:
    """One machine with its disks, from a start to the next cut."""

    def __init__(
        self,
        folder: Path,
        image: Image,
        accelerator: Accelerator,
        drive: Drive,
        medium: Path | None,
    ) -> None:
        """Switch it on.

        Args:
            folder: for its console and its socket; with a short name.
            image: what it starts from. Never written.
            accelerator: how it computes.
            drive: its data disk.
            medium: the setup medium that is plugged in.
        """
        self.serial = Serial(folder / "console.log")
        self.serial.path.write_bytes(b"")
        self.port = free_port()
        self._accelerator, self._drive = accelerator, drive
        self.root = Drive(image.root, is_writable=False)
        self._servers = [
            DriveServer(self.root, folder / "root.sock"),
            DriveServer(drive, folder / "data.sock"),
        ]
        root, data = (f"file=nbd:unix:{server.path},format=raw" for server in self._servers)
        self._start_s = time.monotonic()
        words = [
            shutil.which(QEMU) or QEMU, *accelerator.words, "-smp", "2", "-m", f"{MEMORY_MB}M",
            "-display", "none", "-monitor", "none", "-no-reboot", "-nodefaults",
            "-serial", f"file:{self.serial.path}", "-device", "virtio-rng-pci",
            "-kernel", str(image.kernel), "-initrd", str(image.initrd),
            "-append", f"{image.cmdline} {accelerator.cmdline}",
            *_disk("windhover-root", f"{root},readonly=on"), *_disk("windhover-data", data),
            "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:443",
            "-device", "virtio-net-pci,netdev=net,romfile=",
        ]  # fmt: skip
        if medium is not None:
            words += _disk("windhover-setup", f"file={medium},format=raw")
        self._errors = folder / "qemu.log"
        with self._errors.open("wb") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log)

    @property
    def seconds(self) -> float:
        """How long it has been on."""
        return time.monotonic() - self._start_s

    @property
    def runs(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process.poll() is None

    def wait(self, what: str, is_there: Callable[[], bool], wait_s: float) -> float:
        """Wait for something; return the seconds since the start, or fail with the console.

        Args:
            what: for the message.
            is_there: asks whether it is there.
            wait_s: with KVM; an emulated machine has as many times longer.
        """
        end_s = time.monotonic() + wait_s * self._accelerator.slowness
        while time.monotonic() < end_s:
            if is_there():
                return self.seconds
            if not self.runs:
                self.fail(f"the machine ended while waiting for {what}")
            time.sleep(0.3)
        self.fail(f"no {what} in {self.seconds:.0f} s")
        return 0.0

    def end(self, what: str, wait_s: float) -> float:
        """Wait until the machine ends by itself; return the seconds since the start."""
        try:
            self._process.wait(wait_s * self._accelerator.slowness)
        except subprocess.TimeoutExpired:
            self.fail(f"the machine did not end: {what}")
        return self.seconds

    def cut(self, coin: bytes | None) -> tuple[int, int]:
        """Cut its power; return how many blocks were not flushed, and how many of them stayed."""
        self.stop()
        return self._drive.cut(coin)

    def stop(self) -> None:
        """End QEMU, and the server of its disk when all is done that the drive was told."""
        self._process.kill()
        self._process.wait(30)
        while self._servers:
            self._servers.pop().close()
        self.root.close()

    def fail(self, message: str) -> None:
        """Fail the test, and show the end of the console."""
        self.stop()
        said = self._errors.read_text(errors="replace")[-400:]
        pytest.fail(f"{message}\n{said}\n--- console\n{self.serial.tail(40)}", pytrace=False)


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def _disk(serial: str, words: str) -> list[str]:
    """Return a disk that the guest can tell by its serial number, and whose cache is volatile."""
    return [
        "-drive", f"if=none,id={serial},cache=writeback,{words}",
        "-device", f"virtio-blk-pci,drive={serial},serial={serial},write-cache=on",
    ]  # fmt: skip
