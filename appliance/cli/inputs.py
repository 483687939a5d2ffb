"""Files that say what to trust: where they are, and how they are read."""

from __future__ import annotations

import os
from pathlib import Path

import click

from crypto.errors import FormatError
from crypto.trust import TrustFile
from crypto.trust_toml import MAX_BYTES as MAX_TRUST_BYTES
from crypto.trust_toml import line_and_column


def read_trust(path: Path) -> TrustFile:
    """Return the trust file at `path`.

    Raises:
        OSError: it cannot be read.
        FormatError: it is malformed; the message names file and line.
    """
    data = read_public(path, MAX_TRUST_BYTES)
    try:
        return TrustFile.parse(data)
    except FormatError as error:
        line, _ = line_and_column(data, error.offset)
        error.add_note(f"{path}, line {line}")
        raise


def read_public(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file that anybody may read, and one byte more than it may have."""
    with path.open("rb") as stream:
        return stream.read(max_bytes + 1)


def default_floors() -> Path:
    """Return where this user, or under systemd this service, keeps its floors.

    Raises:
        UsageError: the user has no home directory.
    """
    # systemd separates several directories by colons.
    if service := os.environ.get("STATE_DIRECTORY", "").partition(":")[0]:
        return Path(service) / "floors"
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():  # as the XDG base directory specification wants it
        try:
            state = Path.home() / ".local" / "state"
        except RuntimeError:
            message = "there is no home directory to keep floors in; name a file with --floors"
            raise click.UsageError(message) from None
    return state / "windhover" / "floors"
