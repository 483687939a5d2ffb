"""The image that is tested, and the signed list of its software."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.appliance.service.site import windhover
from tests.boot.image import Image, build, given, image_of
from tests.boot.transcript import Transcript

VERSION = "0.1.0"
MANIFEST, TRUST = "software.cose", "software.toml"


@dataclass(frozen=True)
class Release:
    """An image, and who signed what is in it.

    manifest: None where the image has none. trust: lines for a trust file that name the signer.
    """

    image: Image
    manifest: Path | None
    trust: str

    @property
    def words(self) -> list[str]:
        """What the verifier is given."""
        return [] if self.manifest is None else ["--software", str(self.manifest)]

    def says(self, report: dict[str, Any]) -> str:
        """Return what a report says about the software: its release, or its digest alone."""
        says: dict[str, str] = report["appliance_says"]
        return says.get("software release", "software of no known release")


def release_of(folder: Path, said: Transcript) -> Release:
    """Take the image that the environment names, or build one: twice, once to be signed.

    A folder that is named holds `software.cose` and `software.toml` when its software is signed.

    Args:
        folder: for what is made.
        said: where the sizes are told.
    """
    named = given()
    if named is None:
        built = build(folder / "unsigned")
        key = folder / "software.pem"
        (folder / TRUST).write_text(
            windhover("keygen", key, "--role", "software", "--no-passphrase")
        )
        words = ["--key", key, "--version", VERSION]
        windhover("software", "sign", built / "software.list", folder / MANIFEST, *words)
        image = image_of(build(folder / "signed", "--manifest", str(folder / MANIFEST)))
    else:
        image, folder = image_of(named), named
    sizes = [f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in image.files]
    said.say(f"  {', '.join(sizes)}, root hash {image.root_hash}")
    manifest, trust = folder / MANIFEST, folder / TRUST
    if not manifest.exists():
        said.say("  its software is not signed")
        return Release(image, None, "")
    return Release(image, manifest, trust.read_text())
