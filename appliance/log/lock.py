"""The lock that makes one process the only writer of a log."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from appliance.log.errors import LogUnavailableError
from crypto.errors import WriteError


class FolderLock:
    """The lock of a folder, held from the start to `release`; it goes with the process."""

    def __init__(self, folder: Path) -> None:
        """Take the lock.

        Raises:
            LogUnavailableError: `locked`: somebody else has it.
            WriteError: its file cannot be made.
        """
        path = folder / "lock"
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise WriteError(f"{path} cannot be made: {error.strerror or error}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            if isinstance(error, BlockingIOError):
                message = f"another process writes the log in {folder}"
                raise LogUnavailableError("locked", message) from None
            raise WriteError(f"{path} cannot be locked: {error.strerror or error}") from error

    def release(self) -> None:
        """Let others have it."""
        os.close(self._descriptor)
