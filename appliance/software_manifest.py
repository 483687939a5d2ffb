"""The signed manifest of the software: read from a file and judged by a trust file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

from appliance.cli.errors import about
from appliance.cli.inputs import read_public
from crypto.errors import CryptoError
from crypto.floors import Floors
from crypto.revocations import MAX_REVOCATIONS_BYTES, Revocations, open_revocations
from crypto.software import MAX_MANIFEST_BYTES, SoftwareManifest, open_manifest
from crypto.trust import TrustFile


class Accepted(NamedTuple):
    """A manifest whose signature counts. key_name: what the trust file calls its signer."""

    manifest: SoftwareManifest
    key_name: str


def read_manifest(
    path: Path, trust: TrustFile, *, revocations: Revocations | Path | None
) -> Accepted:
    """Read a manifest and judge it now.

    Args:
        path: the file.
        trust: who may sign software.
        revocations: the list in force, or the file of one.

    Raises:
        OSError: a file cannot be read.
        FormatError, PolicyError: as of `open_manifest` and `open_revocations`.
    """
    now = int(time.time())
    listed = revocations
    if isinstance(listed, Path):
        with about(listed, errors=CryptoError):
            data = read_public(listed, MAX_REVOCATIONS_BYTES)
            listed = open_revocations(data, trust, floors=Floors(), now=now)
    with about(path, errors=CryptoError):
        manifest, key = open_manifest(
            read_public(path, MAX_MANIFEST_BYTES), trust, revocations=listed, now=now
        )
    return Accepted(manifest, key.name)


def describe_manifest(manifest: SoftwareManifest) -> dict[str, Any]:
    """Return what a manifest says, for people and as JSON."""
    return {
        "product": manifest.product,
        "version": ".".join(map(str, manifest.version)),
        "software_digest": manifest.software_digest.hex(),
        "files": manifest.num_files,
        "bytes": manifest.num_bytes,
        "list_digest": manifest.list_digest.hex(),
        "kernels": list(manifest.kernels),
        "numerics": list(manifest.numerics),
        "issued": manifest.issued,
    }
