"""One change of a file at a time: who opened what somebody replaced since starts again."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from crypto.errors import WriteError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.vqf.file import VqfFile


@contextmanager
def exclusively(file: VqfFile) -> Iterator[None]:
    """Hold the lock under which an open file is replaced.

    Two commands that read the same file would otherwise each write what they know, and the second
    undo what the first did: a recipient that was removed would be back.

    Raises:
        WriteError: the file's name belongs to another file by now, or the lock cannot be had.
    """
    descriptor = file.descriptor
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        named, opened = file.path.stat(), os.fstat(descriptor)
    except OSError as error:
        raise WriteError(f"{file.path} cannot be changed: {error.strerror or error}") from error
    try:
        if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino):
            raise WriteError(f"{file.path} was replaced since it was opened; nothing was changed")
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
