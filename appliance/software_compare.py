"""What differs between a list of files and the files of this machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from appliance.software import SoftwareFile, list_digest
from appliance.software_list import list_file_digest, parse_list
from crypto.errors import PolicyError
from crypto.software import SoftwareManifest


class Differences(NamedTuple):
    """Paths, each ascending.

    missing: in the list, not here. added: here, not in the list. changed: of another length or
    content. modes: of the same content and with other permissions.
    """

    missing: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]
    modes: tuple[str, ...]

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return any(self)


def compare(listed: Iterable[SoftwareFile], found: Iterable[SoftwareFile]) -> Differences:
    """Return what differs.

    Args:
        listed: the files of a list.
        found: the files of this machine.
    """
    meant = {file.path: file for file in listed}
    here = {file.path: file for file in found}
    both = sorted(meant.keys() & here.keys())
    changed = [path for path in both if meant[path].digest != here[path].digest
               or meant[path].length_bytes != here[path].length_bytes]  # fmt: skip
    same = set(both) - set(changed)
    return Differences(
        missing=tuple(sorted(meant.keys() - here.keys())),
        added=tuple(sorted(here.keys() - meant.keys())),
        changed=tuple(changed),
        modes=tuple(path for path in both if path in same and meant[path].mode != here[path].mode),
    )


def read_list_of(manifest: SoftwareManifest, unverified_data: bytes) -> tuple[SoftwareFile, ...]:
    """Return the files of the list that a manifest names.

    Raises:
        FormatError: a rule of the list.
        PolicyError: `software-list-differs`: it is the list of another release.
    """
    files = parse_list(unverified_data)
    if (
        list_file_digest(unverified_data) != manifest.list_digest
        or list_digest(list(files)) != manifest.software_digest
        or len(files) != manifest.num_files
        or sum(file.length_bytes for file in files) != manifest.num_bytes
    ):
        raise PolicyError("software-list-differs", f"the list is not that of {manifest.name}")
    return files
