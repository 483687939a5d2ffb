"""Whoever makes weights: a key, a small model, and what the operator puts on the setup medium."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.appliance.service.site import windhover

LINE = "tiny"
NAME = "tiny"
HOST = "ai.example"
SETUP = f"""\
version = 1
format_data = true
issuer = "an appliance"
model = "{NAME}"
hosts = ["{HOST}"]
clients = ["10.0.2.0/24"]

[network]
interface = "eth0"
addresses = ["10.0.2.15/24"]
gateway = "10.0.2.2"
"""
"""The network is QEMU's own: it gives the guest this address and comes from 10.0.2.2."""


class Vendor:
    """A folder with a key of role `weights`, and signed weights.

    trust: the trust file of the machine; signed: the weights.
    """

    def __init__(self, folder: Path, weights: Path, software: str) -> None:
        """Make the key, and sign.

        Args:
            folder: that is made.
            weights: plain ones.
            software: what a trust file says about keys of role `software`, or nothing.
        """
        folder.mkdir()
        self.trust = (
            f'version = 1\n\n[lines.{LINE}]\nsigners = ["vendor"]\nthreshold = 1\n\n'
            + windhover("keygen", folder / "vendor.pem", "--role", "weights", "--no-passphrase")
            + software
        )
        self.signed = folder / "signed.vqf"
        shutil.copy(weights, self.signed)
        windhover(
            "sign", self.signed, "--key", folder / "vendor.pem", "--line", LINE, "--release", 1
        )

    def seal(self, public_key: Path, into: Path) -> None:
        """Seal the weights for one machine."""
        windhover("seal", self.signed, into, "--to", public_key, "--force")
