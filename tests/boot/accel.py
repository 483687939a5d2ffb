"""Which accelerator QEMU can use: found by trying, for a /dev/kvm that is there may not work."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.boot.serial import Serial

TRY_S = 10.0
"""A kernel under KVM says its name within a second; one that says nothing in ten has hung."""

BANNER = "Linux version"
_KVM = ("-accel", "kvm", "-cpu", "host")
_EMULATED = ("-accel", "tcg,thread=multi", "-cpu", "max")
_FOR_EMULATION = "clearcpuid=cx16"
"""For the kernel's command line: cmpxchg16b of QEMU 7.2 leaves wrong flags behind, and a Linux 6.12
that uses it ends after seconds. Programs still find it: NumPy does not start without."""


@dataclass(frozen=True)
class Accelerator:
    """How the processor of the guest is made.

    name: `kvm` or `tcg`. words: for QEMU. cmdline: what the kernel's has besides. reason: why it is
    not KVM, empty if it is.
    slowness: by which waits for the guest are longer than with KVM.
    """

    name: str
    words: tuple[str, ...]
    cmdline: str
    reason: str
    slowness: float


KVM = Accelerator("kvm", _KVM, "", "", 1.0)


def emulated(reason: str) -> Accelerator:
    """Return software emulation, which has AVX2, F16C, FMA, BMI and MOVBE since QEMU 7.2."""
    return Accelerator("tcg", _EMULATED, _FOR_EMULATION, reason, 12.0)


def choose(
    qemu: str, kernel: Path, folder: Path, *, device: Path = Path("/dev/kvm"), try_s: float = TRY_S
) -> Accelerator:
    """Try KVM with the kernel of the image: it is usable if that kernel says its name in time.

    Args:
        qemu: the program.
        kernel: that is to run.
        folder: for the console of the trial.
        device: of KVM.
        try_s: seconds that the trial may take.
    """
    wanted = os.environ.get("WINDHOVER_BOOT_ACCEL")
    if wanted == "tcg":
        return emulated("WINDHOVER_BOOT_ACCEL asks for it")
    if not os.access(device, os.R_OK | os.W_OK):
        return emulated(f"{device} is not here, or not for this user")
    console = folder / "trial.log"
    words = [
        qemu, *_KVM, "-m", "512M", "-display", "none", "-monitor", "none", "-nic", "none",
        "-no-reboot", "-serial", f"file:{console}", "-kernel", str(kernel),
        "-append", "console=ttyS0 earlyprintk=ttyS0 panic=-1",
    ]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        end_s = time.monotonic() + try_s
        try:
            while time.monotonic() < end_s:
                if BANNER in Serial(console).text:
                    return KVM
                if process.poll() is not None:
                    assert process.stderr is not None
                    said = process.stderr.read().decode(errors="replace").strip().splitlines()
                    return emulated(f"KVM refuses: {(said or ['QEMU ended'])[0][:120]}")
                time.sleep(0.1)
        finally:
            process.kill()
    return emulated(f"{device} makes a machine in which the kernel says nothing in {try_s:.0f} s")
