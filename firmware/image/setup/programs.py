"""Other programs, run to their end without a shell; what they print of secrets is not repeated."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from fault import SetupError
from places import Places, gives_away

SERVICE: Final = (901, 902)
"""User `windhover` and group `windhover-socket`, which have these numbers in every image."""

ADMIN_GROUP: Final = 901
"""Group `windhover`, which reads what root owns."""

_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"


def run(*words: str | Path, as_service: bool = False) -> str:
    """Run a program and return what it printed.

    Args:
        words: the program and its arguments.
        as_service: as the user of the service, where this is root.

    Raises:
        SetupError: it is not there, or it failed; with its last line.
    """
    user, group = SERVICE if as_service and gives_away() else (None, None)
    try:
        done = subprocess.run(  # noqa: S603  programs of the image, with arguments of our own
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            user=user,
            group=group,
            extra_groups=None if user is None else [ADMIN_GROUP],
            umask=0o077,
            env={"PATH": os.environ.get("WINDHOVER_SETUP_PATH", _PATH), "LC_ALL": "C.UTF-8"},
        )
    except OSError as error:
        raise SetupError(f"{words[0]}: {error.strerror}") from error
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()
        raise SetupError(f"{Path(words[0]).name} {words[1] if len(words) > 1 else ''}: {lines[-1]}")
    return done.stdout


def service_folder(places: Places, name: str) -> Path:
    """Make a folder in memory that the service's user alone can use."""
    folder = places.memory / name
    folder.mkdir(parents=True, exist_ok=True)
    # what is in it is the service's, and the way to it is open to nobody's listing
    places.memory.chmod(0o711)
    if gives_away():
        os.chown(folder, *SERVICE)
    folder.chmod(0o700)
    return folder
